"""The sandbox that commands and scripts run in: what they see, what they may do, and how they end."""
