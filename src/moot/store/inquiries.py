"""Inquiries of the librarian: added once, given to one run to ask, resolved or dismissed."""

from collections.abc import Sequence

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.inquiry import Grade, Inquiry, InquiryProgress, InquiryStatus, make_fingerprint
from moot.store import rows
from moot.store.sqlite import SqliteStore

_COLUMNS = (
    "id, agent, sender, topic, question, context, priority, status, taint, created_at, asked_at, asked_run, answer,"
    " closed_at"
)
_ORDER = "CASE priority WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END, created_at, id"


class SqliteInquiries:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def find_progress(self, key: ConversationKey) -> InquiryProgress:
        return await self._store.read(lambda db: _find_progress(db, key))

    async def record(self, key: ConversationKey, found: Sequence[Inquiry], *, analysed_seq: int, most: int) -> int:
        return await self._store.write(lambda db: _record(db, key, found, analysed_seq, most), "inquiry")

    async def take(self, key: ConversationKey, run_id: str, *, cooldown: int, now: float) -> Inquiry | None:
        # Most conversations have none: they are not written to.
        if not await self._store.read(lambda db: _has_pending(db, key)):
            return None
        return await self._store.write(lambda db: _take(db, key, run_id, cooldown, now), "inquiry")

    async def list_all(
        self, sender: str, *, agent: str = "", status: InquiryStatus | None = None, limit: int
    ) -> list[Inquiry]:
        return await self._store.read(lambda db: _list_all(db, sender, agent, status, limit))

    async def find(self, sender: str, inquiry_id: str) -> Inquiry | None:
        return await self._store.read(lambda db: _find(db, sender, inquiry_id))

    async def close(
        self, sender: str, inquiry_id: str, status: InquiryStatus, *, answer: str = "", now: float
    ) -> Inquiry | None:
        return await self._store.write(lambda db: _close(db, sender, inquiry_id, status, answer, now), "inquiry")


def _find_progress(db: apsw.Connection, key: ConversationKey) -> InquiryProgress:
    row = db.execute(
        "SELECT id, last_seq, trusted_seq, coalesce(analysed_seq, 0) FROM conversations"
        " LEFT JOIN librarian_progress ON conversation = id WHERE agent = ? AND sender = ?",
        key,
    ).fetchone()
    if row is None:
        return InquiryProgress()
    number, last, trusted, analysed = row
    return InquiryProgress(last, analysed, trusted, _count_messages(db, number, analysed))


def _count_messages(db: apsw.Connection, conversation: int, after: int) -> int:
    """Return how many messages the person has written after that one."""
    found = "SELECT count(*) FROM messages WHERE id > ? AND id <= ? AND role = 'user' AND agent = ''"
    reach = (rows.message_id(conversation, after), rows.message_id(conversation, rows.MAX_SEQ))
    return int(db.execute(found, reach).get)


def _record(db: apsw.Connection, key: ConversationKey, found: Sequence[Inquiry], analysed_seq: int, most: int) -> int:
    conversation = rows.conversation_id(db, key)
    if conversation is None:
        return 0
    db.execute(
        "INSERT INTO librarian_progress VALUES (?1, ?2) ON CONFLICT (conversation) DO UPDATE SET analysed_seq = ?2",
        (conversation, analysed_seq),
    )
    added = 0
    for inquiry in found:
        pending = db.execute(
            "SELECT count(*) FROM inquiries WHERE agent = ? AND sender = ? AND status = 'pending'", key
        ).get
        if pending >= most:
            break
        subject, fingerprint = make_fingerprint(inquiry.topic), make_fingerprint(inquiry.question)
        known = "SELECT count(*) FROM inquiries WHERE sender = ?1 AND (fingerprint = ?2 OR subject = ?3)"
        if not subject or not fingerprint or db.execute(known, (key.sender, fingerprint, subject)).get:
            continue
        db.execute(
            "INSERT INTO inquiries (id, agent, sender, topic, question, context, priority, status, taint, created_at,"
            " fingerprint, subject) VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?)",
            (
                inquiry.id,
                *key,
                inquiry.topic,
                inquiry.question,
                inquiry.context,
                inquiry.priority.value,
                rows.encode_taint(inquiry.taint),
                inquiry.created_at,
                fingerprint,
                subject,
            ),
        )
        added += 1
    return added


def _has_pending(db: apsw.Connection, key: ConversationKey) -> bool:
    found = "SELECT EXISTS (SELECT 1 FROM inquiries WHERE agent = ? AND sender = ? AND status = 'pending')"
    return bool(db.execute(found, key).get)


def _take(db: apsw.Connection, key: ConversationKey, run_id: str, cooldown: int, now: float) -> Inquiry | None:
    of_run = f"SELECT {_COLUMNS} FROM inquiries WHERE agent = ? AND sender = ? AND asked_run = ?"
    row = db.execute(of_run, (*key, run_id)).fetchone()
    if row is not None:
        # The run goes on after a restart.
        return _inquiry(row)
    place = rows.one(db.execute("SELECT id, last_seq FROM conversations WHERE agent = ? AND sender = ?", key))
    conversation, last = place
    before = db.execute("SELECT max(asked_seq) FROM inquiries WHERE agent = ? AND sender = ?", key).get or 0
    if before and _count_messages(db, conversation, before) < cooldown:
        return None
    unasked = (
        f"SELECT {_COLUMNS} FROM inquiries WHERE agent = ? AND sender = ? AND status = 'pending' AND asked_run = ''"
    )
    row = db.execute(f"{unasked} ORDER BY {_ORDER} LIMIT 1", key).fetchone()
    if row is None:
        return None
    db.execute(
        "UPDATE inquiries SET asked_at = ?, asked_run = ?, asked_seq = ? WHERE id = ?", (now, run_id, last, row[0])
    )
    return _inquiry(rows.one(db.execute(of_run, (*key, run_id))))


def _list_all(db: apsw.Connection, sender: str, agent: str, status: InquiryStatus | None, limit: int) -> list[Inquiry]:
    found = db.execute(
        f"SELECT {_COLUMNS} FROM inquiries WHERE sender = ?1 AND (?2 = '' OR agent = ?2) AND (?3 = '' OR status = ?3)"
        f" ORDER BY {_ORDER} LIMIT ?4",
        (sender, agent, status.value if status else "", limit),
    )
    return [_inquiry(row) for row in found]


def _find(db: apsw.Connection, sender: str, inquiry_id: str) -> Inquiry | None:
    found = f"SELECT {_COLUMNS} FROM inquiries WHERE sender = ? AND id = ?"
    row = db.execute(found, (sender, inquiry_id)).fetchone()
    return None if row is None else _inquiry(row)


def _close(
    db: apsw.Connection, sender: str, inquiry_id: str, status: InquiryStatus, answer: str, now: float
) -> Inquiry | None:
    db.execute(
        "UPDATE inquiries SET status = ?, answer = ?, closed_at = ? WHERE sender = ? AND id = ? AND status = 'pending'",
        (status.value, answer, now, sender, inquiry_id),
    )
    if not db.changes():
        return None
    return _inquiry(rows.one(db.execute(f"SELECT {_COLUMNS} FROM inquiries WHERE id = ?", (inquiry_id,))))


def _inquiry(row: rows.Row) -> Inquiry:
    number, agent, sender, topic, question, context, priority, status, taint, made, asked, run, answer, closed = row
    return Inquiry(
        id=number,
        key=ConversationKey(agent, sender),
        topic=topic,
        question=question,
        context=context,
        priority=Grade(priority),
        status=InquiryStatus(status),
        taint=rows.decode_taint(taint),
        created_at=made,
        asked_at=asked,
        asked_run=run,
        answer=answer,
        closed_at=closed,
    )
