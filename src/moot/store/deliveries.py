"""Deliveries: which message of which run showed an item, such as a result, a mail or a report. Used by runs.py."""

import json
from collections.abc import Sequence

import apsw

from moot.domain.errors import Conflict
from moot.domain.inbox_message import NoticeState
from moot.domain.message import Entry
from moot.domain.outbox import name_again
from moot.domain.run import RunRequest, RunStatus
from moot.store import dialect, mail_rows, notices

_INSERT = "INSERT INTO deliveries (item_id, conversation, seq, run_id, at) VALUES (?, ?, ?, ?, ?)"
_EVICTED = f"{mail_rows.FROM} WHERE mail.id IN {dialect.among()} AND evicted_at > 0"
# Whether the result of `runs` is for a run of another living node than ?1, which delivers it.
IS_ELSEWHERE = (
    "EXISTS (SELECT 1 FROM runs AS parents JOIN conversations AS held ON held.id = parents.conversation"
    " JOIN nodes ON nodes.id = held.node WHERE held.node <> ?1"
    " AND parents.id = CASE runs.parent_id WHEN '' THEN runs.id ELSE runs.parent_id END)"
)


def claim(db: apsw.Connection, request: RunRequest, conversation: int, user_seq: int, now: float) -> None:
    """Record what the message of a run delivers. `user_seq` is 0 while the message is queued.

    Raise Conflict if another message has delivered it meanwhile, another daemon has taken over the run it is for, or it
    was deleted with its conversation: the message would be wrong.
    """
    missing = db.execute(
        f"SELECT 1 FROM {dialect.among()} AS items WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = items.value)"
        " AND NOT EXISTS (SELECT 1 FROM mail WHERE mail.id = items.value)"
        " AND NOT EXISTS (SELECT 1 FROM workflow_reports WHERE workflow_reports.id = items.value)",
        (json.dumps(request.delivers),),
    )
    if missing.fetchone() is not None:
        raise Conflict("the result in the message was deleted")
    node = db.execute("SELECT node FROM conversations WHERE id = ?", (conversation,)).get
    elsewhere = f"SELECT 1 FROM runs WHERE runs.id IN {dialect.among('?2')} AND {IS_ELSEWHERE}"
    if db.execute(elsewhere, (node, json.dumps(request.delivers))).fetchone() is not None:
        raise Conflict("another daemon delivers the result in the message")
    try:
        db.executemany(_INSERT, [(item, conversation, user_seq, request.id, now) for item in request.delivers])
    except apsw.ConstraintError:
        raise Conflict("the result in the message was delivered before") from None
    _record_evicted(db, request.delivers, (conversation, user_seq, request.id, now))


def record(db: apsw.Connection, run_id: str, conversation: int, entry: Entry, delivers: Sequence[str]) -> None:
    """Record deliveries by a message of an active run. An earlier delivery of an item is not changed."""
    shown = (conversation, entry.seq, run_id, entry.created_at)
    db.executemany(f"{_INSERT} ON CONFLICT DO NOTHING", [(item, *shown) for item in delivers])
    _record_evicted(db, delivers, shown)


def _record_evicted(db: apsw.Connection, items: Sequence[str], shown: tuple[int, int, str, float]) -> None:
    """Remove the notice about mail that was evicted just after the run was given it: it is read now.

    If another daemon was told before, the mail gets the id with which its sender may send it again: that was shown.
    """
    for mail in mail_rows.read(db, _EVICTED, json.dumps(items)) if items else []:
        again = name_again(mail, notices.load_store_number(db))
        if again.id == mail.id:
            continue
        db.execute(f"{_INSERT} ON CONFLICT DO NOTHING", (again.id, *shown))
        if not notices.remove_unpublished(db, mail.id, NoticeState.EVICTED):
            db.execute("UPDATE OR IGNORE mail SET id = ? WHERE id = ?", (again.id, mail.id))


def record_steered(db: apsw.Connection, run_id: str, conversation: int, entry: Entry, item: str) -> None:
    """Record that a message of an active run shows a queued one. Raise Conflict if that is no longer queued."""
    found = db.execute("SELECT conversation, status FROM runs WHERE id = ? AND kind = 'turn'", (item,)).fetchone()
    if found != (conversation, RunStatus.QUEUED):
        raise Conflict(f"the message of run {item} is not waiting in this conversation")
    record(db, run_id, conversation, entry, [item])
