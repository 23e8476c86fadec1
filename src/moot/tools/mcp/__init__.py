"""Tools of MCP servers: each behind a name, a safety and an approved description."""
