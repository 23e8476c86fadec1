"""The Run: what was asked, where it comes from, what it may spend, how it stands and how it ended. Pure."""

from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from moot.domain.ask import Asker
from moot.domain.conversation import ConversationKey
from moot.domain.scope import ALL_TOOLS, SHARED, TEAMMATE, Scope, only
from moot.domain.senders import CHILD_SENDER
from moot.domain.usage import RunUsage, Usage

_N = TypeVar("_N", int, float)

# As much of a task as tells it from others.
_SHOWN_TASK = 200


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


class RunKind(StrEnum):
    """Who set a run off: a person in a conversation, another run, or a person who does not wait for it."""

    TURN = "turn"
    TEAMMATE = "teammate"
    BACKGROUND = "background"


class Delivery(StrEnum):
    """Where a run's result went: into a wait of its parent, into a message to it, or nowhere. It goes to one place."""

    OWED = "owed"
    WAITED = "waited"
    SENT = "sent"
    # It has no parent, or was stopped together with it.
    NONE = "none"


class Limits(Struct, frozen=True, kw_only=True):
    """What a run, or a tree of runs, may spend; None is no limit. `idle_seconds` may pass with nothing happening."""

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    spend: float | None = None
    idle_seconds: float | None = None

    def narrow(self, other: "Limits") -> "Limits":
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


class RunRequest(Struct, frozen=True, kw_only=True):
    """Everything that makes an agent speak, as values. Surfaces differ in these and in nothing else."""

    id: str
    key: ConversationKey
    speaker: str
    content: str
    scope: Scope = ALL_TOOLS
    cwd: str = ""
    limits: Limits = Limits()
    client_message_id: str = ""
    # The run that was to answer the same message and did not: this one answers it in its place.
    rerun_of: str = ""
    # The conversation a person is in, where that is another one: questions and approvals come up there.
    root: ConversationKey | None = None
    # The strangers whose words the content may hold.
    taint: frozenset[str] = frozenset()
    # The agent that wrote the content, where that was not the sender: a teammate that reports.
    author: str = ""
    # The runs whose results the content tells: with it on disk they are owed to nobody any more.
    delivers: tuple[str, ...] = ()
    # The top run of the tree it belongs to, whose budget it spends from; empty where it is the top itself.
    root_id: str = ""
    # The run that spawned it.
    parent_id: str = ""
    # Who its questions and approvals come from, where no person talks to the run directly.
    asker: Asker | None = None
    # Whether it was stored as queued, with a conversation of its own in which nothing was said yet.
    is_first: bool = False

    @property
    def asks_in(self) -> ConversationKey:
        return self.root or self.key

    @property
    def guest(self) -> str:
        """The speaker's name where the key does not name it, else empty."""
        return "" if self.speaker == self.key.agent else self.speaker


class RunEnd(Struct, frozen=True, kw_only=True):
    """How a run ended. `limit` names the limit that was hit, `error` is one sentence for a person."""

    outcome: Outcome
    error: str = ""
    limit: str = ""
    content: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    cost: float = 0.0
    steps: int = 0
    # How long it was at work; waiting for a human is not.
    seconds: float = 0.0


class Spawn(Struct, frozen=True, kw_only=True):
    """Where a teammate's or a background run comes from, and what it was given."""

    kind: RunKind = RunKind.TEAMMATE
    # The call of its parent, and the step, that spawned it; empty for a background run.
    parent_call: str = ""
    parent_step: int = 0
    # The last message of the parent's conversation when it was spawned.
    parent_seq: int = 0
    # The agents from the root down to the parent.
    chain: tuple[str, ...] = ()
    reason: str = ""
    # None is the whole role, an empty list is no tools.
    allowed_tools: tuple[str, ...] | None = None
    # Whether it goes on although its parent was stopped: only the parent was to stop.
    outlives: bool = False
    # Who started it and under which id of theirs, hashed; empty where they gave none.
    client_key: str = ""


_TURN = Spawn(kind=RunKind.TURN)


class Run(Struct, frozen=True, kw_only=True):
    """A run as it is stored. What is derived from other rows (delivery, granted tools) is read with it."""

    request: RunRequest
    status: RunStatus
    created_at: float
    spawn: Spawn = _TURN
    started_at: float = 0.0
    ended_at: float = 0.0
    user_seq: int = 0
    end: RunEnd | None = None
    # What it has used up so far, also while it goes on.
    spent: RunUsage = RunUsage()
    delivery: Delivery = Delivery.NONE
    # The run and the message that showed its result, where known.
    delivered_by: str = ""
    delivered_seq: int = 0
    # The tools its owner gave it beyond those it was spawned with.
    granted_tools: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def agent(self) -> str:
        return self.request.speaker

    @property
    def key(self) -> ConversationKey:
        return self.request.key

    @property
    def root(self) -> ConversationKey:
        """The conversation a person is in."""
        return self.request.asks_in

    @property
    def root_id(self) -> str:
        return self.request.root_id or self.request.id

    @property
    def instruction(self) -> str:
        return self.request.content

    @property
    def kind(self) -> RunKind:
        return self.spawn.kind

    @property
    def parent_id(self) -> str:
        return self.request.parent_id

    @property
    def parent_key(self) -> ConversationKey | None:
        """The parent's conversation: its own one, where the parent was spawned too; else that of the root."""
        if not self.parent_id:
            return None
        if self.depth > 1:
            return ConversationKey(self.spawn.chain[-1], f"{CHILD_SENDER}{self.parent_id}")
        return self.root

    @property
    def depth(self) -> int:
        return len(self.spawn.chain)

    def may_use(self, tool: str) -> bool:
        """Whether it was spawned with the tool, or granted it. Tools of no role are always there."""
        return self.offers.allows(tool)

    @property
    def offers(self) -> Scope:
        """The tools it is told of."""
        if self.spawn.allowed_tools is None:
            return ALL_TOOLS
        return only(*self.spawn.allowed_tools, *self.granted_tools, *SHARED, *TEAMMATE)

    @property
    def asker(self) -> Asker:
        """Who it is, for a person it asks something."""
        task = self.instruction[:_SHOWN_TASK]
        return Asker(agent=self.agent, run_id=self.id, spawn_reason=self.spawn.reason, task=task)
