"""In-memory implementation of every storage port. storage.py builds it, database.py has the rows."""
