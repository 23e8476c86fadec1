"""The daemon: `app` composes it, `listen` accepts clients, `requests` answers them, `config` reads config.toml."""
