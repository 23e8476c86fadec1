"""Deletes expired data: conversations of ended spawned and background runs, trace notes and workflows."""

from functools import partial

import apsw

from moot.domain.config import TraceConfig
from moot.domain.conversation import ConversationKey
from moot.domain.deletion import DeletionCounts, ExpiredData
from moot.domain.errors import Fenced
from moot.store import deletion, dialect, found_runs, nodes, rows, spending, workflow_rows
from moot.store.sqlite import SqliteStore

_DAY = 86_400.0
# Runs that may be deleted: the result is not owed, no run above or below is live, and none continues it.
_FAILED = "runs.outcome NOT IN ('completed', 'escalated', 'cancelled')"
_DONE = (
    "FROM runs JOIN conversations ON conversations.id = runs.conversation"
    " LEFT JOIN deliveries ON deliveries.item_id = runs.id"
    f" WHERE runs.status = 'ended' AND runs.kind <> 'turn' AND NOT ({found_runs.IS_OWED})"
    " AND NOT EXISTS (SELECT 1 FROM runs AS child"
    " WHERE child.parent_id = runs.id AND child.parent_id <> '' AND child.status <> 'ended')"
    " AND NOT EXISTS (SELECT 1 FROM runs AS later WHERE later.conversation = runs.conversation"
    " AND later.kind <> 'turn' AND later.number > runs.number)"
    " AND NOT EXISTS (SELECT 1 FROM runs AS parent WHERE parent.id = runs.parent_id AND parent.status <> 'ended')"
    f" AND NOT {workflow_rows.IS_NEEDED}"
)
_TOO_OLD = f"({_FAILED} AND runs.ended_at < ?1) OR (NOT {_FAILED} AND runs.ended_at < ?2)"


class SqliteRetention:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def expire(self, config: TraceConfig, *, now: float, batch: int) -> ExpiredData:
        """Delete up to `batch` runs that are too old or too many, oldest first, and old notes and workflows."""
        failed, fine = now - config.keep_failed_days * _DAY, now - config.keep_days * _DAY
        found = await self._store.read(lambda db: _list_expired(db, failed, fine, config.most, batch))
        gone: dict[ConversationKey, DeletionCounts] = {}
        for key in found:
            # One transaction per run, so that other writers need not wait for all of them.
            counts = await self._store.write(partial(_let_go, key, self._store.node, now), "retention")
            if counts is not None:
                gone[key] = counts
        if gone:
            await self._store.write(deletion.sweep_parts, "retention")
        if any(counts.archives or counts.memories for counts in gone.values()):
            # Some of it was in a search index.
            await self._store.purge()
        notes = await self._store.write(lambda db: _notes(db, failed, fine, config.most, batch), "retention")
        workflows = await self._store.write(lambda db: workflow_rows.expire(db, config, now, batch), "retention")
        audited = await self._store.write(lambda db: _audit(db, max(failed, fine), batch), "retention")
        return ExpiredData(tuple(gone), notes + workflows + audited)


def _audit(db: apsw.Connection, before: float, batch: int) -> int:
    """Delete up to `batch` records of calls made before then; return how many."""
    db.execute(
        "DELETE FROM tool_audit WHERE number IN (SELECT number FROM tool_audit WHERE at < ? ORDER BY at LIMIT ?)",
        (before, batch),
    )
    return db.changes()


def _list_expired(db: apsw.Connection, failed: float, fine: float, most: int, batch: int) -> list[ConversationKey]:
    count = int(db.execute("SELECT count(*) FROM runs WHERE status = 'ended' AND kind <> 'turn'").get)
    over = min(batch, max(0, count - most))
    found: list[rows.Row] = db.execute(
        f"SELECT agent, sender {_DONE} AND runs.ended_at < {dialect.greatest('?1', '?2')} AND ({_TOO_OLD})"
        " ORDER BY runs.ended_at LIMIT ?3",
        (failed, fine, batch),
    ).fetchall()
    if len(found) < over:
        found = db.execute(f"SELECT agent, sender {_DONE} ORDER BY runs.ended_at LIMIT ?", (over,)).fetchall()
    return [ConversationKey(agent, sender) for agent, sender in found]


def _let_go(key: ConversationKey, node: int, now: float, db: apsw.Connection) -> DeletionCounts | None:
    """Delete a run except for its usage and its end. Return None if it is gone, or of another daemon."""
    try:
        if nodes.find_held(db, key, node) is None:
            return None
    except Fenced:
        # The daemon that owns it deletes it.
        return None
    # Reports that the run received after its end are part of its conversation and are deleted with it.
    spending.keep_past(db, key)
    found_runs.keep_past(db, key)
    return deletion.remove(db, key, node, now).counts


def _notes(db: apsw.Connection, failed: float, fine: float, most: int, batch: int) -> int:
    """Delete trace notes of turns, whose conversations stay, after the same time; return the number of runs."""
    runs = [
        run
        for (run,) in db.execute(
            "SELECT DISTINCT run FROM trace_notes JOIN runs ON runs.id = run WHERE runs.status = 'ended'"
            f" AND at < {dialect.greatest('?1', '?2')}"
            f" AND (at < ?1 OR NOT {_FAILED}) AND (at < ?2 OR {_FAILED}) ORDER BY at LIMIT ?3",
            (failed, fine, batch),
        )
    ]
    over = min(batch, int(db.execute("SELECT count(DISTINCT run) FROM trace_notes").get) - most)
    if len(runs) < over:
        oldest = "SELECT run FROM trace_notes GROUP BY run ORDER BY min(at) LIMIT ?"
        runs = [run for (run,) in db.execute(oldest, (over,))]
    db.executemany("DELETE FROM trace_notes WHERE run = ?", [(run,) for run in runs])
    return len(runs)
