"""Notes for traces: handed to the writer's line without waiting, so they are on disk before whatever comes after."""

import logging
from asyncio import Future

import apsw

from moot.domain.errors import MootError
from moot.domain.trace import TraceNote
from moot.store.sqlite import SqliteStore

logger = logging.getLogger(__name__)


class SqliteTraces:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def add(self, note: TraceNote) -> None:
        """Write a note soon. A trace with a gap is better than a turn that fails for its trace."""
        try:
            self._store.post(lambda db: _insert(db, note), "trace").add_done_callback(_written)
        except MootError as error:
            logger.warning("a note for a trace was lost: %s", error)


def _written(done: "Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        logger.warning("a note for a trace was lost: %s", error)


def _insert(db: apsw.Connection, note: TraceNote) -> None:
    """The run's own row says where in its conversation the note belongs; a run that is gone needs none."""
    db.execute(
        "INSERT INTO trace_notes (run, seq, after_seq, at, kind, agent, payload, truncated)"
        " SELECT runs.id, 1 + (SELECT coalesce(max(seq), 0) FROM trace_notes WHERE run = runs.id), last_seq,"
        " ?, ?, ?, ?, ? FROM runs JOIN conversations ON conversations.id = runs.conversation WHERE runs.id = ?",
        (note.at, note.kind.value, note.agent, note.payload, int(note.truncated), note.run_id),
    )
