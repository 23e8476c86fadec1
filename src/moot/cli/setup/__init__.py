"""`moot init`, and editing of config.toml."""
