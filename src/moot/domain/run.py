"""Run: the request, where it comes from, what it may spend, its status and how it ended. Pure."""

from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from moot.domain.ask import Asker
from moot.domain.conversation import ConversationKey
from moot.domain.scope import ALL_TOOLS, ASSISTANT, SHARED, TEAMMATE, Scope, only
from moot.domain.senders import CHILD_SENDER, WORKFLOW_SENDER, owner_of
from moot.domain.usage import RunUsage, Usage
from moot.domain.user_message import UserMessage, join_contents

_N = TypeVar("_N", int, float)

# The length of a task's beginning that is enough to tell it from others.
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


# Outcomes after which a retry runs again on the stored message; for any other outcome the run is repeated as it was.
RETRYABLE = frozenset({Outcome.INTERRUPTED, Outcome.MODEL_ERROR, Outcome.TIMEOUT, Outcome.INTERNAL_ERROR})

# Outcomes of runs that did nothing of what was requested, whatever their text says.
UNDONE = frozenset({Outcome.DENIED, Outcome.TOOL_ERROR})


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


class RunKind(StrEnum):
    """What started a run: a person in a conversation, another run, or a person who does not wait for it."""

    TURN = "turn"
    TEAMMATE = "teammate"
    BACKGROUND = "background"


class Delivery(StrEnum):
    """Where a run's result was delivered: to a wait of its parent, in a message to it, or nowhere. One place only."""

    OWED = "owed"
    WAITED = "waited"
    SENT = "sent"
    # It has no parent, or was stopped together with it.
    NONE = "none"


class Limits(Struct, frozen=True, kw_only=True):
    """What a run, or a tree of runs, may use; None is no limit.

    `idle_seconds` is the maximum time without any activity.
    """

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    spend: float | None = None
    idle_seconds: float | None = None

    def narrow(self, other: "Limits") -> "Limits":
        if other == _NO_LIMITS:
            return self
        return Limits(
            steps=least(self.steps, other.steps),
            seconds=least(self.seconds, other.seconds),
            tokens=least(self.tokens, other.tokens),
            spend=least(self.spend, other.spend),
            idle_seconds=least(self.idle_seconds, other.idle_seconds),
        )


_NO_LIMITS = Limits()


def least(first: _N | None, second: _N | None) -> _N | None:
    """Return the smaller of two limits, where None is no limit."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


class MailCause(Struct, frozen=True, gc=False):
    """What led to a run, as far as mail did. The mail that the run sends, and all that this causes, counts together."""

    # The run that all of it began with; empty for a run that begins it itself.
    thread: str = ""
    # How many mails in a row led to the run, each sent by an agent that the previous one woke.
    hops: int = 0


NO_MAIL_CAUSE = MailCause()


class RunRequest(Struct, frozen=True, kw_only=True):
    """Everything that makes an agent speak, as values. All ways to start a run differ only in these."""

    id: str
    key: ConversationKey
    speaker: str
    content: str
    scope: Scope = ALL_TOOLS
    cwd: str = ""
    # The PATH of the client, where the commands of the run find programs besides those of the system.
    search_path: str = ""
    limits: Limits = Limits()
    client_message_id: str = ""
    # The earlier run for the same message that did not answer it; this one answers in its place.
    rerun_of: str = ""
    # The root conversation, if it is a different one: questions and approvals are shown there.
    root: ConversationKey | None = None
    # The sources of untrusted text in the content.
    taint: frozenset[str] = frozenset()
    # The agent that wrote the content, if it was not the sender: a teammate that reports.
    author: str = ""
    # The runs whose results the content contains: they count as delivered once it is on disk.
    delivers: tuple[str, ...] = ()
    # The root run of its tree, whose budget it shares; empty if it is the root itself.
    root_id: str = ""
    # The run that spawned it.
    parent_id: str = ""
    # The agents from the root of its tree down to its parent.
    chain: tuple[str, ...] = ()
    # The asker of its questions and approvals, if no person talks to the run directly.
    asker: Asker | None = None
    # Whether it was stored as queued, with a new conversation that is still empty.
    is_first: bool = False
    # The active run that is to be shown the message at its next step; empty if it is only a turn of its own.
    steers: str = ""
    # The cause of the run whose call started this one, or whose result it reports. That of a run which mail starts is
    # read from the mail.
    cause: MailCause = NO_MAIL_CAUSE

    @property
    def asks_in(self) -> ConversationKey:
        return self.root or self.key

    @property
    def guest(self) -> str:
        """The speaker's name if it is not the agent of the key, else empty."""
        return "" if self.speaker == self.key.agent else self.speaker


class RunEnd(Struct, frozen=True, kw_only=True):
    """How a run ended. `limit` names the limit that was reached, `error` is one sentence for a person."""

    outcome: Outcome
    error: str = ""
    limit: str = ""
    content: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    cost: float = 0.0
    steps: int = 0
    # Seconds of work, excluding the time spent waiting for people.
    seconds: float = 0.0
    # What it sent to the person, if its agent is an assistant. Read from the history, not stored with the end.
    messages: tuple[UserMessage, ...] = ()

    # The tool calls that were really made.
    tool_uses: int = 0

    @property
    def spent(self) -> RunUsage:
        return RunUsage(
            steps=self.steps, usage=self.usage, cost=self.cost, seconds=self.seconds, tool_uses=self.tool_uses
        )

    @property
    def answer(self) -> str:
        """The result of the run: the messages of an assistant, else the text. See engine/run_results.py."""
        return join_contents(self.messages) or self.content


# The end of a message that its sender took back; it is not in the history.
WITHDRAWN = RunEnd(outcome=Outcome.CANCELLED, error="The message was withdrawn before its turn came.")


def end_steered(run_id: str) -> RunEnd:
    """How a queued message ends that was shown to an active run."""
    return RunEnd(outcome=Outcome.COMPLETED, error=f"It was shown to run {run_id}, which answers it.")


class Spawn(Struct, frozen=True, kw_only=True):
    """Where a teammate's or background run comes from, and what it was given."""

    kind: RunKind = RunKind.TEAMMATE
    # The call and the step of its parent that spawned it; empty for a background run.
    parent_call: str = ""
    parent_step: int = 0
    # The last message of the parent's conversation when it was spawned.
    parent_seq: int = 0
    # The agents from the root down to the parent.
    chain: tuple[str, ...] = ()
    reason: str = ""
    # None is all tools of its role, an empty list is no tools.
    allowed_tools: tuple[str, ...] | None = None
    # Whether it continues although its parent was stopped, because only the parent was to be stopped.
    outlives: bool = False
    # The client that started it and the id that client gave, hashed; empty if there was no id.
    client_key: str = ""
    # The agent whose conversation with the person gets the result; empty for the root conversation.
    report_to: str = ""


_TURN = Spawn(kind=RunKind.TURN)


class Run(Struct, frozen=True, kw_only=True):
    """A run as it is stored. What is derived from other rows (delivery, granted tools) is read together with it."""

    request: RunRequest
    status: RunStatus
    created_at: float
    spawn: Spawn = _TURN
    started_at: float = 0.0
    ended_at: float = 0.0
    user_seq: int = 0
    end: RunEnd | None = None
    # What it has used so far, also while it is active.
    spent: RunUsage = RunUsage()
    delivery: Delivery = Delivery.NONE
    # The run and the message in which its result was shown, if known.
    delivered_by: str = ""
    delivered_seq: int = 0
    # The tools that its owner granted beyond those it was spawned with.
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
        """The root conversation, where a person is."""
        return self.request.asks_in

    @property
    def report_key(self) -> ConversationKey:
        """The conversation that a result is reported in, if no run shows it."""
        if not self.spawn.report_to:
            return self.root
        return ConversationKey(self.spawn.report_to, owner_of(self.root.sender))

    @property
    def root_id(self) -> str:
        return self.request.root_id or self.request.id

    @property
    def worker_id(self) -> str:
        """The id of a teammate: that of the run that it was spawned as, also for the runs that continue it."""
        return self.key.sender.removeprefix(CHILD_SENDER) if self.kind is RunKind.TEAMMATE else self.id

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
        """The parent's conversation: its own, if the parent was spawned too; else the root conversation.

        Of a child of a background run it is the conversation that works for, if it works for one.
        """
        if not self.parent_id:
            return None
        if self.depth > 1:
            return ConversationKey(self.spawn.chain[-1], f"{CHILD_SENDER}{self.parent_id}")
        return self.root

    @property
    def reports(self) -> bool:
        """Whether its result is owed to another run, or to the conversation that a background run works for.

        That of a step is owed to its workflow, which reports when it has ended.
        """
        if self.parent_id:
            return True
        is_step = self.key.sender.startswith(WORKFLOW_SENDER)
        return self.kind is RunKind.BACKGROUND and self.request.root is not None and not is_step

    @property
    def has_own_conversation(self) -> bool:
        """Whether its conversation was made for it."""
        return self.worker_id == self.id if self.kind is RunKind.TEAMMATE else self.id in self.key.sender

    @property
    def is_first(self) -> bool:
        """Whether its conversation was made for it and is still empty."""
        return self.has_own_conversation and self.status is RunStatus.QUEUED

    @property
    def depth(self) -> int:
        return len(self.spawn.chain)

    def may_use(self, tool: str) -> bool:
        """Whether it was spawned with the tool, or granted it. Tools that belong to no role are always allowed."""
        return self.offers.allows(tool)

    @property
    def offers(self) -> Scope:
        """The tools it is offered."""
        if self.spawn.allowed_tools is None:
            return ALL_TOOLS
        return only(*self.spawn.allowed_tools, *self.granted_tools, *SHARED, *TEAMMATE, *ASSISTANT)

    @property
    def asker(self) -> Asker:
        """Return the asker to show for questions of this run."""
        task = self.instruction[:_SHOWN_TASK]
        return Asker(agent=self.agent, run_id=self.id, spawn_reason=self.spawn.reason, task=task)
