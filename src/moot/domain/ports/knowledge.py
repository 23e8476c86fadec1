"""Storage ports of the librarian: knowledge in versions, learnings from calls, inquiries. Implemented in store/."""

from collections.abc import Sequence
from typing import Protocol

from moot.domain.conversation import ConversationKey
from moot.domain.inquiry import Inquiry, InquiryProgress, InquiryStatus
from moot.domain.knowledge import Knowledge, KnowledgeCategory, KnowledgeReader, SavedKnowledge
from moot.domain.learning import CallLearning, Learning, LearningCategory, LearningFilter, LearningStats


class KnowledgeStore(Protocol):
    """Knowledge by owner. Search finds the newest version of what was saved, and every kept result of a tool."""

    async def save(self, item: Knowledge) -> SavedKnowledge:
        """Add a version, unless the newest one says the same with the same taint."""
        ...

    async def keep_results(self, items: Sequence[Knowledge], *, versions: int) -> None:
        """Add results of tools; the newest `versions` of each key are kept. None is for a deleted conversation."""
        ...

    async def search(
        self, reader: KnowledgeReader, query: str, *, category: KnowledgeCategory | None = None, limit: int
    ) -> list[Knowledge]:
        """Return the entries that match the query, best first."""
        ...

    async def list_versions(self, reader: KnowledgeReader, key: str) -> list[Knowledge]:
        """Return the kept versions of a key, newest first; none if there is no such key."""
        ...

    async def list_newest(
        self, reader: KnowledgeReader, *, category: KnowledgeCategory | None = None, after: str = "", limit: int
    ) -> list[Knowledge]:
        """Return the newest version of each key after `after`, in the order of the keys."""
        ...

    async def forget(self, owner: str, key: str) -> int:
        """Delete a key with all its versions; return how many there were."""
        ...


class Learnings(Protocol):
    """Failures of tools and their fixes, by owner."""

    async def learn(self, learned_calls: Sequence[CallLearning]) -> None:
        """Record calls, in batches; the hooks write here after calls. Nothing is kept of a deleted conversation."""
        ...

    async def save(self, learning: Learning) -> bool:
        """Store what was written down, replacing the one about the same failure; return True if it is new."""
        ...

    async def list_of_trigger(self, owner: str, trigger: str) -> list[Learning]:
        """Return the learnings with a fix about one trigger, newest first, at most 200."""
        ...

    async def search(
        self, owner: str, query: str, *, category: LearningCategory | None = None, limit: int
    ) -> list[Learning]:
        """Return the learnings that match the query, best first."""
        ...

    async def list_all(self, owner: str, *, after: str = "", limit: int) -> list[Learning]:
        """Return learnings after the one with this id, in the order of their ids."""
        ...

    async def count(self, owner: str) -> LearningStats: ...

    async def clean(self, owner: str, wanted: LearningFilter, *, dry_run: bool) -> list[str]:
        """Delete learnings and return their ids; with `dry_run` only return them."""
        ...


class Inquiries(Protocol):
    """Questions of the librarian, by conversation; those of one sender are never asked twice."""

    async def find_progress(self, key: ConversationKey) -> InquiryProgress:
        """Return how far a conversation was analysed; nothing at all if there is no such conversation."""
        ...

    async def record(self, key: ConversationKey, found: Sequence[Inquiry], *, analysed_seq: int, most: int) -> int:
        """Record an analysis and add the inquiries it found; return how many were added.

        Left out are those with a topic or a question that the sender had before, and those beyond `most` pending ones.
        """
        ...

    async def take(self, key: ConversationKey, run_id: str, *, cooldown: int, now: float) -> Inquiry | None:
        """Return the inquiry that the run is to ask, which no other run is given.

        None if there is none, or if the person has written fewer than `cooldown` messages since the last one.
        """
        ...

    async def list_all(
        self, sender: str, *, agent: str = "", status: InquiryStatus | None = None, limit: int
    ) -> list[Inquiry]:
        """Return the inquiries of a sender, or of one conversation, the most important first, then the oldest."""
        ...

    async def find(self, sender: str, inquiry_id: str) -> Inquiry | None:
        """Return an inquiry of a sender."""
        ...

    async def close(
        self, sender: str, inquiry_id: str, status: InquiryStatus, *, answer: str = "", now: float
    ) -> Inquiry | None:
        """Resolve or dismiss a pending inquiry; None if there is no such one."""
        ...
