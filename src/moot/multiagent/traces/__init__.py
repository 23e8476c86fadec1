"""Traces of runs: recorded facts, the ledger mirror, and the timeline put together when read."""
