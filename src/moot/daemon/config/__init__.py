"""Reading and checking config.toml."""
