"""The chat in the terminal: `moot chat AGENT`."""
