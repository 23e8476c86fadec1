"""A run as its parent and its owner see it: its status, what blocks it, and both together. Pure."""

from enum import StrEnum

from msgspec import Struct

from moot.domain.run import Outcome, Run, RunEnd, RunStatus


class TeammateStatus(StrEnum):
    """The status of a run as agent_wait and `moot ps` report it. Derived, never stored."""

    SPAWNED = "spawned"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Condition(StrEnum):
    """Why a run that has not ended does not proceed."""

    NONE = ""
    QUEUED = "queued"
    BLOCKED = "blocked_waiting_approval"
    ASKING = "blocked_waiting_message"
    WAITING = "waiting_on_teammate"
    RESUMING = "resuming"


class GrantState(StrEnum):
    NONE = ""
    PENDING = "pending"
    GRANTED = "granted"
    DENIED = "denied"


class Block(Struct, frozen=True, kw_only=True):
    """What a blocked run waits for: the stable id of the ask, and the number of attempts."""

    condition: Condition = Condition.NONE
    reason: str = ""
    request_id: str = ""
    attempt: int = 0
    state: GrantState = GrantState.NONE


class RunView(Struct, frozen=True):
    """A run together with what it waits for at the moment."""

    run: Run
    block: Block = Block()
    # The runs it waits for.
    waiting_on: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.run.id

    @property
    def agent(self) -> str:
        return self.run.agent

    @property
    def end(self) -> RunEnd | None:
        return self.run.end

    @property
    def status(self) -> TeammateStatus:
        return status_of(self.run)


def status_of(run: Run) -> TeammateStatus:
    if run.end is not None:
        return status_of_outcome(run.end.outcome)
    return TeammateStatus.RUNNING if run.status is RunStatus.RUNNING else TeammateStatus.SPAWNED


def status_of_outcome(outcome: Outcome) -> TeammateStatus:
    """Return the status for an outcome. Escalating counts as completed: the teammate has done its part."""
    match outcome:
        case Outcome.COMPLETED | Outcome.ESCALATED:
            return TeammateStatus.COMPLETED
        case Outcome.CANCELLED:
            return TeammateStatus.CANCELLED
        case _:
            return TeammateStatus.FAILED
