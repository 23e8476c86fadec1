"""The chat in the terminal: `moot chat AGENT`. `room` controls it, `screen` draws it."""
