"""What is deleted with a conversation, and what is deleted after its time. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.outbox import ReturnedMail

# Why its unread mail comes back to the senders.
DELETED_UNREAD = "its conversation was deleted"


class DeletionCounts(Struct, frozen=True, kw_only=True):
    """What deleting a conversation would remove."""

    messages: int
    archives: int
    runs: int
    memories: int = 0
    tasks: int = 0
    notes: int = 0
    outputs: int = 0
    # Learnings from tool calls, results stored as knowledge, and inquiries.
    lessons: int = 0
    # Rules made in it, permanent or for one of its runs.
    rules: int = 0
    # Messages from other agents.
    mail: int = 0
    # Scheduled jobs that it owns.
    schedules: int = 0
    # Documents that were indexed for it.
    documents: int = 0


class Deletion(Struct, frozen=True, kw_only=True):
    """What was removed with a conversation, and the unread mail that comes back to senders in this store."""

    counts: DeletionCounts
    returned: Sequence[ReturnedMail] = ()


class ExpiredData(Struct, frozen=True):
    """What was deleted after its time: the conversations of runs, and how many other records."""

    conversations: tuple[ConversationKey, ...] = ()
    others: int = 0

    @property
    def count(self) -> int:
        return len(self.conversations) + self.others
