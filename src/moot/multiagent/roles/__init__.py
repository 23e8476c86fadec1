"""Roles of agents: what a coordinator and a worker are told, and which tools they have."""
