"""The hooks around a tool call. The engine's gate calls them in order."""
