"""Classifies shell commands: words, paths, wrappers, data flow and rules for programs. `grammar` is the entry point."""
