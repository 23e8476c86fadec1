"""Trace notes, written without waiting; and recorded runs with the runs they spawned."""

import logging
from asyncio import Future

import apsw

from moot.domain.errors import BadRequest, MootError, NotFound
from moot.domain.mail import MAIL_AUTHOR
from moot.domain.message import Entry
from moot.domain.mode import PLAN_REFUSED
from moot.domain.run import Outcome, Run
from moot.domain.task_notification import TASK_AUTHOR
from moot.domain.trace import Health, RecordedRun, TraceKind, TraceNote
from moot.store import asks, dialect, found_runs, nodes, rows
from moot.store.sqlite import SqliteStore

logger = logging.getLogger(__name__)

_FAILED = "outcome NOT IN ('', 'completed', 'escalated', 'cancelled')"
# A run that a person has ended so: a call in its tree was denied, or the conversation was in mode plan.
_ENDED_BY_PERSON = (
    f"outcome = 'denied' AND ({dialect.begins_with('error', '?1')} OR EXISTS (SELECT 1 FROM asks"
    " JOIN runs AS asking ON asking.id = asks.run WHERE asking.root_id = runs.root_id AND asks.state = 'denied'))"
)
_PROBLEMS = f"FROM runs WHERE {_FAILED} AND ended_at > ?2 AND NOT ({_ENDED_BY_PERSON})"
_FAILURES_TOLD = 3
# The note says that the orchestrator was told of a failure; what counts is that another agent got work afterwards.
_REROUTES = (
    "SELECT count(*) FROM trace_notes AS note WHERE kind = 'recovery_attempt' AND at > ?"
    f" AND {dialect.json_text('payload', 'action')} = 'reroute' AND EXISTS (SELECT 1 FROM runs"
    " WHERE runs.parent_id = note.run AND runs.created_at >= note.at"
    f" AND runs.speaker <> {dialect.json_text('payload', 'specialist')})"
)
_LEAKS_TOLD = 10
# Of a longer run only the last entries are read.
_MOST_ENTRIES = 4_000


class SqliteTraces:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def add(self, note: TraceNote) -> None:
        """Queue a note without waiting, ahead of later writes. A failure to store it does not fail the turn."""
        try:
            self._store.linger(lambda db: _insert(db, note, self._store.node), "trace").add_done_callback(
                _log_lost_note
            )
        except MootError as error:
            logger.warning("a note for a trace was lost: %s", error)

    async def list_recent(self, *, limit: int, failed: bool) -> list[RecordedRun]:
        """Return the newest turns with the runs they spawned; with `failed`, the failed ones among all runs."""
        return await self._store.read(lambda db: _list_recent(db, limit, failed))

    async def find(self, written: str) -> RecordedRun:
        """Return one run in full, by its id or a unique prefix of it."""
        return await self._store.read(lambda db: _read_run(db, _only(db, written), in_full=True))

    async def acknowledge(self, *, now: float) -> None:
        """Exclude all failures until now from further health reports."""
        await self._store.write(lambda db: db.execute("UPDATE acknowledged SET at = ?", (now,)) and None, "acknowledge")

    async def load_health(self, *, since: float) -> Health:
        return await self._store.read(lambda db: health(db, since=since))


def _log_lost_note(done: "Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        logger.warning("a note for a trace was lost: %s", error)


def _insert(db: apsw.Connection, note: TraceNote, node: int) -> None:
    """Insert a note; its position in the conversation is read from the row of the run.

    Nothing is stored for a run that was deleted, or that another daemon has taken over.
    """
    db.execute(
        "INSERT INTO trace_notes (run, seq, after_seq, at, kind, agent, payload, truncated)"
        " SELECT runs.id, 1 + (SELECT coalesce(max(seq), 0) FROM trace_notes WHERE run = runs.id), last_seq,"
        " ?, ?, ?, ?, ? FROM runs JOIN conversations ON conversations.id = runs.conversation"
        f" WHERE runs.id = ? AND NOT {nodes.IS_REPLACED}",
        (note.at, note.kind.value, note.agent, note.payload, int(note.truncated), note.run_id, node),
    )


# ---- reading ------------------------------------------------------------------------------------


def _list_recent(db: apsw.Connection, limit: int, failed: bool) -> list[RecordedRun]:
    if failed:
        found = db.execute(f"SELECT id FROM runs WHERE {_FAILED} ORDER BY number DESC LIMIT ?", (limit,))
    else:
        # The run of a teammate is listed under its parent, as long as the parent exists.
        found = db.execute(
            "SELECT id FROM runs WHERE started_at > 0 AND NOT EXISTS"
            " (SELECT 1 FROM runs AS parents WHERE parents.id = runs.parent_id) ORDER BY number DESC LIMIT ?",
            (limit,),
        )
    return [_read_run(db, run_id, in_full=False) for run_id in [row[0] for row in found]]


def _only(db: apsw.Connection, written: str) -> str:
    found = [
        row[0]
        for row in db.execute(
            f"SELECT id FROM runs WHERE {dialect.begins_with('id', '?1')} ORDER BY id LIMIT 2", (written,)
        )
    ]
    if not written or not found or (found[0] != written and not found[0].startswith(written)):
        raise NotFound(f"there is no trace of a run {written!r}", fix="`moot trace` lists them.")
    if len(found) > 1 and found[0] != written:
        raise BadRequest(f"more than one run begins with {written!r}", fix="Write more of its id.")
    return str(found[0])


def _read_run(db: apsw.Connection, run_id: str, *, in_full: bool) -> RecordedRun:
    run = found_runs.get(db, run_id)
    assert run is not None
    delegated = found_runs.all_of_parent(db, run_id) if in_full else found_runs.of_parent(db, run_id)
    return RecordedRun(
        run=run,
        entries=_entries(db, run) if in_full else (),
        notes=_notes(db, run_id) if in_full else (),
        attempts=asks.list_attempts(db, run_id) if in_full else (),
        delegated=delegated,
        children=[_read_run(db, child.id, in_full=in_full) for child in delegated if child.started_at],
    )


def _entries(db: apsw.Connection, run: Run) -> list[Entry]:
    """Return the entries that the run added: those between its user message and the next."""
    conversation = rows.conversation_id(db, run.request.key)
    if conversation is None or not run.user_seq:
        return []
    following = db.execute(
        "SELECT min(user_seq) FROM runs WHERE conversation = ? AND user_seq > ?", (conversation, run.user_seq)
    ).get
    last = rows.message_id(conversation, following or rows.MAX_SEQ)
    found: list[rows.Row] = db.execute(
        f"SELECT {rows.MESSAGE_COLUMNS} FROM messages WHERE id > ? AND id < ? AND run_id = ? ORDER BY id DESC LIMIT ?",
        (rows.message_id(conversation, run.user_seq), last, run.request.id, _MOST_ENTRIES),
    ).fetchall()
    return [rows.entry(row) for row in reversed(found)]


def _notes(db: apsw.Connection, run_id: str) -> list[TraceNote]:
    return [
        TraceNote(
            run_id=run_id,
            after_seq=after_seq,
            at=at,
            kind=TraceKind(kind),
            agent=agent,
            payload=payload,
            truncated=truncated == 1,
        )
        for after_seq, at, kind, agent, payload, truncated in db.execute(
            "SELECT after_seq, at, kind, agent, payload, truncated FROM trace_notes WHERE run = ? ORDER BY seq",
            (run_id,),
        )
    ]


# ---- health -------------------------------------------------------------------------------------


def health(db: apsw.Connection, *, since: float) -> Health:
    """Return recent failures, counts of some kinds of events, and misplaced messages, for `moot doctor`.

    Failures that the owner has acknowledged are not included, nor denials by a person.
    """
    since = max(since, float(db.execute("SELECT at FROM acknowledged").get))
    newest = [
        row[0]
        for row in db.execute(
            f"SELECT id {_PROBLEMS} ORDER BY number DESC LIMIT ?3", (PLAN_REFUSED, since, _FAILURES_TOLD)
        )
    ]
    counted: dict[str, int] = {
        str(outcome): int(count)
        for outcome, count in db.execute(
            f"SELECT outcome, count(*) {_PROBLEMS} GROUP BY outcome", (PLAN_REFUSED, since)
        )
    }
    return Health(
        failed=[_read_run(db, run_id, in_full=False) for run_id in newest],
        loops=counted.get(Outcome.LOOP_DETECTED.value, 0),
        timeouts=counted.get(Outcome.TIMEOUT.value, 0),
        reroutes=int(db.execute(_REROUTES, (since,)).get),
        leaks=_leaks(db),
    )


def _leaks(db: apsw.Connection) -> list[str]:
    """Return messages in a conversation that is not their run's, or attributed to an agent that did not speak in it.

    Legitimate are the speaker of a run, also a guest, the author of a teammate's report, mail and task notifications.
    """
    found = db.execute(
        "SELECT conversations.agent, sender, seq, messages.agent, messages.run_id, runs.conversation"
        " FROM messages JOIN runs ON runs.id = messages.run_id"
        " JOIN conversations ON conversations.id = messages.conversation"
        " WHERE runs.conversation <> messages.conversation"
        " OR (messages.agent <> '' AND messages.agent NOT IN (runs.speaker, runs.author, ?, ?)) LIMIT ?",
        (MAIL_AUTHOR, TASK_AUTHOR, _LEAKS_TOLD),
    )
    return [
        f"message {seq} of {agent} as {sender} is {author or 'another run'}'s, of run {run}"
        for agent, sender, seq, author, run, _ in found
    ]
