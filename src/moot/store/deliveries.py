"""Writes deliveries: which message of which run showed a result, or a message that was queued. Used by runs.py."""

from collections.abc import Sequence

import apsw

from moot.domain.errors import Conflict
from moot.domain.message import Entry
from moot.domain.run import RunStatus


def add(db: apsw.Connection, run_id: str, conversation: int, written: Sequence[Entry], delivers: Sequence[str]) -> None:
    """Record deliveries by the last of the messages. An earlier delivery of an item is not changed."""
    if delivers:
        seq, at = written[-1].seq, written[-1].created_at
        db.executemany(
            "INSERT INTO deliveries (item_id, conversation, seq, run_id, at) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            [(item, conversation, seq, run_id, at) for item in delivers],
        )


def add_steered(db: apsw.Connection, run_id: str, conversation: int, item: str, entry: Entry) -> None:
    """Record that a message of an active run shows a queued one. Raise Conflict if that is no longer queued."""
    found = db.execute("SELECT conversation, status FROM runs WHERE id = ? AND kind = 'turn'", (item,)).fetchone()
    if found != (conversation, RunStatus.QUEUED):
        raise Conflict(f"the message of run {item} is not waiting in this conversation")
    add(db, run_id, conversation, [entry], [item])
