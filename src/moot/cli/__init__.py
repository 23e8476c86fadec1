"""The moot command."""
