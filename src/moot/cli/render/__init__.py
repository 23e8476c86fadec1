"""Renders runs, asks, calls and traces as lines for a terminal or as plain data for --json."""
