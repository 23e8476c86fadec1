"""Backup of a whole home as one archive, and its restore, also into a home at another path."""
