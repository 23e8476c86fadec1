"""Deterministic simulation: the real engine on in-memory ports, in virtual time, driven by a seed."""
