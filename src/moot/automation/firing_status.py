"""Describes a firing of a job: skipped, queued, running, waiting for a person, or how its run ended. Pure."""

from moot.domain.cron_job import FiringRecord
from moot.domain.run import RunStatus
from moot.domain.run_view import Condition, RunView

SKIPPED = "skipped"
WAITING = "waiting"
REMOVED = "removed"


def describe_firing(record: FiringRecord, live: RunView | None) -> str:
    """Return the status of a firing; `live` is its run if it is active here."""
    if record.firing.skipped is not None:
        return SKIPPED
    if record.workflow is not None:
        return str(record.workflow.status)
    run = record.run
    if run is None:
        return REMOVED
    if run.end is not None:
        return str(run.end.outcome)
    if live is not None and live.block.condition in (Condition.ASKING, Condition.BLOCKED):
        return WAITING
    return "queued" if run.status is RunStatus.QUEUED and (live is None or not live.run.started_at) else "running"
