"""What happens around a tool call: the links of the one hook chain."""
