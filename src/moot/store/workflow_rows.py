"""Rows of workflow runs, of the attempts at their steps and of the reports they owe. Used by workflows and deletion."""

from collections.abc import Sequence

import apsw

from moot.domain.config import TraceConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, NotFound
from moot.domain.owner import taken_over_error
from moot.domain.run import MailCause, Run
from moot.domain.senders import SenderSet
from moot.domain.workflow import LISTED_SOURCE, StepAttempt, WorkflowReport, WorkflowRun, WorkflowStatus
from moot.store import conversations, found_runs, rows

_COLUMNS = (
    "id, name, source, owner, origin_agent, origin_sender, start_key, cwd, search_path, taint, created_at,"
    " cancelled_at, ended_at, status, error, thread, hops"
)
_SELECT = f"SELECT {_COLUMNS} FROM workflows"
_SELECT_LISTED = _SELECT.replace(" source,", f" substr(source, 1, {LISTED_SOURCE}),")
_DAY = 86_400.0
# For a row of `runs`: whether later steps of a workflow that has not ended need its result.
IS_NEEDED = (
    "EXISTS (SELECT 1 FROM workflow_attempts JOIN workflows ON workflows.id = workflow"
    " WHERE run_id = runs.id AND workflows.ended_at = 0)"
)


def create(db: apsw.Connection, run: WorkflowRun, reports: Sequence[WorkflowReport], node: int) -> WorkflowRun:
    if run.start_key:
        found = db.execute(f"{_SELECT} WHERE start_key = ? AND start_key <> ''", (run.start_key,)).fetchone()
        if found is not None:
            return _run(found)
    if run.origin is not None and rows.conversation_id(db, run.origin) is None:
        # Questions of its steps are asked there.
        conversations.claim(db, run.origin, run.created_at, node)
    db.execute(
        f"INSERT INTO workflows ({_COLUMNS}, node) VALUES ({', '.join('?' * 18)})",
        (
            run.id,
            run.name,
            run.source,
            run.owner,
            *(run.origin or ("", "")),
            run.start_key,
            run.cwd,
            run.search_path,
            rows.encode_taint(run.taint),
            run.created_at,
            run.cancelled_at,
            run.ended_at,
            run.status.value,
            run.error,
            run.cause.thread,
            run.cause.hops,
            node,
        ),
    )
    db.executemany(
        "INSERT INTO workflow_reports (id, workflow, agent, sender, step) VALUES (?, ?, ?, ?, ?)",
        [(report.id, run.id, *report.key, report.step) for report in reports],
    )
    return run


def _run(row: rows.Row) -> WorkflowRun:
    run_id, name, source, owner, origin_agent, origin_sender, start_key, cwd, search_path, taint, *rest = row
    created_at, cancelled_at, ended_at, status, error, thread, hops = rest
    return WorkflowRun(
        id=run_id,
        name=name,
        source=source,
        owner=owner,
        origin=ConversationKey(origin_agent, origin_sender) if origin_agent else None,
        start_key=start_key,
        cwd=cwd,
        search_path=search_path,
        taint=rows.decode_taint(taint),
        created_at=created_at,
        cancelled_at=cancelled_at,
        ended_at=ended_at,
        status=WorkflowStatus(status),
        error=error,
        cause=MailCause(thread, hops),
    )


def get(db: apsw.Connection, run_id: str) -> WorkflowRun | None:
    row = db.execute(f"{_SELECT} WHERE id = ?", (run_id,)).fetchone()
    return None if row is None else _run(row)


def get_listed(db: apsw.Connection, run_id: str) -> WorkflowRun | None:
    """Return a run as lists have it, with the beginning of its text."""
    row = db.execute(f"{_SELECT_LISTED} WHERE id = ?", (run_id,)).fetchone()
    return None if row is None else _run(row)


def list_runs(db: apsw.Connection, senders: SenderSet, limit: int, name: str) -> list[WorkflowRun]:
    found: list[WorkflowRun] = []
    for row in db.execute(f"{_SELECT_LISTED} WHERE ?1 = '' OR name = ?1 ORDER BY created_at DESC, id DESC", (name,)):
        if len(found) >= limit:
            break
        if senders.includes(row[3]):
            found.append(_run(row))
    return found


def require_held(db: apsw.Connection, run_id: str, node: int) -> WorkflowRun:
    """Return the run, claimed for this node if its own is dead; raise Fenced if that is alive, or this is not."""
    run = get(db, run_id)
    if run is None:
        raise NotFound(f"there is no workflow run {run_id!r}", fix="List them with `moot workflow history`.")
    owner = int(db.execute("SELECT node FROM workflows WHERE id = ?", (run_id,)).get)
    if owner != node:
        db.execute(
            "UPDATE workflows SET node = ?1 WHERE id = ?2 AND EXISTS (SELECT 1 FROM nodes WHERE id = ?1)"
            " AND NOT EXISTS (SELECT 1 FROM nodes WHERE id = workflows.node)",
            (node, run_id),
        )
        if not db.changes():
            raise taken_over_error(f"the workflow run {run_id}", owner)
    return run


def start_attempt(db: apsw.Connection, run_id: str, attempt: StepAttempt, node: int) -> StepAttempt:
    run = require_held(db, run_id, node)
    known = db.execute(
        "SELECT run_id FROM workflow_attempts WHERE workflow = ? AND step = ? AND attempt = ?",
        (run_id, attempt.step, attempt.attempt),
    ).get
    if known is not None:
        return StepAttempt(step=attempt.step, attempt=attempt.attempt, run_id=known, run=found_runs.get(db, known))
    if run.ended_at or run.cancelled_at:
        raise Conflict(f"the workflow run {run_id} has ended or was cancelled")
    db.execute(
        "INSERT INTO workflow_attempts (workflow, step, attempt, run_id) VALUES (?, ?, ?, ?)",
        (run_id, attempt.step, attempt.attempt, attempt.run_id),
    )
    return attempt


def list_attempts(db: apsw.Connection, run_id: str) -> list[StepAttempt]:
    found: list[rows.Row] = db.execute(
        "SELECT step, attempt, run_id FROM workflow_attempts WHERE workflow = ? ORDER BY number", (run_id,)
    ).fetchall()
    runs = {run.id: run for run in found_runs.list_by_ids(db, [each for _, _, each in found])}
    return [StepAttempt(step=step, attempt=attempt, run_id=each, run=runs.get(each)) for step, attempt, each in found]


def find_last_run(db: apsw.Connection, workflow: WorkflowRun) -> Run | None:
    """Return the run of a step that ended last; None if the workflow has not ended."""
    if not workflow.ended_at:
        return None
    run_id = db.execute(
        "SELECT runs.id FROM workflow_attempts JOIN runs ON runs.id = run_id"
        " WHERE workflow = ? AND runs.ended_at > 0 ORDER BY runs.ended_at DESC, workflow_attempts.number DESC LIMIT 1",
        (workflow.id,),
    ).get
    return found_runs.get(db, run_id) if run_id is not None else None


def cancel(db: apsw.Connection, run_id: str, now: float, node: int) -> WorkflowRun | None:
    run = get(db, run_id)
    if run is None or run.ended_at:
        return None
    require_held(db, run_id, node)
    db.execute("UPDATE workflows SET cancelled_at = ? WHERE id = ? AND cancelled_at = 0", (now, run_id))
    return get(db, run_id)


def end(db: apsw.Connection, run_id: str, status: WorkflowStatus, error: str, now: float, node: int) -> WorkflowRun:
    require_held(db, run_id, node)
    db.execute(
        "UPDATE workflows SET status = CASE cancelled_at WHEN 0 THEN ?1 ELSE 'cancelled' END,"
        " error = CASE cancelled_at WHEN 0 THEN ?2 ELSE '' END, ended_at = ?3 WHERE id = ?4 AND ended_at = 0",
        (status.value, error, now, run_id),
    )
    run = get(db, run_id)
    assert run is not None
    return run


def has_unfinished(db: apsw.Connection) -> bool:
    return bool(db.execute("SELECT EXISTS (SELECT 1 FROM workflows WHERE ended_at = 0)").get)


def recover(db: apsw.Connection, node: int) -> list[WorkflowRun]:
    db.execute(
        "UPDATE workflows SET node = ?1 WHERE ended_at = 0 AND EXISTS (SELECT 1 FROM nodes WHERE id = ?1)"
        " AND node NOT IN (SELECT id FROM nodes)",
        (node,),
    )
    found = db.execute(f"{_SELECT} WHERE ended_at = 0 AND node = ? ORDER BY created_at, id", (node,))
    return [_run(row) for row in found]


def list_owed(db: apsw.Connection, run_id: str) -> list[tuple[str, WorkflowReport]]:
    found = db.execute(
        "SELECT workflow, id, agent, sender, step FROM workflow_reports WHERE (?1 = '' OR workflow = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM deliveries WHERE item_id = workflow_reports.id) ORDER BY workflow, id",
        (run_id,),
    )
    return [
        (workflow, WorkflowReport(id=number, key=ConversationKey(agent, sender), step=step))
        for workflow, number, agent, sender, step in found
    ]


def remove_of_conversation(db: apsw.Connection, key: ConversationKey) -> None:
    """Delete what a deleted conversation is owed, and the ended workflows that it started."""
    owed = "SELECT id FROM workflow_reports WHERE agent = ? AND sender = ?"
    db.execute(f"DELETE FROM deliveries WHERE item_id IN ({owed})", key)
    db.execute("DELETE FROM workflow_reports WHERE agent = ? AND sender = ?", key)
    ended = db.execute("SELECT id FROM workflows WHERE origin_agent = ? AND origin_sender = ? AND ended_at > 0", key)
    _remove(db, [str(run_id) for (run_id,) in ended.fetchall()])


def expire(db: apsw.Connection, config: TraceConfig, now: float, batch: int) -> int:
    """Delete ended workflows that are older than the runs which are kept; return how many."""
    found = db.execute(
        "SELECT id FROM workflows WHERE ended_at > 0"
        " AND ended_at < CASE WHEN status = 'failed' THEN ?1 ELSE ?2 END ORDER BY ended_at LIMIT ?3",
        (now - config.keep_failed_days * _DAY, now - config.keep_days * _DAY, batch),
    )
    gone = [str(run_id) for (run_id,) in found.fetchall()]
    _remove(db, gone)
    return len(gone)


def _remove(db: apsw.Connection, run_ids: Sequence[str]) -> None:
    for run_id in run_ids:
        db.execute(
            "DELETE FROM deliveries WHERE item_id IN (SELECT id FROM workflow_reports WHERE workflow = ?)", (run_id,)
        )
        # Foreign keys delete the attempts and the reports.
        db.execute("DELETE FROM workflows WHERE id = ?", (run_id,))
