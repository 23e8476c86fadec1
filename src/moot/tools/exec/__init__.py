"""The tools that run shell commands and skill scripts in the sandbox."""
