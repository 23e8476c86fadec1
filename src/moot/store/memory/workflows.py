"""Runs of workflows, the attempts at their steps and the reports they owe, in memory. As in store/workflow_rows.py."""

from collections.abc import Sequence

from msgspec.structs import replace

from moot.domain.config import TraceConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, NotFound
from moot.domain.owner import taken_over_error
from moot.domain.run import Run
from moot.domain.senders import SenderSet
from moot.domain.workflow import LISTED_SOURCE, StepAttempt, WorkflowReport, WorkflowRun, WorkflowStatus
from moot.store.memory import found_runs, nodes
from moot.store.memory.database import Database
from moot.store.memory.transactions import Transactions
from moot.store.memory.workflow_rows import AttemptRow, WorkflowReportRow, WorkflowRow

_DAY = 86_400.0


class MemoryWorkflows:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def create(self, run: WorkflowRun, reports: Sequence[WorkflowReport]) -> WorkflowRun:
        return await self._transactions.write(lambda db: create(db, run, reports))

    async def get(self, run_id: str) -> WorkflowRun | None:
        return await self._transactions.read(lambda db: _get(db, run_id))

    async def list_runs(self, senders: SenderSet, *, limit: int, name: str = "") -> list[WorkflowRun]:
        return await self._transactions.read(lambda db: _list(db, senders, limit, name))

    async def start_attempt(self, run_id: str, attempt: StepAttempt) -> StepAttempt:
        return await self._transactions.write(lambda db: _start_attempt(db, run_id, attempt))

    async def list_attempts(self, run_id: str) -> list[StepAttempt]:
        return await self._transactions.read(lambda db: _list_attempts(db, run_id))

    async def cancel(self, run_id: str, *, now: float) -> WorkflowRun | None:
        return await self._transactions.write(lambda db: _cancel(db, run_id, now))

    async def end(self, run_id: str, status: WorkflowStatus, *, error: str = "", now: float) -> WorkflowRun:
        return await self._transactions.write(lambda db: _end(db, run_id, status, error, now))

    async def recover(self) -> list[WorkflowRun]:
        return await self._transactions.write(_recover)

    async def list_owed(self, run_id: str = "") -> list[tuple[str, WorkflowReport]]:
        return await self._transactions.read(lambda db: _list_owed(db, run_id))


def create(db: Database, run: WorkflowRun, reports: Sequence[WorkflowReport]) -> WorkflowRun:
    """Store a run with the reports it owes. The same start returns the run that was stored before."""
    if run.start_key:
        for row in db.workflows.find("start", run.start_key):
            return row.run
    if run.origin is not None and db.conversation(run.origin) is None:
        # Questions of its steps are asked there.
        nodes.claim(db, run.origin, run.created_at)
    db.workflows.put(run.id, WorkflowRow(run=run, node=db.node))
    for report in reports:
        db.workflow_reports.put(report.id, WorkflowReportRow(workflow=run.id, report=report))
    return run


def _get(db: Database, run_id: str) -> WorkflowRun | None:
    row = db.workflows.get(run_id)
    return None if row is None else row.run


def _list(db: Database, senders: SenderSet, limit: int, name: str) -> list[WorkflowRun]:
    found = [row.run for row in db.workflows if name in ("", row.run.name) and senders.includes(row.run.owner)]
    newest = sorted(found, key=lambda run: (run.created_at, run.id), reverse=True)[:limit]
    return [replace(run, source=run.source[:LISTED_SOURCE]) for run in newest]


def _require_held(db: Database, run_id: str) -> WorkflowRow:
    """Return the run, claimed for this node if its own is dead; raise Fenced if that is alive, or this is not."""
    row = db.workflows.get(run_id)
    if row is None:
        raise NotFound(f"there is no workflow run {run_id!r}", fix="List them with `moot workflow history`.")
    if row.node != db.node:
        if row.node in db.nodes or db.node not in db.nodes:
            raise taken_over_error(f"the workflow run {run_id}", row.node)
        row = db.workflows.put(run_id, replace(row, node=db.node))
    return row


def _start_attempt(db: Database, run_id: str, attempt: StepAttempt) -> StepAttempt:
    run = _require_held(db, run_id).run
    key = (run_id, attempt.step, attempt.attempt)
    known = db.workflow_attempts.get(key)
    if known is not None:
        return _read_attempt(db, known)
    if run.ended_at or run.cancelled_at:
        raise Conflict(f"the workflow run {run_id} has ended or was cancelled")
    stored = replace(attempt, run=None)
    db.workflow_attempts.put(key, AttemptRow(number=db.count_up("attempts"), workflow=run_id, attempt=stored))
    return attempt


def _read_attempt(db: Database, row: AttemptRow) -> StepAttempt:
    return replace(row.attempt, run=found_runs.get(db, row.attempt.run_id))


def _list_attempts(db: Database, run_id: str) -> list[StepAttempt]:
    rows = sorted(db.workflow_attempts.find("workflow", run_id), key=lambda row: row.number)
    return [_read_attempt(db, row) for row in rows]


def find_last_run(db: Database, workflow: WorkflowRun) -> Run | None:
    if not workflow.ended_at:
        return None
    ended = [each.run for each in _list_attempts(db, workflow.id) if each.run is not None and each.run.ended_at]
    return max(reversed(ended), key=lambda run: run.ended_at, default=None)


def _cancel(db: Database, run_id: str, now: float) -> WorkflowRun | None:
    run = _get(db, run_id)
    if run is None or run.ended_at:
        return None
    row = _require_held(db, run_id)
    if not row.run.cancelled_at:
        row = db.workflows.put(run_id, replace(row, run=replace(row.run, cancelled_at=now)))
    return row.run


def _end(db: Database, run_id: str, status: WorkflowStatus, error: str, now: float) -> WorkflowRun:
    row = _require_held(db, run_id)
    if row.run.cancelled_at:
        status, error = WorkflowStatus.CANCELLED, ""
    if not row.run.ended_at:
        ended = replace(row.run, status=status, error=error, ended_at=now)
        row = db.workflows.put(run_id, replace(row, run=ended))
    return row.run


def _recover(db: Database) -> list[WorkflowRun]:
    found: list[WorkflowRun] = []
    for row in db.workflows.find("unfinished", True):
        if row.node not in db.nodes and db.node in db.nodes:
            db.workflows.put(row.run.id, replace(row, node=db.node))
        elif row.node != db.node:
            continue
        found.append(row.run)
    return sorted(found, key=lambda run: (run.created_at, run.id))


def _list_owed(db: Database, run_id: str) -> list[tuple[str, WorkflowReport]]:
    rows = db.workflow_reports.find("workflow", run_id) if run_id else list(db.workflow_reports)
    owed = [(row.workflow, row.report) for row in rows if row.report.id not in db.deliveries]
    return sorted(owed, key=lambda item: (item[0], item[1].id))


def remove_of_conversation(db: Database, key: ConversationKey) -> None:
    """Remove what a deleted conversation is owed, and the ended workflows that it started."""
    for report in db.workflow_reports.find("conversation", key):
        _remove_report(db, report)
    for row in db.workflows.find("origin", key):
        if row.run.ended_at:
            _remove(db, row.run.id)


def expire(db: Database, config: TraceConfig, now: float, batch: int) -> int:
    """Remove ended workflows that are older than the runs which are kept; return how many."""
    failed, fine = now - config.keep_failed_days * _DAY, now - config.keep_days * _DAY
    old = [
        row.run
        for row in db.workflows
        if row.run.ended_at and row.run.ended_at < (failed if row.run.status is WorkflowStatus.FAILED else fine)
    ]
    gone = sorted(old, key=lambda run: run.ended_at)[:batch]
    for run in gone:
        _remove(db, run.id)
    return len(gone)


def is_needed(db: Database, run_id: str) -> bool:
    """Return whether a workflow that has not ended needs the result of a run."""
    rows = db.workflow_attempts.find("run", run_id)
    return any(not db.workflows[row.workflow].run.ended_at for row in rows)


def _remove(db: Database, run_id: str) -> None:
    for report in db.workflow_reports.find("workflow", run_id):
        _remove_report(db, report)
    db.workflow_attempts.remove_all("workflow", run_id)
    db.workflows.remove(run_id)


def _remove_report(db: Database, row: WorkflowReportRow) -> None:
    db.deliveries.remove(row.report.id)
    db.workflow_reports.remove(row.report.id)
