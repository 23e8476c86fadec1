"""Tools of MCP servers: each behind a name, a safety and a pinned description of ours."""
