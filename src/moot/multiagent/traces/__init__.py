"""Traces of runs: recorded facts, and the timeline and the ledger derived from what is stored."""
