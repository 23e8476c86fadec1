"""Teammates: runs that agents spawn and people put into the background."""
