"""Tables that the hooks write after calls: audit, learnings from failures, and knowledge from results."""

from collections.abc import Sequence
from hashlib import sha256

import apsw
import msgspec

from moot.domain.conversation import ConversationKey
from moot.domain.learning import (
    FIRST_CONFIDENCE,
    CallRecord,
    Failure,
    Knowledge,
    Lesson,
    confidence_after_success,
    trigger,
)
from moot.store import rows
from moot.store.sqlite import SqliteStore


class SqliteLearnings:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def learn(self, lessons: Sequence[Lesson]) -> None:
        await self._store.write(lambda db: _learn(db, lessons), "learning")

    async def know(self, items: Sequence[Knowledge], *, versions: int) -> None:
        await self._store.write(lambda db: _know(db, items, versions), "knowledge")


def _learn(db: apsw.Connection, lessons: Sequence[Lesson]) -> None:
    for lesson in lessons:
        record = lesson.record
        if _is_gone(db, ConversationKey(record.agent, record.sender)):
            continue
        db.execute(
            "INSERT INTO tool_audit (agent, sender, run, tool, ok, seconds, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (record.agent, record.sender, record.run_id, record.tool, int(record.ok), record.seconds, record.at),
        )
        if lesson.failure is not None:
            _record_failure(db, lesson.failure, record)
        for pattern in lesson.overcome:
            _overcame(db, record.tool, pattern, record.at)


def _is_gone(db: apsw.Connection, owner: ConversationKey) -> bool:
    """Return whether the conversation was deleted before a hook wrote; nothing is stored for it then."""
    return rows.conversation_id(db, owner) is None


def _record_failure(db: apsw.Connection, failure: Failure, record: CallRecord) -> None:
    known = trigger(failure.tool)
    found = db.execute(
        "SELECT taint FROM learnings WHERE trigger = ? AND error_pattern = ?", (known, failure.pattern)
    ).get
    taint = rows.encode_taint(failure.taint | rows.decode_taint(found or ""))
    db.execute(
        "INSERT INTO learnings (id, trigger, error_pattern, diagnosis, fix, category, confidence, occurrences, taint,"
        " created_at, updated_at, agent, sender) VALUES (?1, ?2, ?3, ?4, '', ?5, ?6, 1, ?7, ?8, ?8, ?9, ?10)"
        " ON CONFLICT (trigger, error_pattern)"
        " DO UPDATE SET occurrences = occurrences + 1, taint = ?7, updated_at = ?8",
        (
            _id(known, failure.pattern),
            known,
            failure.pattern,
            failure.diagnosis,
            failure.category,
            FIRST_CONFIDENCE,
            taint,
            record.at,
            record.agent,
            record.sender,
        ),
    )


def _id(known: str, pattern: str) -> str:
    """Return the id of a learning, derived from its subject, so that concurrent writers update the same row."""
    return "learning-" + sha256(f"{known}\x00{pattern}".encode()).hexdigest()[:16]


def _overcame(db: apsw.Connection, tool: str, pattern: str, now: float) -> None:
    number = _id(trigger(tool), pattern)
    confidence = db.execute("SELECT confidence FROM learnings WHERE id = ?", (number,)).get
    if confidence is not None:
        db.execute(
            "UPDATE learnings SET confidence = ?, updated_at = ? WHERE id = ?",
            (confidence_after_success(confidence), now, number),
        )


def _know(db: apsw.Connection, items: Sequence[Knowledge], versions: int) -> None:
    for item in items:
        if item.owner is not None and _is_gone(db, item.owner):
            continue
        newest = db.execute(
            "SELECT version, content, taint FROM knowledge WHERE key = ? ORDER BY version DESC LIMIT 1", (item.key,)
        ).fetchone()
        version, content, taint = newest or (0, None, "")
        # The same text with another taint counts as different knowledge.
        if (content, taint) == (item.content, rows.encode_taint(item.taint)):
            continue
        db.execute(
            "INSERT INTO knowledge (key, version, category, content, tags, source, taint, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                item.key,
                version + 1,
                item.category,
                item.content,
                msgspec.json.encode(item.tags).decode(),
                item.source,
                rows.encode_taint(item.taint),
                item.created_at,
            ),
        )
        db.execute("DELETE FROM knowledge WHERE key = ? AND version <= ?", (item.key, version + 1 - versions))
