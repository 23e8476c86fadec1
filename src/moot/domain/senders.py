"""Senders of conversations: the reserved ones, whose a conversation is, and sets of senders. Pure."""

from fnmatch import fnmatchcase

from msgspec import Struct

# Senders of the conversations that spawned and background runs have to themselves.
CHILD_SENDER = "run:"
BACKGROUND_SENDER = "bg:"
# How senders begin that nobody may use from outside.
RESERVED_SENDERS = (CHILD_SENDER, "cron:", "team:", BACKGROUND_SENDER)


class SenderSet(Struct, frozen=True, kw_only=True):
    """Senders that belong to one principal: all of them, or some by name and by pattern."""

    is_everyone: bool = False
    names: tuple[str, ...] = ()
    # As in a shell: `tg:*`.
    patterns: tuple[str, ...] = ()

    def includes(self, sender: str) -> bool:
        """Whether the conversations with a sender belong to it. One of a background run is its owner's."""
        owner = owner_of(sender)
        if is_reserved(owner):
            return False
        return self.is_everyone or owner in self.names or any(fnmatchcase(owner, each) for each in self.patterns)


def is_reserved(sender: str) -> bool:
    return sender.startswith(RESERVED_SENDERS)


def owner_of(sender: str) -> str:
    """Whose the conversation with a sender is: that of a background run is its owner's, any other the sender's own."""
    if not sender.startswith(BACKGROUND_SENDER):
        return sender
    return sender.removeprefix(BACKGROUND_SENDER).partition(":")[2] or sender
