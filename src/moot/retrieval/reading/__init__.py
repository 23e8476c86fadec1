"""Reads documents in a process of its own: text from files, passages from text, terms and vectors of passages."""
