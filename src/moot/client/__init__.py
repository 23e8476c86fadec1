"""A typed connection to a running daemon."""
