"""The subcommands of moot, one module for each group of commands."""
