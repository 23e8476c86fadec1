"""Decides what becomes of a run that a daemon left unfinished, from its stored rows alone. Used by multiagent. Pure."""

from collections.abc import Callable, Collection
from enum import StrEnum

from msgspec import Struct

from moot.domain.message import ToolCall
from moot.domain.run import Outcome, Run, RunKind, RunStatus


class LeftRun(Struct, frozen=True, kw_only=True):
    """A run that has not ended and that no living daemon works on, with what decides about it."""

    run: Run
    # The calls of its last step that have no result.
    open_calls: tuple[ToolCall, ...] = ()
    # The calls that wait for a person, or for the use of their answer, and can be made again.
    resumable: Collection[str] = frozenset()
    # The calls that a person was asked to approve and that were not begun.
    unapproved: Collection[str] = frozenset()
    # How the run that spawned it has ended, if it has.
    parent_outcome: Outcome | None = None
    # Whether it spawned runs that go on, or whose results it has not been told.
    leads: bool = False


class RecoveryAction(StrEnum):
    # It has not begun: it waits for its turn again.
    ENQUEUE = "enqueue"
    # It goes on from its last recorded step.
    RESUME = "resume"
    # It ends: whoever spawned it was stopped.
    CANCEL = "cancel"
    # It ends: nobody knows whether its last call was made, or nobody waits for the rest.
    INTERRUPT = "interrupt"


def decide(left: LeftRun, *, is_repeatable: Callable[[str], bool]) -> RecoveryAction:
    """What becomes of the run. `is_repeatable` says of a tool whether a second call of it does no harm."""
    run = left.run
    if left.parent_outcome is Outcome.CANCELLED and not run.spawn.outlives:
        return RecoveryAction.CANCEL
    if run.status is RunStatus.QUEUED:
        return RecoveryAction.ENQUEUE
    if run.kind is RunKind.TURN and not left.leads:
        # Somebody waits for the answer to a message, not for half of it; what they were asked about goes on.
        is_asking = bool(left.open_calls) and all(call.id in left.resumable for call in left.open_calls)
        return RecoveryAction.RESUME if is_asking else RecoveryAction.INTERRUPT
    is_known = all(
        call.id in left.resumable or is_repeatable(call.name) or not run.may_use(call.name) for call in left.open_calls
    )
    return RecoveryAction.RESUME if is_known else RecoveryAction.INTERRUPT
