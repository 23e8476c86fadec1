"""Step records: a row for each model request, and its parts, stored once by digest. Read by engine/step_records."""

import logging
import zlib
from asyncio import Future

import apsw

from moot.domain.conversation import LoadedConversation
from moot.domain.errors import MootError
from moot.domain.message import Message, Role
from moot.domain.step_record import Part, StepRecord, StoredStep
from moot.store import archives, conversations, nodes, rows
from moot.store.sqlite import SqliteStore

logger = logging.getLogger(__name__)

_PLAIN, _COMPRESSED = b"\0", b"\1"
# Smaller parts are not compressed.
_COMPRESSED_BYTES = 256


class SqliteSteps:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def add(self, record: StepRecord) -> None:
        """Queue a record without waiting, ahead of later writes. A failure to store it does not fail the turn."""
        try:
            self._store.linger(lambda db: _insert(db, record, self._store.node), "step").add_done_callback(_log_failure)
        except MootError as error:
            logger.warning("the record of a model request was lost: %s", error)

    async def list_numbers(self, run_id: str) -> list[int]:
        return await self._store.read(lambda db: _numbers(db, run_id))

    async def find(self, run_id: str, step: int) -> StoredStep | None:
        return await self._store.read(lambda db: _find(db, run_id, step))


def _log_failure(done: "Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        logger.warning("the record of a model request was lost: %s", error)


def _insert(db: apsw.Connection, record: StepRecord, node: int) -> None:
    # Usually the parts exist; then one statement finds them and the run, and checks that this node owns it.
    if _insert_with_known_parts(db, record, node):
        return
    if db.execute(f"SELECT 1 FROM runs WHERE id = ? AND NOT {nodes.IS_REPLACED}", (record.run_id, node)).get is None:
        # No record for a run that was deleted, or that another daemon has taken over.
        return
    for part in (record.head, record.extra, record.changes):
        if part is not None:
            _add_part(db, part)
    _insert_with_known_parts(db, record, node)


def _insert_with_known_parts(db: apsw.Connection, record: StepRecord, node: int) -> bool:
    """Insert a record whose parts are stored. Return False if a part or the run is missing."""
    extra = record.extra.digest if record.extra is not None else None
    changes = record.changes.digest if record.changes is not None else None
    # Whether a row was inserted is counted, not returned: RETURNING opens a temporary table each time.
    db.execute(
        "INSERT INTO steps (run, step, last_seq, archive, head, extra, changes, max_tokens)"
        " SELECT runs.number, ?, ?, ?, head.id, extra.id, changes.id, ? FROM runs JOIN parts AS head ON head.digest = ?"
        " LEFT JOIN parts AS extra ON extra.digest = ? LEFT JOIN parts AS changes ON changes.digest = ?"
        f" WHERE runs.id = ? AND NOT {nodes.IS_REPLACED}"
        " AND (extra.id IS NULL) = (? IS NULL) AND (changes.id IS NULL) = (? IS NULL)"
        " ON CONFLICT (run, step) DO UPDATE SET last_seq = excluded.last_seq,"
        " archive = excluded.archive, head = excluded.head, extra = excluded.extra, changes = excluded.changes,"
        " max_tokens = excluded.max_tokens",
        (
            record.step,
            record.last_seq,
            record.archive,
            record.max_tokens,
            record.head.digest,
            extra,
            changes,
            record.run_id,
            node,
            extra,
            changes,
        ),
    )
    return db.changes() == 1


def _add_part(db: apsw.Connection, part: Part) -> int:
    """Return the id of a part; insert it if it is new."""
    known = db.execute("SELECT id FROM parts WHERE digest = ?", (part.digest,)).get
    if known is not None:
        return int(known)
    parent = _add_part(db, part.parent) if part.parent is not None else None
    db.execute(
        "INSERT INTO parts (digest, parent, content) VALUES (?, ?, ?)", (part.digest, parent, _pack(part.content))
    )
    return db.last_insert_rowid()


def _pack(content: bytes) -> bytes:
    if len(content) >= _COMPRESSED_BYTES:
        packed = zlib.compress(content)
        if len(packed) < len(content):
            return _COMPRESSED + packed
    return _PLAIN + content


def _unpack(packed: bytes) -> bytes:
    return zlib.decompress(packed[1:]) if packed[:1] == _COMPRESSED else packed[1:]


# ---- reading ------------------------------------------------------------------------------------


def _numbers(db: apsw.Connection, run_id: str) -> list[int]:
    found = db.execute(
        "SELECT step FROM steps JOIN runs ON runs.number = steps.run WHERE runs.id = ? ORDER BY step", (run_id,)
    )
    return [step for (step,) in found]


def _find(db: apsw.Connection, run_id: str, step: int) -> StoredStep | None:
    row = db.execute(
        "SELECT conversation, steps.last_seq, archive, head, extra, changes, steps.max_tokens FROM steps"
        " JOIN runs ON runs.number = steps.run WHERE runs.id = ? AND step = ?",
        (run_id, step),
    ).fetchone()
    if row is None:
        return None
    conversation, last_seq, archive, head, extra, changes, max_tokens = row
    return StoredStep(
        run_id=run_id,
        step=step,
        loaded=_load(db, conversation, last_seq, archive),
        head=_chain(db, head),
        extra=_chain(db, extra),
        changes=_chain(db, changes),
        max_tokens=max_tokens,
        reply=_reply(db, conversation, run_id, step, last_seq),
    )


def _load(db: apsw.Connection, conversation: int, last_seq: int, archive: int) -> LoadedConversation:
    """Return the conversation as the run saw it at that step."""
    state = rows.conversation(
        rows.one(db.execute(f"SELECT {rows.CONVERSATION_COLUMNS} FROM conversations WHERE id = ?", (conversation,)))
    )
    newest = archives.get(db, conversation, archive) if archive else None
    return conversations.load_after(db, conversation, state, newest, last_seq)


def _chain(db: apsw.Connection, part: int | None) -> tuple[bytes, ...]:
    """Return the contents of a part, preceded by those of its parents."""
    contents: list[bytes] = []
    while part is not None:
        part, packed = rows.one(db.execute("SELECT parent, content FROM parts WHERE id = ?", (part,)))
        contents.append(_unpack(packed))
    return tuple(reversed(contents))


def _reply(db: apsw.Connection, conversation: int, run_id: str, step: int, last_seq: int) -> Message | None:
    """Return the answer, unless it was discarded: what follows the history is then the answer of a later step."""
    later = db.execute(
        "SELECT 1 FROM steps JOIN runs ON runs.number = steps.run"
        " WHERE runs.id = ? AND step > ? AND steps.last_seq = ?",
        (run_id, step, last_seq),
    )
    if later.fetchone() is not None:
        return None
    entries = rows.entries_between(db, conversation, last_seq + 1, last_seq + 1)
    found = [entry.message for entry in entries if entry.run_id == run_id and entry.message.role is Role.ASSISTANT]
    return found[0] if found else None
