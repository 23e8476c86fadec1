"""Goal: the reachable side of a conversation or background run. Its id is derived from the store and the conversation.

Listed by store/mail.py; multiagent/peers/ decides which goals a sender may reach. Pure.
"""

from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.senders import BACKGROUND_SENDER, CHILD_SENDER, is_reserved, owner_of
from moot.domain.uuid_text import read_uuid, write_uuid

# The bits of the conversation's number and of the store's in an id; the rest says that it is a UUID of version 8.
_NUMBER_BITS, _STORE_BITS = 60, 62
# Numbers are multiplied by this, so that the ids of two goals differ in their first characters.
_FACTOR = 0xE3779B97F4A7C15
_INVERSE = pow(_FACTOR, -1, 1 << _NUMBER_BITS)


class GoalKind(StrEnum):
    INTERACTIVE = "interactive"
    BACKGROUND = "background"
    DAEMON = "daemon"


class GoalState(StrEnum):
    RUNNING = "running"
    QUEUED = "queued"
    IDLE = "idle"


class MailTarget(Struct, frozen=True, kw_only=True, gc=False):
    """What decides whether a goal is sent mail: whose it is, and whether anybody will read it."""

    id: str
    key: ConversationKey
    # The conversation a person is in: its own, or the one in which its tree of runs began.
    root: ConversationKey
    state: GoalState

    @property
    def agent(self) -> str:
        return self.key.agent

    @property
    def owner(self) -> str:
        return owner_of(self.root.sender)

    @property
    def kind(self) -> GoalKind:
        sender = self.key.sender
        if not is_reserved(sender):
            return GoalKind.INTERACTIVE
        return GoalKind.BACKGROUND if sender.startswith((CHILD_SENDER, BACKGROUND_SENDER)) else GoalKind.DAEMON

    @property
    def has_ended(self) -> bool:
        """Whether nobody will read its mail any more: the run it belonged to has ended."""
        return self.state is GoalState.IDLE and is_reserved(self.key.sender)


class Goal(MailTarget, frozen=True, kw_only=True):
    # The title of the conversation, or the task of its run.
    label: str = ""
    unread: int = 0
    active_at: float = 0.0


@lru_cache(maxsize=4096)
def make_goal_id(store: int, conversation: int) -> str:
    """Return the id of a goal: a UUID of version 8 that contains the number of its store and of its conversation."""
    number = conversation * _FACTOR % (1 << _NUMBER_BITS)
    high = (number >> 12) << 80 | 8 << 76 | (number & 0xFFF) << 64
    return write_uuid(high | 2 << _STORE_BITS | store)


@lru_cache(maxsize=4096)
def read_goal_id(text: str) -> tuple[int, int] | None:
    """Return the numbers of the store and of the conversation; None if the text is no id of a goal."""
    value = read_uuid(text)
    if value is None or value >> 76 & 15 != 8 or value >> _STORE_BITS & 3 != 2:
        return None
    number = value >> 80 << 12 | value >> 64 & 0xFFF
    return value & (1 << _STORE_BITS) - 1, number * _INVERSE % (1 << _NUMBER_BITS)
