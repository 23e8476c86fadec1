"""The ports: what a model, a tool, a hook, the clock and storage must offer; adapters implement them."""
