"""A run executes one turn: what was asked of it, what it may spend, and how it ended."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from moot.domain.ask import Asker
from moot.domain.conversation import ConversationKey
from moot.domain.scope import ALL_TOOLS, Scope
from moot.domain.usage import Spent, Usage

_N = TypeVar("_N", int, float)


class Outcome(StrEnum):
    COMPLETED = "completed"
    ESCALATED = "escalated"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    EMPTY = "empty"
    EMPTY_AFTER_TOOL_USE = "empty_after_tool_use"
    LOOP_DETECTED = "loop_detected"
    TIMEOUT = "timeout"
    LIMIT = "limit"
    TOOL_ERROR = "tool_error"
    MODEL_ERROR = "model_error"
    DENIED = "denied"
    INTERNAL_ERROR = "internal_error"


# A retry of one of these runs again on the message that is already there; any other is replayed.
RETRYABLE = frozenset({Outcome.INTERRUPTED, Outcome.MODEL_ERROR, Outcome.TIMEOUT, Outcome.INTERNAL_ERROR})


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run, or a tree of runs, may spend; None is no limit. `idle_seconds` may pass with nothing happening."""

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    spend: float | None = None
    idle_seconds: float | None = None

    def narrowed(self, other: "Limits") -> "Limits":
        return Limits(
            steps=least(self.steps, other.steps),
            seconds=least(self.seconds, other.seconds),
            tokens=least(self.tokens, other.tokens),
            spend=least(self.spend, other.spend),
            idle_seconds=least(self.idle_seconds, other.idle_seconds),
        )


def least(first: _N | None, second: _N | None) -> _N | None:
    """The smaller of two limits, where None is none."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Everything that makes an agent speak, as values. Doors differ in these and in nothing else."""

    id: str
    key: ConversationKey
    speaker: str
    content: str
    scope: Scope = ALL_TOOLS
    cwd: str = ""
    limits: Limits = field(default_factory=Limits)
    client_message_id: str = ""
    # The conversation a person is in, where that is another one: questions and approvals come up there.
    root: ConversationKey | None = None
    # The strangers whose words the content may hold.
    taint: frozenset[str] = frozenset()
    # The agent that wrote the content, where that was not the sender: a teammate that reports.
    author: str = ""
    # The runs whose results the content tells: with it on disk they are owed to nobody any more.
    delivers: tuple[str, ...] = ()
    # The run whose budget it spends from, where that is another: the turn of a person's that set it all off.
    origin: str = ""
    # The run that spawned it.
    parent_id: str = ""
    # Who its questions and approvals come from, where no person talks to the run directly.
    asker: Asker | None = None
    # Whether its conversation is made for it; there is nothing to read on the disk then.
    is_first: bool = False

    @property
    def asks_in(self) -> ConversationKey:
        return self.root or self.key

    @property
    def guest(self) -> str:
        """The speaker's name where the key does not name it, else empty."""
        return "" if self.speaker == self.key.agent else self.speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended. `limit` names the limit that was hit, `error` is one sentence for a person."""

    outcome: Outcome
    error: str = ""
    limit: str = ""
    content: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    steps: int = 0
    # How long it was at work; waiting for a human is not.
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as it is stored."""

    request: RunRequest
    status: RunStatus
    created_at: float
    started_at: float = 0.0
    ended_at: float = 0.0
    user_seq: int = 0
    end: RunEnd | None = None
    # What it has used up so far, also while it goes on.
    spent: Spent = field(default_factory=Spent)
