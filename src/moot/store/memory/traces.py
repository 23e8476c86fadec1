"""Records of runs in memory: model requests and trace notes. Built by storage.py."""

import json
import logging
from asyncio import Future

from msgspec.structs import replace

from moot.domain.ask import AskState
from moot.domain.errors import BadRequest, MootError, NotFound
from moot.domain.mail import MAIL_AUTHOR
from moot.domain.message import Entry, Role
from moot.domain.mode import PLAN_REFUSED
from moot.domain.run import Outcome
from moot.domain.step_record import Part, StepRecord, StoredStep
from moot.domain.task_notification import TASK_AUTHOR
from moot.domain.trace import Health, RecordedRun, TraceKind, TraceNote, is_failure
from moot.store.memory import asks, found_runs, nodes
from moot.store.memory.conversations import load_part
from moot.store.memory.database import Database, RunRow
from moot.store.memory.transactions import Transactions

logger = logging.getLogger(__name__)

_FAILURES_TOLD = 3
_LEAKS_TOLD = 10
# Of a longer run only the last entries are read.
_MOST_ENTRIES = 4_000


def _log_failure(done: "Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        logger.warning("a record of a run was lost: %s", error)


class MemorySteps:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def add(self, record: StepRecord) -> None:
        """Queue a record without waiting, ahead of later writes. A failure to store it does not fail the turn."""
        try:
            self._transactions.linger(lambda db: _add_step(db, record)).add_done_callback(_log_failure)
        except MootError as error:
            logger.warning("the record of a model request was lost: %s", error)

    async def list_numbers(self, run_id: str) -> list[int]:
        return await self._transactions.read(lambda db: sorted(record.step for record in db.steps.find("run", run_id)))

    async def find(self, run_id: str, step: int) -> StoredStep | None:
        return await self._transactions.read(lambda db: _find_step(db, run_id, step))


def _add_step(db: Database, record: StepRecord) -> None:
    # No record for a run that was deleted or that another daemon has taken over.
    run = db.runs.get(record.run_id)
    if run is not None and not nodes.is_replaced(db, run):
        shared = replace(
            record,
            head=_share(db, record.head),
            extra=record.extra and _share(db, record.extra),
            changes=record.changes and _share(db, record.changes),
        )
        db.steps.put((record.run_id, record.step), shared)


def _share(db: Database, part: Part) -> Part:
    """Return the stored part, shared by everything that uses it."""
    known = db.parts.get(part.digest)
    if known is not None:
        return known
    return db.parts.put(part.digest, replace(part, parent=part.parent and _share(db, part.parent)))


def _find_step(db: Database, run_id: str, step: int) -> StoredStep | None:
    record, run = db.steps.get((run_id, step)), db.runs.get(run_id)
    if record is None or run is None:
        return None
    conversation = db.conversations[run.conversation]
    archive = db.archives.get((conversation.id, record.archive))
    # An answer was discarded if a later step has the same history.
    is_discarded = any(
        other.step > step and other.last_seq == record.last_seq for other in db.steps.find("run", run_id)
    )
    replies = [
        entry.message
        for entry in db.entries(conversation.id, record.last_seq + 1, record.last_seq + 1)
        if entry.run_id == run_id and entry.message.role is Role.ASSISTANT and not is_discarded
    ]
    return StoredStep(
        run_id=run_id,
        step=step,
        loaded=load_part(db, conversation, archive, record.last_seq),
        head=_contents(record.head),
        extra=_contents(record.extra),
        changes=_contents(record.changes),
        max_tokens=record.max_tokens,
        reply=replies[0] if replies else None,
    )


def _contents(part: Part | None) -> tuple[bytes, ...]:
    """Return the contents of a part and of those it needs, dependencies first."""
    return () if part is None else (*_contents(part.parent), part.content)


# ---- traces -------------------------------------------------------------------------------------


class MemoryTraces:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def add(self, note: TraceNote) -> None:
        """Queue a note without waiting, ahead of later writes. A failure to store it does not fail the turn."""
        try:
            self._transactions.linger(lambda db: _add_note(db, note)).add_done_callback(_log_failure)
        except MootError as error:
            logger.warning("a note for a trace was lost: %s", error)

    async def list_recent(self, *, limit: int, failed: bool) -> list[RecordedRun]:
        return await self._transactions.read(lambda db: _list_recent(db, limit, failed))

    async def find(self, written: str) -> RecordedRun:
        return await self._transactions.read(lambda db: record(db, _find_only(db, written), in_full=True))

    async def acknowledge(self, *, now: float) -> None:
        await self._transactions.write(lambda db: db.acknowledged.put("at", now))

    async def load_health(self, *, since: float) -> Health:
        return await self._transactions.read(lambda db: _health(db, since))


def _add_note(db: Database, note: TraceNote) -> None:
    """Insert a note; its position in the conversation is read from the row of the run.

    Nothing is stored for a run that was deleted, or that another daemon has taken over.
    """
    run = db.runs.get(note.run_id)
    if run is not None and not nodes.is_replaced(db, run):
        # The notes of a run are only removed together, so their count gives the next number.
        seq = db.trace_notes.count("run", note.run_id) + 1
        after = db.conversations[run.conversation].last_seq
        db.trace_notes.put((note.run_id, seq), replace(note, after_seq=after))


def _list_notes(db: Database, run_id: str) -> list[TraceNote]:
    return [db.trace_notes[run_id, seq] for seq in range(1, db.trace_notes.count("run", run_id) + 1)]


def _list_failed(db: Database) -> list[RunRow]:
    """Return failed runs, newest first."""
    found = [row for row in db.runs if row.end is not None and is_failure(row.end.outcome)]
    return sorted(found, key=lambda row: row.number, reverse=True)


def _list_recent(db: Database, limit: int, failed: bool) -> list[RecordedRun]:
    # A teammate's run is listed under the run that spawned it, if that still exists.
    found = _list_failed(db) if failed else [row for row in db.runs if row.started_at and row.parent_id not in db.runs]
    found.sort(key=lambda row: row.number, reverse=True)
    return [record(db, row, in_full=False) for row in found[:limit]]


def _find_only(db: Database, written: str) -> RunRow:
    found = sorted(row.id for row in db.runs if row.id.startswith(written))
    if not written or not found:
        raise NotFound(f"there is no trace of a run {written!r}", fix="`moot trace` lists them.")
    if len(found) > 1 and found[0] != written:
        raise BadRequest(f"more than one run begins with {written!r}", fix="Write more of its id.")
    return db.runs[found[0]]


def record(db: Database, row: RunRow, *, in_full: bool) -> RecordedRun:
    delegated = [(each.number, found_runs.read(db, each)) for each in db.runs.find("parent", row.id)]
    if in_full:
        delegated += [(past.number, past.run) for past in db.past_runs.find("parent", row.id)]
    spawned = [run for _, run in sorted(delegated, key=lambda item: item[0])]
    return RecordedRun(
        run=found_runs.read(db, row),
        entries=_list_entries(db, row) if in_full else (),
        notes=_list_notes(db, row.id) if in_full else (),
        attempts=asks.list_attempts(db, row.id) if in_full else (),
        delegated=spawned,
        children=[record(db, db.runs[run.id], in_full=in_full) for run in spawned if run.started_at],
    )


def _list_entries(db: Database, row: RunRow) -> list[Entry]:
    """Return the entries that the run added: those between its user message and the next."""
    if not row.user_seq:
        return []
    others = db.runs.find("conversation", row.conversation)
    following = min((each.user_seq for each in others if each.user_seq > row.user_seq), default=None)
    last = db.conversations[row.conversation].last_seq if following is None else following - 1
    found = [entry for entry in db.entries(row.conversation, row.user_seq + 1, last) if entry.run_id == row.id]
    return found[-_MOST_ENTRIES:]


def _health(db: Database, since: float) -> Health:
    since = max(since, db.acknowledged.get("at") or 0.0)
    failed = [row for row in _list_failed(db) if row.ended_at > since and not _is_ended_by_person(db, row)]
    return Health(
        failed=[record(db, row, in_full=False) for row in failed[:_FAILURES_TOLD]],
        loops=sum(row.outcome == Outcome.LOOP_DETECTED for row in failed),
        timeouts=sum(row.outcome == Outcome.TIMEOUT for row in failed),
        reroutes=sum(_led_to_reroute(db, note) for note in db.trace_notes if note.at > since),
        leaks=_list_leaks(db),
    )


def _is_ended_by_person(db: Database, row: RunRow) -> bool:
    """Whether a call in the tree of a run was denied by a person, or the conversation was in mode plan."""
    if row.end is None or row.end.outcome is not Outcome.DENIED:
        return False
    root = row.request.root_id or row.id
    tree = (root, *(each.id for each in db.runs.find("root", root)))
    denied = any(asked.ask.state is AskState.DENIED for run_id in tree for asked in db.asks.find("run", run_id))
    return denied or row.end.error.startswith(PLAN_REFUSED)


def _led_to_reroute(db: Database, note: TraceNote) -> bool:
    """Whether another agent got work after the orchestrator was told of the failure that the note is about."""
    if note.kind is not TraceKind.RECOVERY_ATTEMPT:
        return False
    what = json.loads(note.payload)
    if what.get("action") != "reroute":
        return False
    later = (run for run in db.runs.find("parent", note.run_id) if run.created_at >= note.at)
    return any(run.request.speaker != what.get("specialist") for run in later)


def _list_leaks(db: Database) -> list[str]:
    """Return messages in another conversation than their run's, or by an agent that did not speak in it."""
    found: list[str] = []
    for (conversation, seq), entry in db.messages.pairs():
        run, author = db.runs.get(entry.run_id), entry.message.agent
        if run is None:
            continue
        speakers = ("", run.request.speaker, run.request.author, MAIL_AUTHOR, TASK_AUTHOR)
        if run.conversation != conversation or author not in speakers:
            key = db.conversations[conversation].key
            found.append(f"message {seq} of {key} is {author or 'another run'}'s, of run {run.id}")
    return found[:_LEAKS_TOLD]
