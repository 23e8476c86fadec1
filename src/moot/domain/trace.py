"""A run's trace: what happened in it, in order, for whoever must find out why it went as it did. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

PAYLOAD_LENGTH = 1024


class TraceKind(StrEnum):
    # What the history, the runs and the spawned runs tell.
    TEXT = "text"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    DELEGATION = "delegation"
    DELEGATION_RETURN = "delegation_return"
    TERMINAL_ERROR = "terminal_error"
    OUTCOME = "outcome"
    # What only a note tells.
    ROUTING = "routing"
    POLICY_DECISION = "policy_decision"
    RECOVERY_ATTEMPT = "recovery_attempt"
    BUDGET_WARNING = "budget_warning"
    MODEL_RETRY = "model_retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNote:
    """A fact that is kept for traces alone. `after_seq` is the last message of its conversation before it."""

    run_id: str
    at: float
    kind: TraceKind
    agent: str
    # A JSON object of at most PAYLOAD_LENGTH characters, or its beginning.
    payload: str
    truncated: bool = False
    after_seq: int = 0


class Notes(Protocol):
    """Where facts for traces are written down, by whoever sees them happen."""

    def note(self, run_id: str, kind: TraceKind, agent: str, /, **payload: object) -> None:
        """Write it down. Costs the caller next to nothing, never fails, and is on disk before the run's end is told."""
        ...
