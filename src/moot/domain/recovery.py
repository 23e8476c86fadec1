"""Decides how to continue a run that a daemon left unfinished, from its stored rows. Used by multiagent. Pure."""

from collections.abc import Callable, Collection
from enum import StrEnum

from msgspec import Struct

from moot.domain.mail import MAIL_AUTHOR
from moot.domain.message import ToolCall
from moot.domain.run import Outcome, Run, RunKind, RunStatus
from moot.domain.task_notification import TASK_AUTHOR


class LeftRun(Struct, frozen=True, kw_only=True):
    """A run that has not ended and that no living daemon works on, with the facts needed to decide about it."""

    run: Run
    # The calls of its last step without a result.
    open_calls: tuple[ToolCall, ...] = ()
    # Ids of calls that wait for a person, or whose answer is not used yet, and that can be executed again.
    resumable: Collection[str] = frozenset()
    # Ids of calls that a person was asked to approve and that have not begun.
    unapproved: Collection[str] = frozenset()
    # The outcome of the run that spawned it, if that has ended.
    parent_outcome: Outcome | None = None
    # Whether it spawned runs that are active, or whose results were not delivered to it.
    has_teammates: bool = False


class RecoveryAction(StrEnum):
    # It has not begun: it is queued again.
    ENQUEUE = "enqueue"
    # It continues from its last recorded step.
    RESUME = "resume"
    # It ends, because the run that spawned it was cancelled.
    CANCEL = "cancel"
    # It ends, because it is unknown whether its last call was executed, or because nobody needs the rest.
    INTERRUPT = "interrupt"


def decide(left: LeftRun, *, is_repeatable: Callable[[str], bool]) -> RecoveryAction:
    """Return the action for a left run. `is_repeatable` tells whether repeating a call of a tool is harmless."""
    run = left.run
    if left.parent_outcome is Outcome.CANCELLED and not run.spawn.outlives:
        return RecoveryAction.CANCEL
    if run.status is RunStatus.QUEUED:
        return RecoveryAction.ENQUEUE
    is_for_agent = run.request.author in (MAIL_AUTHOR, TASK_AUTHOR)
    if run.kind is RunKind.TURN and not left.has_teammates and not is_for_agent:
        # A user waits for a whole answer, so a turn is interrupted; but a turn that waits for the user's decision is
        # resumed.
        is_asking = bool(left.open_calls) and all(call.id in left.resumable for call in left.open_calls)
        return RecoveryAction.RESUME if is_asking else RecoveryAction.INTERRUPT
    is_known = all(
        call.id in left.resumable or is_repeatable(call.name) or not run.may_use(call.name) for call in left.open_calls
    )
    return RecoveryAction.RESUME if is_known else RecoveryAction.INTERRUPT
