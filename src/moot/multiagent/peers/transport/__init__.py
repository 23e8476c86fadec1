"""The exchange with other daemons over the broker: presence, the outbox, and what arrives."""
