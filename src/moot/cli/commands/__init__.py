"""The subcommands of moot, one module for each family of commands."""
