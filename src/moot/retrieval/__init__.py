"""Indexes documents and finds passages in them: the tools rag_* and what `moot rag` does."""
