"""Text of agents in a terminal: Markdown while it is streamed, or unchanged. Used by `chat` and `follow`."""
