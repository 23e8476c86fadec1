"""Agents that work together: who has which tools, who is set to work, and what comes of it."""
