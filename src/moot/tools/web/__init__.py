"""The web tools: HTTP to permitted addresses, page reading and search."""
