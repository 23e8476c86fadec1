"""Moot: a daemon where people and agents meet to talk and get work done."""

__version__ = "0.1.0"
