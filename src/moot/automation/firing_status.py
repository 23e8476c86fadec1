"""Describes a firing of a job: skipped, queued, running, waiting for a person, or how its run ended. Pure."""

from collections.abc import Sequence

from moot.domain.cron_job import FiringRecord
from moot.domain.run import RunStatus
from moot.domain.run_view import Condition, RunView
from moot.domain.workflow import WorkflowStatus

SKIPPED = "skipped"
WAITING = "waiting"
REMOVED = "removed"


def find_waiting(live: Sequence[RunView]) -> RunView | None:
    """Return the first of these runs that waits for a person."""
    return next((view for view in live if view.block.condition in (Condition.ASKING, Condition.BLOCKED)), None)


def describe_firing(record: FiringRecord, live: Sequence[RunView]) -> str:
    """Return the status of a firing; `live` are its run, or the runs of its workflow's steps, that are active here."""
    if record.firing.skipped is not None:
        return SKIPPED
    if record.workflow is not None:
        is_waiting = record.workflow.status is WorkflowStatus.RUNNING and find_waiting(live) is not None
        return WAITING if is_waiting else str(record.workflow.status)
    run = record.run
    if run is None:
        return REMOVED
    if run.end is not None:
        return str(run.end.outcome)
    if find_waiting(live) is not None:
        return WAITING
    has_started = any(view.run.started_at for view in live)
    return "queued" if run.status is RunStatus.QUEUED and not has_started else "running"
