"""A teammate's run as its parent and its owner see it: what it was asked, how it stands, what came of it. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from moot.domain.ask import Asker
from moot.domain.conversation import ConversationKey
from moot.domain.run import Limits, Outcome, RunEnd
from moot.domain.scope import SHARED, TEAMMATE

# As much of a task as tells it from others.
_TASK = 200


class AgentRunStatus(StrEnum):
    SPAWNED = "spawned"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self not in (AgentRunStatus.SPAWNED, AgentRunStatus.RUNNING)


class Condition(StrEnum):
    """What a run that has not ended is held up by."""

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


class Delivery(StrEnum):
    """Where the result went. It goes to one place: the parent's wait, a message to the parent, or nowhere."""

    OWED = "owed"
    WAITED = "waited"
    SENT = "sent"
    # Nobody spawned it, or whoever did has stopped it.
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What a blocked run waits for: a stable id, and how often it was asked."""

    condition: Condition = Condition.NONE
    reason: str = ""
    request_id: str = ""
    attempt: int = 0
    state: GrantState = GrantState.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """One spawned or background run. `key` is its own conversation, `root` the one a person is in."""

    id: str
    agent: str
    instruction: str
    key: ConversationKey
    root: ConversationKey
    # The run that spawned it and the call it did so with; empty for a run a person put into the background.
    parent: str = ""
    parent_key: ConversationKey | None = None
    call: str = ""
    # Who started it and under which id of theirs, hashed; nothing where they gave none.
    client_key: str = ""
    # The turn of a person's that set it all off, whose budget it spends from; and the step of its parent it came from.
    origin: str = ""
    step: int = 0
    # The agents from the root down to the parent.
    chain: tuple[str, ...] = ()
    spawn_reason: str = ""
    # None given is the whole role.
    allowed_tools: tuple[str, ...] = ()
    granted_tools: tuple[str, ...] = ()
    cwd: str = ""
    limits: Limits = field(default_factory=Limits)
    # The strangers whose words its instruction was written under.
    taint: frozenset[str] = frozenset()
    # The last message of the parent's conversation when it was spawned.
    parent_seq: int = 0
    # Whether it goes on although what spawned it was stopped: that was to stop alone.
    outlives: bool = False
    status: AgentRunStatus = AgentRunStatus.SPAWNED
    block: Block = field(default_factory=Block)
    waiting_on: str = ""
    end: RunEnd | None = None
    delivery: Delivery = Delivery.OWED
    created_at: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0

    @property
    def depth(self) -> int:
        return len(self.chain)

    def may_use(self, tool: str) -> bool:
        """Whether a spawn gave the tool, or a grant did. What does no work of its own is always there."""
        named = (*self.allowed_tools, *self.granted_tools, *SHARED, *TEAMMATE)
        return not self.allowed_tools or any(fnmatchcase(tool, pattern) for pattern in named)

    @property
    def asker(self) -> Asker:
        """Who it is, for a person it asks something."""
        task = self.instruction[:_TASK]
        return Asker(agent=self.agent, run_id=self.id, spawn_reason=self.spawn_reason, task=task)

    @property
    def is_background(self) -> bool:
        return self.parent_key is None


def status_of(outcome: Outcome) -> AgentRunStatus:
    """How a run that ended this way stands: one that says it is not the right one has done its part."""
    match outcome:
        case Outcome.COMPLETED | Outcome.ESCALATED:
            return AgentRunStatus.COMPLETED
        case Outcome.CANCELLED:
            return AgentRunStatus.CANCELLED
        case _:
            return AgentRunStatus.FAILED
