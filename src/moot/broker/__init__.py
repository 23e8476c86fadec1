"""Connections to the broker that carries mail and presence between daemons: in memory, and NATS with JetStream."""
