"""Storage in memory: every storage port without a disk. storage.py builds it, database.py holds the rows."""
