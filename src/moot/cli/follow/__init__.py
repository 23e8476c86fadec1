"""Follows one run to its end for a command and prompts for its asks."""
