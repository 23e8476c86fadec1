"""Statements on the index of documents, for documents.py and deletion.py.

The passages of an owner lie in one range of numbers, so a search reads nothing of others.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apsw
import msgspec

from moot.domain.conversation import ConversationKey
from moot.domain.rag import (
    ARCHIVE_FORMAT,
    Document,
    DocumentChange,
    IndexedPassage,
    NewPassage,
    PassageVectors,
    Source,
    SourceKind,
    SourceReport,
    WordParts,
)
from moot.store import dialect, rows

# Passages that are ranked in one search: those with the rarest terms.
_MOST_RANKED = 3_000
_SOURCE = "number, kind, place, folder, taint, added_at, completed_at, label"
_DOCUMENT = "name, title, format, size, modified, digest, embedder, problem, note, taint, indexed_at"
_PASSAGE = (
    "SELECT p.number, d.source, d.name, d.title, p.content, p.heading, p.first_line, p.last_line, p.page,"
    " d.taint || ',' || s.taint, s.label FROM document_passages AS p JOIN documents AS d ON d.number = p.document"
    " JOIN document_sources AS s ON s.number = d.source"
)
_NUMBERS_OF_SOURCE = (
    "SELECT p.number FROM document_passages AS p JOIN documents AS d ON d.number = p.document WHERE d.source = ?"
)
# An archive is not counted beside its members.
_COUNTED = f"problem = '' AND format <> '{ARCHIVE_FORMAT}'"
# The vectors that one embedder has made.
_OF_EMBEDDER = (
    "passage_vectors AS v JOIN document_passages AS p ON p.number = v.number"
    " JOIN documents AS d ON d.number = p.document AND d.embedder = :embedder"
)


# ---- sources --------------------------------------------------------------------------------------


def add_source(db: apsw.Connection, owner: ConversationKey, new: Source) -> Source:
    db.execute("INSERT INTO document_owners (agent, sender) VALUES (?, ?) ON CONFLICT DO NOTHING", owner)
    number = _find_owner(db, owner)
    named = f"SELECT {_SOURCE} FROM document_sources WHERE owner = ? AND place = ?"
    known = db.execute(named, (number, new.place)).fetchone()
    if known is not None:
        # What is known of an untrusted source is not trusted because a later request is.
        taint = new.taint | rows.decode_taint(known[4])
        db.execute(
            "UPDATE document_sources SET kind = ?, folder = ?, taint = ?, completed_at = 0 WHERE number = ?",
            (new.kind.value, new.folder, rows.encode_taint(taint), known[0]),
        )
    else:
        db.execute("UPDATE document_owners SET last_source = last_source + 1 WHERE id = ?", (number,))
        db.execute(
            "INSERT INTO document_sources (owner, kind, place, folder, taint, added_at, label)"
            " SELECT id, ?, ?, ?, ?, ?, last_source FROM document_owners WHERE id = ?",
            (new.kind.value, new.place, new.folder, rows.encode_taint(new.taint), new.added_at, number),
        )
    return _read_source(rows.one(db.execute(named, (number, new.place))))


def _find_owner(db: apsw.Connection, owner: ConversationKey) -> int:
    """Return the number of an owner; 0 if nothing was ever indexed for it."""
    return int(db.execute("SELECT id FROM document_owners WHERE agent = ? AND sender = ?", owner).get or 0)


def _is_owned(db: apsw.Connection, owner: ConversationKey, source: int) -> int:
    """Return the number of the owner if the source is its own, else 0."""
    found = "SELECT owner FROM document_sources WHERE number = ? AND owner = ?"
    return int(db.execute(found, (source, _find_owner(db, owner))).get or 0)


def complete_source(db: apsw.Connection, owner: ConversationKey, source: int, now: float) -> None:
    db.execute(
        "UPDATE document_sources SET completed_at = ? WHERE number = ? AND owner = ?",
        (now, source, _find_owner(db, owner)),
    )


def list_sources(db: apsw.Connection, owner: ConversationKey) -> list[SourceReport]:
    found = db.execute(
        f"SELECT {_SOURCE}, (SELECT count(*) FROM documents WHERE source = s.number AND {_COUNTED}),"
        " (SELECT count(*) FROM documents JOIN document_passages AS p ON p.document = documents.number"
        " WHERE source = s.number), (SELECT count(*) FROM documents WHERE source = s.number AND problem <> '')"
        " FROM document_sources AS s WHERE owner = ? ORDER BY number",
        (_find_owner(db, owner),),
    )
    return [
        SourceReport(source=_read_source(row[:8]), documents=row[8], passages=row[9], refused=row[10]) for row in found
    ]


def find_sources(db: apsw.Connection, owner: ConversationKey) -> list[Source]:
    found = db.execute(
        f"SELECT {_SOURCE} FROM document_sources AS s WHERE owner = ? ORDER BY number", (_find_owner(db, owner),)
    )
    return [_read_source(row) for row in found]


def list_unfinished(db: apsw.Connection) -> list[tuple[ConversationKey, Source]]:
    found = db.execute(
        f"SELECT agent, sender, {_SOURCE} FROM document_sources JOIN document_owners ON document_owners.id = owner"
        " WHERE completed_at = 0 ORDER BY number"
    )
    return [(ConversationKey(agent, sender), _read_source(row)) for agent, sender, *row in found]


class ForgottenSource(NamedTuple):
    """How many documents and passages were deleted with a source."""

    documents: int
    passages: int


def forget_source(db: apsw.Connection, owner: ConversationKey, source: int) -> ForgottenSource:
    number = _is_owned(db, owner, source)
    if not number:
        return ForgottenSource(0, 0)
    names = [name for (name,) in db.execute("SELECT name FROM documents WHERE source = ?", (source,))]
    passages = sum(each.passages for each in list_sources(db, owner) if each.source.number == source)
    remove_documents(db, owner, source, names)
    db.execute("DELETE FROM document_sources WHERE number = ?", (source,))
    return ForgottenSource(len(names), passages)


def _read_source(row: Sequence[Any]) -> Source:
    number, kind, place, folder, taint, added_at, completed_at, label = row
    return Source(
        number=number,
        kind=SourceKind(kind),
        place=place,
        folder=folder,
        taint=rows.decode_taint(taint),
        added_at=added_at,
        completed_at=completed_at,
        label=label,
    )


# ---- documents ------------------------------------------------------------------------------------


def list_documents(
    db: apsw.Connection, owner: ConversationKey, source: int, names: Sequence[str] | None = None
) -> list[Document]:
    if not _is_owned(db, owner, source):
        return []
    chosen = "" if names is None else f" AND name IN {dialect.among('?')}"
    values = (source,) if names is None else (source, msgspec.json.encode(names).decode())
    found = db.execute(f"SELECT {_DOCUMENT} FROM documents WHERE source = ?{chosen} ORDER BY name", values)
    return [_read_document(row) for row in found]


def put_documents(db: apsw.Connection, owner: ConversationKey, source: int, changes: Sequence[DocumentChange]) -> bool:
    number = _is_owned(db, owner, source)
    if not number:
        return False
    remove_documents(db, owner, source, [change.document.name for change in changes])
    last = int(db.execute("SELECT last_passage FROM document_owners WHERE id = ?", (number,)).get)
    for change in changes:
        last = _add_document(db, number, source, change, last)
    db.execute("UPDATE document_owners SET last_passage = ?, version = version + 1 WHERE id = ?", (last, number))
    return True


def _add_document(db: apsw.Connection, owner: int, source: int, change: DocumentChange, last: int) -> int:
    """Insert a document with its passages; return the last number that is used then."""
    document = change.document
    values = (*msgspec.structs.astuple(document)[:9], rows.encode_taint(document.taint), document.indexed_at)
    db.execute(f"INSERT INTO documents (source, {_DOCUMENT}) VALUES (?{', ?' * 11})", (source, *values))
    inserted = db.last_insert_rowid()
    numbered = [(rows.message_id(owner, last + place), each) for place, each in enumerate(change.passages, start=1)]
    db.executemany(
        "INSERT INTO document_passages (number, document, content, heading, first_line, last_line, page)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(number, inserted, *_passage_values(each)) for number, each in numbered],
    )
    db.executemany(
        "INSERT INTO passage_vectors (number, vector) VALUES (?, ?)",
        [(number, each.vector) for number, each in numbered if each.vector],
    )
    dialect.index_passages(db, [(number, each.terms) for number, each in numbered])
    return last + len(numbered)


def _passage_values(passage: NewPassage) -> tuple[str, str, int, int, int]:
    return passage.content, passage.heading, passage.first_line, passage.last_line, passage.page


def touch_documents(db: apsw.Connection, owner: ConversationKey, source: int, documents: Sequence[Document]) -> None:
    if _is_owned(db, owner, source):
        db.executemany(
            "UPDATE documents SET size = ?, modified = ? WHERE source = ? AND name = ?",
            [(each.size, each.modified, source, each.name) for each in documents],
        )


def remove_documents(db: apsw.Connection, owner: ConversationKey, source: int, names: Sequence[str]) -> None:
    number = _is_owned(db, owner, source)
    if not number or not names:
        return
    chosen = f"source = ?1 AND name IN {dialect.among('?2')}"
    values = (source, msgspec.json.encode(names).decode())
    passages = db.execute(
        f"SELECT number FROM document_passages WHERE document IN (SELECT number FROM documents WHERE {chosen})", values
    )
    dialect.unindex_passages(db, [passage for (passage,) in passages])
    # Foreign keys delete the passages and their vectors.
    db.execute(f"DELETE FROM documents WHERE {chosen}", values)
    db.execute("UPDATE document_owners SET version = version + 1 WHERE id = ?", (number,))


def remove_of_pair(db: apsw.Connection, owner: ConversationKey) -> None:
    """Delete everything that was indexed for an owner."""
    number = _find_owner(db, owner)
    if number:
        dialect.unindex(db, "passage_index", *_reach(number))
        db.execute("DELETE FROM document_owners WHERE id = ?", (number,))


def count_of_pair(db: apsw.Connection, owner: ConversationKey) -> int:
    """Return how many documents are indexed for an owner."""
    found = (
        "SELECT count(*) FROM documents JOIN document_sources AS s ON s.number = source"
        f" WHERE s.owner = ? AND {_COUNTED}"
    )
    return int(db.execute(found, (_find_owner(db, owner),)).get)


def _read_document(row: rows.Row) -> Document:
    name, title, kind, size, modified, digest, embedder, problem, note, taint, indexed_at = row
    return Document(
        name=name,
        title=title,
        format=kind,
        size=size,
        modified=modified,
        digest=digest,
        embedder=embedder,
        problem=problem,
        note=note,
        taint=rows.decode_taint(taint),
        indexed_at=indexed_at,
    )


# ---- passages -------------------------------------------------------------------------------------


def _reach(owner: int) -> tuple[int, int]:
    return rows.message_id(owner, 0), rows.message_id(owner, rows.MAX_SEQ)


def find_words(
    db: apsw.Connection,
    owner: ConversationKey,
    terms: Sequence[str],
    parts: Sequence[WordParts],
    source: int | None,
    limit: int,
) -> list[int]:
    number = _find_owner(db, owner)
    if not number or not terms:
        return []
    reach = dialect.PassageReach(*_reach(number))
    if source is not None:
        reach = reach._replace(query=_NUMBERS_OF_SOURCE, values=(source,))

    def count(wanted: Iterable[str]) -> dict[str, int]:
        # A term that is in more passages than are ranked tells little.
        counted = ((term, dialect.count_passages(db, _any_of([term]), reach, _MOST_RANKED + 1)) for term in wanted)
        return {term: count for term, count in counted if count}

    having = count(terms)
    having |= count({part for word in parts if having.keys().isdisjoint(word.terms) for part in word.parts})
    chosen = _choose_rarest(having)
    return dialect.rank_passages(db, _any_of(chosen), reach, _MOST_RANKED, limit) if chosen else []


def _choose_rarest(having: dict[str, int]) -> list[str]:
    """Return the rarest terms that together match a limited number of passages, but at least one."""
    chosen: list[str] = []
    room = _MOST_RANKED
    for term, count in sorted(having.items(), key=lambda item: item[1]):
        if chosen and count > room:
            break
        chosen.append(term)
        room -= count
    return chosen


def _any_of(terms: Sequence[str]) -> str:
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)


def list_numbers(db: apsw.Connection, owner: ConversationKey, source: int) -> list[int]:
    if not _is_owned(db, owner, source):
        return []
    return [number for (number,) in db.execute(f"{_NUMBERS_OF_SOURCE} ORDER BY p.number", (source,))]


def list_passages(db: apsw.Connection, owner: ConversationKey, source: int, document: str) -> list[IndexedPassage]:
    if not _is_owned(db, owner, source):
        return []
    found = db.execute(f"{_PASSAGE} WHERE d.source = ? AND d.name = ? ORDER BY p.number", (source, document))
    return [_read_passage(row) for row in found]


def list_vectors(db: apsw.Connection, owner: ConversationKey, embedder: str, after: int, unless: int) -> PassageVectors:
    number = _find_owner(db, owner)
    if not number:
        return PassageVectors(version=0, count=0)
    first, last = _reach(number)
    version = int(db.execute("SELECT version FROM document_owners WHERE id = ?", (number,)).get)
    if version == unless:
        return PassageVectors(version=version, count=0)
    # Passages are looked up only while some have vectors of another kind: they are far larger than the vectors.
    table = "passage_vectors AS v" if _has_one_embedder(db, number, embedder) else _OF_EMBEDDER
    chosen = f"FROM {table} WHERE v.number BETWEEN :first AND :last"
    values = {"first": first, "last": last, "after": after, "embedder": embedder}
    count = int(db.execute(f"SELECT count(*) {chosen}", values).get)
    found: list[rows.Row] = db.execute(
        f"SELECT v.number, vector {chosen} AND v.number > :after ORDER BY v.number", values
    ).fetchall()
    return PassageVectors(
        version=version,
        count=count,
        numbers=tuple(row[0] for row in found),
        vectors=tuple(row[1] for row in found),
    )


def _has_one_embedder(db: apsw.Connection, owner: int, embedder: str) -> bool:
    other = db.execute(
        "SELECT 1 FROM documents JOIN document_sources AS s ON s.number = source"
        " WHERE s.owner = ? AND embedder <> ? AND problem = '' LIMIT 1",
        (owner, embedder),
    )
    return other.fetchone() is None


def get_passages(db: apsw.Connection, owner: ConversationKey, numbers: Sequence[int]) -> list[IndexedPassage]:
    first, last = _reach(_find_owner(db, owner))
    own = [number for number in numbers if first <= number <= last]
    found = db.execute(f"{_PASSAGE} WHERE p.number IN {dialect.among('?')}", (msgspec.json.encode(own).decode(),))
    by_number = {row[0]: _read_passage(row) for row in found}
    return [by_number[number] for number in own if number in by_number]


def _read_passage(row: rows.Row) -> IndexedPassage:
    number, source, name, title, content, heading, first_line, last_line, page, taint, label = row
    return IndexedPassage(
        number=number,
        source=source,
        document=name,
        title=title,
        content=content,
        heading=heading,
        first_line=first_line,
        last_line=last_line,
        page=page,
        taint=rows.decode_taint(taint),
        source_label=label,
    )
