"""The chat in the terminal: `moot chat AGENT`. `controller` runs it, `screen` draws it."""
