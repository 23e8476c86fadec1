"""Peers: agents that send each other mail."""
