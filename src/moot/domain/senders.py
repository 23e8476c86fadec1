"""Senders of conversations that belong to runs, and whose each conversation is. Pure."""

# Senders of the conversations that spawned and background runs have to themselves.
CHILD_SENDER = "run:"
BACKGROUND_SENDER = "bg:"


def owner_of(sender: str) -> str:
    """Whose the conversation with a sender is: that of a background run is its owner's, any other the sender's own."""
    if not sender.startswith(BACKGROUND_SENDER):
        return sender
    return sender.removeprefix(BACKGROUND_SENDER).partition(":")[2] or sender
