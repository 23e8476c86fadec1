"""Notes on conversations: observations and the reflections that condense them."""

import apsw
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import NotFound
from moot.domain.note import Note, NoteKind, NoteProgress
from moot.store import nodes, rows
from moot.store.sqlite import SqliteStore

# The most notes kept per conversation and kind; the oldest are deleted first.
MOST_KEPT = 500
_COLUMNS = "number, kind, content, first_seq, last_seq, taint, created_at"


class SqliteNotes:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def add(self, key: ConversationKey, note: Note, *, now: float) -> Note:
        return await self._store.write(lambda db: _add(db, key, note, now, self._store.node), "note")

    async def list_all(self, key: ConversationKey, kind: NoteKind, *, limit: int) -> list[Note]:
        return await self._store.read(lambda db: _list_notes(db, key, kind, limit))

    async def state(self, key: ConversationKey) -> NoteProgress:
        return await self._store.read(lambda db: _state(db, key))


def _add(db: apsw.Connection, key: ConversationKey, note: Note, now: float, node: int) -> Note:
    conversation, newest, _ = nodes.require_held(db, key, node)
    if note.last_seq > newest:
        # The conversation was deleted while the note was generated, and a new one was started.
        raise NotFound(f"the messages that the note is about were deleted from {key}", fix="Do nothing.")
    last = note.last_seq or newest
    first = min(note.first_seq or _find_noted_seq(db, conversation) + 1, last)
    db.execute(
        "INSERT INTO notes (conversation, kind, content, first_seq, last_seq, taint, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (conversation, note.kind.value, note.content, first, last, rows.encode_taint(note.taint), now),
    )
    number = db.last_insert_rowid()
    db.execute(
        "DELETE FROM notes WHERE conversation = ?1 AND kind = ?2 AND number <= (SELECT number FROM notes"
        " WHERE conversation = ?1 AND kind = ?2 ORDER BY number DESC LIMIT 1 OFFSET ?3)",
        (conversation, note.kind.value, MOST_KEPT),
    )
    return replace(note, number=number, first_seq=first, last_seq=last, created_at=now)


def _find_noted_seq(db: apsw.Connection, conversation: int) -> int:
    found = db.execute("SELECT coalesce(max(last_seq), 0) FROM notes WHERE conversation = ?", (conversation,)).get
    return int(found)


def _list_notes(db: apsw.Connection, key: ConversationKey, kind: NoteKind, limit: int) -> list[Note]:
    conversation = rows.conversation_id(db, key)
    if conversation is None:
        return []
    newest = db.execute(
        f"SELECT {_COLUMNS} FROM notes WHERE conversation = ? AND kind = ? ORDER BY number DESC LIMIT ?",
        (conversation, kind.value, limit),
    )
    trusted = _find_trusted_seq(db, conversation)
    return [_note(row, trusted) for row in newest][::-1]


def _state(db: apsw.Connection, key: ConversationKey) -> NoteProgress:
    conversation = rows.conversation_id(db, key)
    if conversation is None:
        return NoteProgress()
    condensed = db.execute(
        "SELECT coalesce(max(number), 0) FROM notes WHERE conversation = ? AND kind = 'reflection'", (conversation,)
    ).get
    still_open = db.execute(
        f"SELECT {_COLUMNS} FROM notes WHERE conversation = ? AND kind = 'observation' AND number > ? ORDER BY number",
        (conversation, condensed),
    )
    trusted = _find_trusted_seq(db, conversation)
    return NoteProgress(
        trusted_seq=trusted,
        last_seq=db.execute("SELECT last_seq FROM conversations WHERE id = ?", (conversation,)).get,
        noted_seq=_find_noted_seq(db, conversation),
        open=tuple(_note(row, trusted) for row in still_open),
    )


def _find_trusted_seq(db: apsw.Connection, conversation: int) -> int:
    return int(db.execute("SELECT trusted_seq FROM conversations WHERE id = ?", (conversation,)).get)


def _note(row: rows.Row, trusted: int) -> Note:
    """Return a note. If the owner has trusted the messages it is about, it has no taint."""
    number, kind, content, first_seq, last_seq, taint, created_at = row
    return Note(
        number=number,
        kind=NoteKind(kind),
        content=content,
        first_seq=first_seq,
        last_seq=last_seq,
        taint=rows.decode_taint(taint) if last_seq > trusted else frozenset(),
        created_at=created_at,
    )
