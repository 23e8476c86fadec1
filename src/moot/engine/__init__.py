"""The engine: runs, turns, the agent loop and the tool gate. The only package that calls a model."""
