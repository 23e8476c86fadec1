"""What is let go of after a while: conversations of runs that were spawned and have ended, and notes for traces."""

from functools import partial

import apsw

from moot.domain.config import TraceConfig
from moot.domain.conversation import ConversationKey
from moot.store import deletion, rows
from moot.store.sqlite import SqliteStore

_DAY = 86_400.0
# Of those that may go: nobody is owed the result, nobody above or below it is still at work.
_DONE = (
    "FROM agent_runs AS old WHERE status <> 'spawned' AND is_kept = 1 AND delivery <> 'owed'"
    " AND NOT EXISTS (SELECT 1 FROM agent_runs AS child WHERE child.parent = old.id AND child.status = 'spawned')"
    " AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = old.parent AND runs.status <> 'ended')"
)
_TOO_OLD = "(status = 'failed' AND ended_at < ?1) OR (status <> 'failed' AND ended_at < ?2)"
_FAILED = "runs.outcome NOT IN ('completed', 'escalated', 'cancelled')"


class Retention:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def expire(self, config: TraceConfig, *, now: float, batch: int) -> int:
        """Let go of some of what is too old or too much, the oldest first; how many runs that was."""
        failed, fine = now - config.keep_failed_days * _DAY, now - config.keep_days * _DAY
        found = await self._store.read(lambda db: _doomed(db, failed, fine, config.most, batch))
        is_indexed = False
        for run_id, key in found:
            # One transaction each: whoever writes meanwhile does not wait for all of them.
            is_indexed |= await self._store.write(partial(_let_go, run_id, key), "retention")
        if found:
            await self._store.write(deletion.sweep_parts, "retention")
        if is_indexed:
            await self._store.purge()
        notes = await self._store.write(lambda db: _notes(db, failed, fine, config.most, batch), "retention")
        return len(found) + notes


def _doomed(
    db: apsw.Connection, failed: float, fine: float, most: int, batch: int
) -> list[tuple[str, ConversationKey]]:
    count = int(db.execute("SELECT count(*) FROM agent_runs WHERE status <> 'spawned' AND is_kept = 1").get)
    over = min(batch, max(0, count - most))
    found: list[rows.Row] = db.execute(
        f"SELECT id, agent, sender {_DONE} AND ended_at < max(?1, ?2) AND ({_TOO_OLD}) ORDER BY ended_at LIMIT ?3",
        (failed, fine, batch),
    ).fetchall()
    if len(found) < over:
        found = db.execute(f"SELECT id, agent, sender {_DONE} ORDER BY ended_at LIMIT ?", (over,)).fetchall()
    return [(run_id, ConversationKey(agent, sender)) for run_id, agent, sender in found]


def _let_go(run_id: str, key: ConversationKey, db: apsw.Connection) -> bool:
    """Remove everything of a run but what it took; whether any of it was in a search index."""
    is_indexed = False
    if rows.conversation_id(db, key) is not None:
        gone = deletion.remove(db, key)
        is_indexed = bool(gone.archives or gone.memories)
    db.execute("DELETE FROM asks WHERE run = ?", (run_id,))
    db.execute("DELETE FROM ledger WHERE run_id = ?", (run_id,))
    db.execute(
        "UPDATE agent_runs SET is_kept = 0, instruction = '', spawn_reason = '', result = '', error = '' WHERE id = ?",
        (run_id,),
    )
    return is_indexed


def _notes(db: apsw.Connection, failed: float, fine: float, most: int, batch: int) -> int:
    """Notes of turns in conversations that stay: theirs go after the same time."""
    runs = [
        run
        for (run,) in db.execute(
            "SELECT DISTINCT run FROM trace_notes JOIN runs ON runs.id = run WHERE runs.status = 'ended'"
            f" AND at < max(?1, ?2) AND (at < ?1 OR NOT {_FAILED}) AND (at < ?2 OR {_FAILED}) ORDER BY at LIMIT ?3",
            (failed, fine, batch),
        )
    ]
    over = min(batch, int(db.execute("SELECT count(DISTINCT run) FROM trace_notes").get) - most)
    if len(runs) < over:
        oldest = "SELECT run FROM trace_notes GROUP BY run ORDER BY min(at) LIMIT ?"
        runs = [run for (run,) in db.execute(oldest, (over,))]
    db.executemany("DELETE FROM trace_notes WHERE run = ?", [(run,) for run in runs])
    return len(runs)
