"""Ends the left runs that cannot be resumed, as domain/recovery decides. Used when the daemon starts."""

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from moot.domain.interruption import close_call
from moot.domain.recovery import LeftRun, RecoveryAction, decide
from moot.domain.run import Outcome, Run, RunEnd, RunStatus
from moot.failpoint import reach
from moot.multiagent.teammates.dependencies import TeammateDependencies
from moot.multiagent.teammates.run_factory import make_cancelled_end, make_interrupted_end

logger = logging.getLogger(__name__)


async def recover(dependencies: TeammateDependencies, left: Sequence[LeftRun]) -> list[Run]:
    """End the left runs that cannot be resumed; return those to resume or to queue again, in their order."""
    ended: dict[str, Outcome] = {}
    going_on: list[Run] = []
    for each in left:
        # Parents come before their children, because the outcome of a parent decides about its children.
        known = replace(each, parent_outcome=ended.get(each.run.parent_id, each.parent_outcome))
        match decide(known, is_repeatable=dependencies.is_repeatable):
            case RecoveryAction.ENQUEUE | RecoveryAction.RESUME:
                going_on.append(each.run)
            case RecoveryAction.CANCEL:
                await end_unfinished(dependencies, each, make_cancelled_end(each.run.spent))
                ended[each.run.id] = Outcome.CANCELLED
            case RecoveryAction.INTERRUPT:
                logger.warning("run %s was interrupted: the daemon stopped while it went on", each.run.id)
                await end_unfinished(dependencies, each, make_interrupted_end(each.run))
                ended[each.run.id] = Outcome.INTERRUPTED
    return going_on


async def end_unfinished(dependencies: TeammateDependencies, left: LeftRun, end: RunEnd) -> None:
    """Store the end of a run that is in no lane, with a result for each of its open calls."""
    run, now = left.run, dependencies.clock.now()
    if run.status is RunStatus.QUEUED:
        await dependencies.store.unqueue(run.id, end, now=now)
        return
    closing = [
        close_call(
            call.id,
            is_begun=call.id not in left.unapproved and run.may_use(call.name),
            is_harmless=call.id not in left.unapproved and dependencies.is_repeatable(call.name),
        )
        for call in left.open_calls
    ]
    await dependencies.store.end(run.key, run.id, end, closing, now=now)
    # The cached history does not contain the results that close its open calls.
    dependencies.runs.histories.drop(run.key)
    dependencies.asks.end_run(run.id)
    reach("teammate.interrupted")
