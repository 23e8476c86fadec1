"""The index of documents in SQLite, with full text and vectors. The statements are in document_rows.py."""

from collections.abc import Sequence

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
from moot.store import document_rows
from moot.store.sqlite import SqliteStore


class SqliteDocuments:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def add_source(
        self, owner: ConversationKey, kind: SourceKind, place: str, *, folder: str, taint: frozenset[str], now: float
    ) -> Source:
        source = Source(number=0, kind=kind, place=place, folder=folder, taint=taint, added_at=now)
        return await self._store.write(lambda db: document_rows.add_source(db, owner, source), "documents")

    async def complete_source(self, owner: ConversationKey, source: int, now: float) -> None:
        await self._store.write(lambda db: document_rows.complete_source(db, owner, source, now), "documents")

    async def list_sources(self, owner: ConversationKey) -> list[SourceReport]:
        return await self._store.read(lambda db: document_rows.list_sources(db, owner))

    async def find_sources(self, owner: ConversationKey) -> list[Source]:
        return await self._store.read(lambda db: document_rows.find_sources(db, owner))

    async def list_unfinished(self) -> list[tuple[ConversationKey, Source]]:
        return await self._store.read(document_rows.list_unfinished)

    async def forget_source(self, owner: ConversationKey, source: int) -> int:
        forgotten = await self._store.write(lambda db: document_rows.forget_source(db, owner, source), "documents")
        if forgotten.passages:
            await self._store.purge()
        return forgotten.documents

    async def list_documents(
        self, owner: ConversationKey, source: int, names: Sequence[str] | None = None
    ) -> list[Document]:
        return await self._store.read(lambda db: document_rows.list_documents(db, owner, source, names))

    async def put_documents(self, owner: ConversationKey, source: int, changes: Sequence[DocumentChange]) -> bool:
        return await self._store.write(lambda db: document_rows.put_documents(db, owner, source, changes), "documents")

    async def touch_documents(self, owner: ConversationKey, source: int, documents: Sequence[Document]) -> None:
        await self._store.write(lambda db: document_rows.touch_documents(db, owner, source, documents), "documents")

    async def remove_documents(self, owner: ConversationKey, source: int, names: Sequence[str]) -> None:
        await self._store.write(lambda db: document_rows.remove_documents(db, owner, source, names), "documents")

    async def find_words(
        self,
        owner: ConversationKey,
        terms: Sequence[str],
        *,
        parts: Sequence[WordParts] = (),
        source: int | None = None,
        limit: int,
    ) -> list[int]:
        return await self._store.read(lambda db: document_rows.find_words(db, owner, terms, parts, source, limit))

    async def list_numbers(self, owner: ConversationKey, source: int) -> list[int]:
        return await self._store.read(lambda db: document_rows.list_numbers(db, owner, source))

    async def list_passages(self, owner: ConversationKey, source: int, document: str) -> list[IndexedPassage]:
        return await self._store.read(lambda db: document_rows.list_passages(db, owner, source, document))

    async def list_vectors(
        self, owner: ConversationKey, *, embedder: str, after: int, unless: int = -1
    ) -> PassageVectors:
        return await self._store.read(lambda db: document_rows.list_vectors(db, owner, embedder, after, unless))

    async def get_passages(self, owner: ConversationKey, numbers: Sequence[int]) -> list[IndexedPassage]:
        return await self._store.read(lambda db: document_rows.get_passages(db, owner, numbers))
