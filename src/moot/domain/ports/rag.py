"""The DocumentIndex port: what was indexed for each owner. Implemented in store/documents.py and store/memory/."""

from collections.abc import Sequence
from typing import Protocol

from moot.domain.conversation import ConversationKey
from moot.domain.rag import (
    Document,
    DocumentChange,
    IndexedPassage,
    PassageVectors,
    Source,
    SourceKind,
    SourceReport,
    WordParts,
)


class DocumentIndex(Protocol):
    """Sources, documents and passages. An owner is an agent together with a sender and sees nothing of others."""

    # ---- sources ----

    async def add_source(
        self, owner: ConversationKey, kind: SourceKind, place: str, *, folder: str, taint: frozenset[str], now: float
    ) -> Source:
        """Store a source, or return the one with this place, which then is not complete any more."""
        ...

    async def complete_source(self, owner: ConversationKey, source: int, now: float) -> None: ...
    async def list_sources(self, owner: ConversationKey) -> list[SourceReport]: ...
    async def find_sources(self, owner: ConversationKey) -> list[Source]:
        """Return the sources like `list_sources`, without counting what they have."""
        ...

    async def list_unfinished(self) -> list[tuple[ConversationKey, Source]]:
        """Return the sources of all owners that were never indexed in full."""
        ...

    async def forget_source(self, owner: ConversationKey, source: int) -> int:
        """Delete a source with everything indexed of it; return the number of its documents."""
        ...

    # ---- documents ----

    async def list_documents(
        self, owner: ConversationKey, source: int, names: Sequence[str] | None = None
    ) -> list[Document]:
        """Return the documents of a source by name; all of them unless `names` are given."""
        ...

    async def put_documents(self, owner: ConversationKey, source: int, changes: Sequence[DocumentChange]) -> bool:
        """Replace documents and their passages in one transaction; False if the source was forgotten meanwhile."""
        ...

    async def touch_documents(self, owner: ConversationKey, source: int, documents: Sequence[Document]) -> None:
        """Note the new time of files whose content is the same."""
        ...

    async def remove_documents(self, owner: ConversationKey, source: int, names: Sequence[str]) -> None: ...

    # ---- passages ----

    async def find_words(
        self,
        owner: ConversationKey,
        terms: Sequence[str],
        *,
        parts: Sequence[WordParts] = (),
        source: int | None = None,
        limit: int,
    ) -> list[int]:
        """Return the numbers of passages with any of the terms, best first; of words that no passage has, the parts.

        They are those of one source if it is given.
        """
        ...

    async def list_numbers(self, owner: ConversationKey, source: int) -> list[int]:
        """Return the numbers of all passages of a source."""
        ...

    async def list_passages(self, owner: ConversationKey, source: int, document: str) -> list[IndexedPassage]:
        """Return the passages of a document in their order."""
        ...

    async def list_vectors(
        self, owner: ConversationKey, *, embedder: str, after: int, unless: int = -1
    ) -> PassageVectors:
        """Return the vectors that `embedder` has made of passages beyond a number.

        There are none, and no count, if the version is still `unless`.
        """
        ...

    async def get_passages(self, owner: ConversationKey, numbers: Sequence[int]) -> list[IndexedPassage]:
        """Return those of the passages that still exist, in the order of the numbers."""
        ...
