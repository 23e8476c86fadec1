"""Agent definitions, read from AGENT.md files."""
