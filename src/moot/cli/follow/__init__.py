"""Following one run to its end and handling what it asks."""
