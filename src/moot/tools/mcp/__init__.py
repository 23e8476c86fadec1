"""Tools of MCP servers, each with a prefixed name, a safety and an approved description."""
