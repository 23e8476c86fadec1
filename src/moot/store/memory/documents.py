"""The index of documents in memory. Built by storage.py."""

from collections.abc import Sequence

from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.rag import (
    ARCHIVE_FORMAT,
    Document,
    DocumentChange,
    IndexedPassage,
    PassageVectors,
    Source,
    SourceKind,
    SourceReport,
    WordParts,
)
from moot.store import ranking
from moot.store.memory.database import Database, check_text
from moot.store.memory.document_tables import DocumentRow, PassageRow, SourceRow
from moot.store.memory.transactions import Transactions
from moot.store.ranking import Hit

_MOST_COUNTED = 255


class MemoryDocuments:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add_source(
        self, owner: ConversationKey, kind: SourceKind, place: str, *, folder: str, taint: frozenset[str], now: float
    ) -> Source:
        source = Source(number=0, kind=kind, place=place, folder=folder, taint=taint, added_at=now)
        return await self._transactions.write(lambda db: _add_source(db, owner, source))

    async def complete_source(self, owner: ConversationKey, source: int, now: float) -> None:
        await self._transactions.write(lambda db: _complete_source(db, owner, source, now))

    async def list_sources(self, owner: ConversationKey) -> list[SourceReport]:
        return await self._transactions.read(lambda db: _list_sources(db, owner))

    async def find_sources(self, owner: ConversationKey) -> list[Source]:
        return await self._transactions.read(lambda db: [row.source for row in _sources(db, owner)])

    async def list_unfinished(self) -> list[tuple[ConversationKey, Source]]:
        return await self._transactions.read(_list_unfinished)

    async def forget_source(self, owner: ConversationKey, source: int) -> int:
        return await self._transactions.write(lambda db: _forget_source(db, owner, source))

    async def list_documents(
        self, owner: ConversationKey, source: int, names: Sequence[str] | None = None
    ) -> list[Document]:
        found = await self._transactions.read(lambda db: _list_documents(db, owner, source))
        return [each for each in found if names is None or each.name in names]

    async def put_documents(self, owner: ConversationKey, source: int, changes: Sequence[DocumentChange]) -> bool:
        return await self._transactions.write(lambda db: _put_documents(db, owner, source, changes))

    async def touch_documents(self, owner: ConversationKey, source: int, documents: Sequence[Document]) -> None:
        await self._transactions.write(lambda db: _touch_documents(db, owner, source, documents))

    async def remove_documents(self, owner: ConversationKey, source: int, names: Sequence[str]) -> None:
        await self._transactions.write(lambda db: _remove_documents(db, owner, source, names))

    async def find_words(
        self,
        owner: ConversationKey,
        terms: Sequence[str],
        *,
        parts: Sequence[WordParts] = (),
        source: int | None = None,
        limit: int,
    ) -> list[int]:
        return await self._transactions.read(lambda db: _find_words(db, owner, terms, parts, source, limit))

    async def list_numbers(self, owner: ConversationKey, source: int) -> list[int]:
        return await self._transactions.read(lambda db: sorted(row.number for row in _list_rows(db, owner, source)))

    async def list_passages(self, owner: ConversationKey, source: int, document: str) -> list[IndexedPassage]:
        return await self._transactions.read(lambda db: _list_passages(db, owner, source, document))

    async def list_vectors(
        self, owner: ConversationKey, *, embedder: str, after: int, unless: int = -1
    ) -> PassageVectors:
        return await self._transactions.read(lambda db: _list_vectors(db, owner, embedder, after, unless))

    async def get_passages(self, owner: ConversationKey, numbers: Sequence[int]) -> list[IndexedPassage]:
        return await self._transactions.read(lambda db: _get_passages(db, owner, numbers))


def _find_source(db: Database, owner: ConversationKey, number: int) -> SourceRow | None:
    row = db.document_sources.get(number)
    return row if row is not None and row.owner == owner else None


def _sources(db: Database, owner: ConversationKey) -> list[SourceRow]:
    return sorted(db.document_sources.find("owner", owner), key=lambda row: row.source.number)


def _add_source(db: Database, owner: ConversationKey, new: Source) -> Source:
    check_text(new.place, new.folder, *owner)
    before = next((row.source for row in _sources(db, owner) if row.source.place == new.place), None)
    if before is not None:
        taint = before.taint | new.taint
        source = replace(before, kind=new.kind, folder=new.folder, taint=taint, completed_at=0.0)
    else:
        label = db.document_labels.put(owner, (db.document_labels.get(owner) or 0) + 1)
        source = replace(new, number=db.count_up("document_sources"), label=label)
    db.document_sources.put(source.number, SourceRow(owner=owner, source=source))
    return source


def _complete_source(db: Database, owner: ConversationKey, number: int, now: float) -> None:
    row = _find_source(db, owner, number)
    if row is not None:
        db.document_sources.put(number, replace(row, source=replace(row.source, completed_at=now)))


def _list_sources(db: Database, owner: ConversationKey) -> list[SourceReport]:
    found: list[SourceReport] = []
    for row in _sources(db, owner):
        number = row.source.number
        documents = [each.document for each in db.documents.find("source", number)]
        refused = sum(1 for each in documents if each.problem)
        passages = db.document_passages.count("source", number)
        counted = sum(1 for each in documents if not each.problem and each.format != ARCHIVE_FORMAT)
        found.append(SourceReport(source=row.source, documents=counted, passages=passages, refused=refused))
    return found


def _list_unfinished(db: Database) -> list[tuple[ConversationKey, Source]]:
    found = sorted(db.document_sources, key=lambda row: row.source.number)
    return [(row.owner, row.source) for row in found if not row.source.is_complete]


def _forget_source(db: Database, owner: ConversationKey, number: int) -> int:
    if _find_source(db, owner, number) is None:
        return 0
    names = [row.document.name for row in db.documents.find("source", number)]
    _remove_documents(db, owner, number, names)
    db.document_sources.remove(number)
    return len(names)


def _list_documents(db: Database, owner: ConversationKey, number: int) -> list[Document]:
    if _find_source(db, owner, number) is None:
        return []
    return sorted((row.document for row in db.documents.find("source", number)), key=lambda each: each.name)


def _put_documents(db: Database, owner: ConversationKey, source: int, changes: Sequence[DocumentChange]) -> bool:
    if _find_source(db, owner, source) is None:
        return False
    _remove_documents(db, owner, source, [change.document.name for change in changes])
    for change in changes:
        name = change.document.name
        check_text(name, change.document.title, *(each.content for each in change.passages))
        db.documents.put((source, name), DocumentRow(source=source, document=change.document))
        for passage in change.passages:
            number = db.count_up("document_passages")
            row = PassageRow(number=number, owner=owner, source=source, document=name, passage=passage)
            db.document_passages.put(number, row)
    _note_change(db, owner)
    return True


def _note_change(db: Database, owner: ConversationKey) -> None:
    db.document_versions.put(owner, (db.document_versions.get(owner) or 0) + 1)


def _touch_documents(db: Database, owner: ConversationKey, source: int, documents: Sequence[Document]) -> None:
    for each in documents if _find_source(db, owner, source) is not None else ():
        row = db.documents.get((source, each.name))
        if row is not None:
            document = replace(row.document, size=each.size, modified=each.modified)
            db.documents.put((source, each.name), replace(row, document=document))


def _remove_documents(db: Database, owner: ConversationKey, source: int, names: Sequence[str]) -> None:
    if _find_source(db, owner, source) is None or not names:
        return
    for name in names:
        db.documents.remove((source, name))
        db.document_passages.remove_all("document", (source, name))
    _note_change(db, owner)


def remove_of_pair(db: Database, owner: ConversationKey) -> None:
    """Delete everything that was indexed for an owner."""
    for row in _sources(db, owner):
        _forget_source(db, owner, row.source.number)
    if db.document_labels.get(owner) is not None:
        db.document_labels.remove(owner)


def count_of_pair(db: Database, owner: ConversationKey) -> int:
    """Return how many documents are indexed for an owner."""
    return sum(report.documents for report in _list_sources(db, owner))


def _list_rows(db: Database, owner: ConversationKey, source: int | None) -> list[PassageRow]:
    """Return the passages of an owner, or those of one of its sources."""
    rows = db.document_passages.find("owner", owner)
    return [row for row in rows if source is None or row.source == source]


def _find_words(
    db: Database,
    owner: ConversationKey,
    terms: Sequence[str],
    parts: Sequence[WordParts],
    source: int | None,
    limit: int,
) -> list[int]:
    hits: list[Hit] = []
    rows = _list_rows(db, owner, source)
    known = {word for row in rows for word in row.passage.terms.split()} if parts else set()
    lacking = (part for word in parts if known.isdisjoint(word.terms) for part in word.parts)
    terms = list(dict.fromkeys([*terms, *lacking]))
    for row in rows:
        words = row.passage.terms.split()
        counts = [min(_MOST_COUNTED, words.count(term)) for term in terms]
        if any(counts):
            hits.append(Hit(row.number, len(words), counts))
    having = [ranking.count_having(hits, place) for place in range(len(terms))]
    scored = ranking.bm25(hits, having, len(rows))
    return [number for number, _ in sorted(scored, key=lambda item: (-item[1], item[0]))[:limit]]


def _list_passages(db: Database, owner: ConversationKey, source: int, document: str) -> list[IndexedPassage]:
    if _find_source(db, owner, source) is None:
        return []
    rows = db.document_passages.find("document", (source, document))
    return [_read_passage(db, row) for row in sorted(rows, key=lambda row: row.number)]


def _list_vectors(db: Database, owner: ConversationKey, embedder: str, after: int, unless: int) -> PassageVectors:
    version = db.document_versions.get(owner) or 0
    if version == unless:
        return PassageVectors(version=version, count=0)
    rows = [
        row
        for row in db.document_passages.find("owner", owner)
        if row.passage.vector and db.documents[row.source, row.document].document.embedder == embedder
    ]
    new = sorted((row for row in rows if row.number > after), key=lambda row: row.number)
    return PassageVectors(
        version=version,
        count=len(rows),
        numbers=tuple(row.number for row in new),
        vectors=tuple(row.passage.vector for row in new),
    )


def _get_passages(db: Database, owner: ConversationKey, numbers: Sequence[int]) -> list[IndexedPassage]:
    found = (db.document_passages.get(number) for number in numbers)
    return [_read_passage(db, row) for row in found if row is not None and row.owner == owner]


def _read_passage(db: Database, row: PassageRow) -> IndexedPassage:
    document, source = db.documents[row.source, row.document].document, db.document_sources[row.source].source
    passage = row.passage
    return IndexedPassage(
        number=row.number,
        source=row.source,
        document=document.name,
        title=document.title,
        content=passage.content,
        heading=passage.heading,
        first_line=passage.first_line,
        last_line=passage.last_line,
        page=passage.page,
        taint=document.taint | source.taint,
        source_label=source.label,
    )
