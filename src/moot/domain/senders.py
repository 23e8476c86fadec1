"""What names tell: whose a conversation is by its sender, and what is asked by the id of an ask. Pure."""

# Senders of the conversations that spawned and background runs have to themselves.
CHILD_SENDER = "run:"
BACKGROUND_SENDER = "bg:"
_GRANT = "grant-"


def owner_of(sender: str) -> str:
    """Whose the conversation with a sender is: that of a background run is its owner's, any other the sender's own."""
    if not sender.startswith(BACKGROUND_SENDER):
        return sender
    return sender.removeprefix(BACKGROUND_SENDER).partition(":")[2] or sender


def grant_id(run_id: str, tool: str) -> str:
    """The same for as long as the run lives, however often it is asked."""
    return f"{_GRANT}{run_id}-{tool}"


def is_grant(ask_id: str) -> bool:
    return ask_id.startswith(_GRANT)
