"""Senders of conversations: reserved ones, the owner of a conversation, and sets of senders. Pure."""

from fnmatch import fnmatchcase

from msgspec import Struct

# Prefixes of the senders of conversations that belong to spawned and background runs, and to runs of schedules and
# workflows.
CHILD_SENDER = "run:"
BACKGROUND_SENDER = "bg:"
CRON_SENDER = "cron:"
WORKFLOW_SENDER = "workflow:"
# Prefixes of senders that end with their owner, after a colon.
OWNED_SENDERS = (BACKGROUND_SENDER, CRON_SENDER, WORKFLOW_SENDER)
# Prefixes of the senders of conversations in which no person talks.
RUN_SENDERS = (CHILD_SENDER, *OWNED_SENDERS)
# Prefixes of senders that clients may not use.
RESERVED_SENDERS = (CHILD_SENDER, CRON_SENDER, "team:", BACKGROUND_SENDER, WORKFLOW_SENDER)
# The sender of the owner.
OWNER_SENDER = "user"


class SenderSet(Struct, frozen=True, kw_only=True):
    """Senders that belong to one principal: all of them, or some by name and by pattern."""

    is_everyone: bool = False
    names: tuple[str, ...] = ()
    # Shell patterns: `tg:*`.
    patterns: tuple[str, ...] = ()

    def includes(self, sender: str) -> bool:
        """Whether conversations with the sender belong to the principal.

        Those of a background run belong to its owner.
        """
        owner = owner_of(sender)
        if is_reserved(owner):
            return False
        return self.is_everyone or owner in self.names or any(fnmatchcase(owner, each) for each in self.patterns)


def is_reserved(sender: str) -> bool:
    return sender.startswith(RESERVED_SENDERS)


def owner_of(sender: str) -> str:
    """Return the owner of a conversation: the one named in a sender of a background run, else the sender itself."""
    prefix = next((each for each in OWNED_SENDERS if sender.startswith(each)), "")
    return sender.removeprefix(prefix).partition(":")[2] or sender if prefix else sender
