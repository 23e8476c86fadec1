"""The edges of Moot: what a model, a tool, the store and the clock must offer. Read this file first."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from moot.domain.approval import Decision, Rule
from moot.domain.ask import Ask, AskState, Binding, Question
from moot.domain.conversation import Archive, Conversation, ConversationKey, Loaded, Place, Recollection
from moot.domain.doomed import Doomed
from moot.domain.events import EventBody
from moot.domain.message import Entry, Message, Thinking, ToolCall
from moot.domain.prompt import Prompt, ToolSpec
from moot.domain.recovery import LeftRun
from moot.domain.run import Limits, Run, RunEnd, RunRequest
from moot.domain.token import Token
from moot.domain.usage import Spend, Spent, Usage


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, for people. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow, for timeouts."""
        ...


# ---- models -----------------------------------------------------------------------------------


class ToolSupport(StrEnum):
    """How a model is offered tools: its own way, by a JSON schema it must answer in, or not at all."""

    NATIVE = "native"
    SCHEMA = "schema"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDone:
    """A stretch of thinking is whole; it is kept with the message so that it can be sent back."""

    thinking: Thinking


@dataclass(frozen=True, slots=True)
class CallReady:
    """A tool call is whole. Its arguments are the text of a JSON object, or `flaw` says what they are instead."""

    call: ToolCall
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class Retrying:
    attempt: int
    delay_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a model call. No usage means that the provider did not report any."""

    usage: Usage | None
    truncated: bool = False


ModelEvent = TextDelta | ThinkingDelta | ThinkingDone | CallReady | Retrying | Finished


class Model(Protocol):
    """One configured model. `stream` raises ModelError; closing the generator cancels the call."""

    @property
    def name(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def window(self) -> int: ...
    @property
    def window_is_assumed(self) -> bool:
        """Whether neither the configuration nor the server says how large the window is."""
        ...

    @property
    def tools(self) -> ToolSupport: ...

    def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]: ...

    def cost(self, usage: Usage) -> float:
        """What this usage costs in US dollars; 0 where it costs nothing or the price is unknown."""
        ...

    async def find_window(self) -> None:
        """Ask the server for a window that is only assumed. Does nothing where it is known, and never fails."""
        ...

    async def has_price(self) -> bool:
        """Whether what a call costs is known, nothing included. May have to look it up."""
        ...

    async def close(self) -> None: ...


# ---- tools ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a tool may know of the run that calls it."""

    run_id: str
    key: ConversationKey
    speaker: str
    cwd: str
    emit: Callable[[EventBody], None]
    ask: "AskHuman"
    # The conversation a person is in, where this is not it.
    root: ConversationKey | None = None
    # The top run of the tree it belongs to, where that is another.
    root_id: str = ""
    # The run that spawned it.
    parent_id: str = ""
    # The call, and the number of the step it was made in.
    call_id: str = ""
    step: int = 0
    # The strangers whose words this run's model has seen, such as "web"; empty while there are none.
    taint: frozenset[str] = frozenset()
    # Time spent inside this does not count: a human is being waited for.
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    # Time spent inside this does not count against the call, only against the run: others are at work for it.
    attending: Callable[[], AbstractContextManager[None]] = nullcontext
    # Called when the tool itself is entered: until then the call has certainly had no effect.
    begin: Callable[[], object] = nullcontext
    # What the call was allowed to act on; a tool that finds something else refuses. None where nothing was looked at.
    agreed: Binding | None = None
    # Whether the owner has seen this very call and said yes to it.
    granted: bool = False

    @property
    def asks_in(self) -> ConversationKey:
        return self.root or self.key


class AskHuman(Protocol):
    async def __call__(self, questions: Sequence[Question], /) -> str:
        """Wait for a human's answer. Raises MootError when none comes in time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What came of a call. `taint` adds strangers to those the tool's spec names."""

    content: str
    is_error: bool = False
    taint: frozenset[str] = frozenset()
    # The call was of a tool that is another agent's; nothing was run.
    is_refused: bool = False
    # The sentence with which the run hands its task back. It ends there.
    escalation: str = ""
    # Not run because a person would have had to be asked, and nobody is there.
    unasked: bool = False
    # It has waited for others who still work: to wait again is no circle.
    waited: bool = False
    # The items, such as runs, whose results it shows: recorded as delivered with the message it becomes.
    delivers: tuple[str, ...] = ()


class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> "str | ToolResult":
        """Do it and say what came of it. A MootError becomes an error result the model can read.

        The arguments have been checked against the spec: required ones are there and of the right type.
        """
        ...


# ---- the gate ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCall:
    """One call on its way through the hook chain."""

    id: str
    tool: Tool
    arguments: dict[str, Any]
    context: RunContext
    # Why a person must look at it first, whatever else is allowed; empty where nothing speaks against it.
    doubt: str = ""
    # Whether its owner has seen this very call and said yes.
    approved: bool = False


Proceed = Callable[[GateCall], Awaitable[ToolResult]]


class Hook(Protocol):
    """Wraps the execution of one call. It may change the call, refuse it, or look at what came of it."""

    @property
    def name(self) -> str: ...
    @property
    def phase(self) -> str:
        """pre-execute or post-execute, for people."""
        ...

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult: ...

    def counts(self) -> dict[str, int]:
        """What it did since the daemon started, such as {"blocked": 2}."""
        ...


# ---- store ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A run that has begun: its stored user message, and whether the conversation was made for it."""

    entry: Entry
    created: bool


class AskStore(Protocol):
    """Where questions, approvals and grants are kept. A change is on disk when the method returns."""

    async def open(self, ask: Ask) -> Ask: ...

    async def answer(self, key: ConversationKey, content: str, *, by: str, now: float, reply_id: str = "") -> Ask:
        """Answer the oldest open question of the conversation. The same reply sent again changes nothing."""
        ...

    async def decide(
        self, ask_id: str, *, attempt: int, decision: Decision, by: str, now: float, whole: bool = False
    ) -> Ask: ...
    async def use(self, ask: Ask, *, now: float) -> None: ...
    async def close(self, ask_id: str, state: AskState, *, now: float) -> Ask | None: ...

    async def find(self, ask_id: str) -> Ask | None: ...
    async def find_reply(self, key: ConversationKey, reply_id: str) -> Ask | None: ...

    async def list_open(self) -> list[Ask]: ...
    async def list_unused_calls(self) -> list[tuple[str, str]]:
        """The run and the call of each approval and grant that was not used, of runs that have not ended."""
        ...


class RuleStore(Protocol):
    """Where rules are kept. They are written by AskStore.decide."""

    async def load(self) -> list[Rule]: ...
    async def delete(self, number: int) -> None: ...


class Store(Protocol):
    """Durable truth. A method that changes anything returns once the change is on disk (fsync)."""

    async def load(self, key: ConversationKey) -> Loaded | None: ...
    async def conversations(
        self,
        *,
        agent: str = "",
        sender: str = "",
        teammates: bool = False,
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Conversation]:
        """The last used first, from the place after `after` on. Empty names match all.

        Those that teammates have to themselves come only where they are wanted or named.
        """
        ...

    async def entries(self, key: ConversationKey, *, first: int = 1, last: int = 0) -> list[Entry]:
        """Entries first..last, archived ones too; last 0 is the newest."""
        ...

    async def set_title(self, key: ConversationKey, title: str) -> None: ...
    async def trust(self, key: ConversationKey, *, last: int) -> None:
        """Take what was said up to the entry `last` as trusted: its taint no longer counts."""
        ...

    async def doom(self, key: ConversationKey) -> Doomed: ...
    async def delete(self, key: ConversationKey) -> Doomed: ...

    async def find_run(self, key: ConversationKey, client_message_id: str) -> Run | None: ...
    async def find_retried(self, key: ConversationKey, prefix: str, *, since: float) -> Run | None: ...
    async def run_ids(self, start: str, *, limit: int) -> list[str]: ...
    async def ended_runs(self, owns: Callable[[str], bool], *, limit: int) -> list[Run]:
        """The runs that ended last, the newest first, of root conversations with owned senders. Long texts are cut."""
        ...

    async def queued_runs(self) -> list[Run]:
        """Messages that wait in their conversations."""
        ...

    async def runs_not_ended(self) -> list[Run]: ...
    async def owed_runs(self) -> list[Run]:
        """Ended runs whose results their parents want and were not told."""
        ...

    async def still_owed(self, run_ids: Sequence[str]) -> list[Run]:
        """Those of the runs whose results their parents want and were not told."""
        ...

    async def runs_of_root(self, root_id: str) -> list[Run]:
        """All that a turn, and what it spawned, has spawned."""
        ...

    async def root_conversations(self, run_ids: Sequence[str]) -> dict[str, ConversationKey]:
        """The conversations that spawned runs work for, by the runs' ids."""
        ...

    async def spawn(self, run: Run) -> Run:
        """Store a spawned or background run as queued, with its conversation.

        The same call of the same parent, or the same start of a client's, gives the run it made before.
        """
        ...

    async def spare(self, parent_id: str) -> None:
        """Let what a run spawned go on when it is stopped."""
        ...

    async def enqueue(self, request: RunRequest, *, now: float) -> None:
        """Store a message that must wait its turn, with the conversation if it is new."""
        ...

    async def unqueue(self, run_id: str, end: RunEnd, *, now: float) -> None:
        """End a run that never began."""
        ...

    def begin(self, request: RunRequest, *, now: float) -> Awaitable[Begun]:
        """Append the user message and mark the run running, queued before or not. Handed over like `append`."""
        ...

    async def rerun(self, request: RunRequest, *, of: str, now: float) -> Entry:
        """Run again on the message run `of` appended; it is appended again where somebody spoke after it."""
        ...

    def append(  # noqa: PLR0913 — what one transaction writes
        self,
        key: ConversationKey,
        run_id: str,
        messages: Sequence[Message],
        *,
        now: float,
        spent: Spent | None = None,
        delivers: Sequence[str] = (),
        can_wait: bool = False,
    ) -> Awaitable[list[Entry]]:
        """Append what a run has to say; in the same transaction, what it has used up so far and what it shows.

        `delivers` are the items, such as runs, whose results the last message shows: they are owed to nobody then.
        It is handed over when this is called, ahead of whatever is handed over later. What can wait shares a commit
        with the next that is handed over, if that comes within a few milliseconds.
        """
        ...

    def end(
        self,
        key: ConversationKey,
        run_id: str,
        end: RunEnd,
        messages: Sequence[Message],
        *,
        now: float,
        after: int | None = None,
    ) -> Awaitable[list[Entry]]:
        """Append the last messages and record the outcome, in one transaction. A second end changes nothing.

        Handed over like `append`. It is refused where the conversation does not end with number `after`.
        """
        ...

    async def recover(self) -> list[LeftRun]:
        """What no living daemon works on any more, in the order it came; called once at a start."""
        ...

    async def runs(self, key: ConversationKey, *, first_seq: int = 1) -> list[Run]: ...
    async def run(self, run_id: str) -> Run | None: ...

    async def archive(self, key: ConversationKey, archive: Archive) -> Archive:
        """Turn entries up to archive.last_seq into an archive, marker and index in one transaction."""
        ...

    async def archives(self, key: ConversationKey) -> list[Archive]: ...
    async def recall(self, key: ConversationKey, query: str, *, limit: int, now: float) -> list[Recollection]: ...

    async def restore_conversation(
        self,
        conversation: Conversation,
        messages: Sequence[tuple[Message, float]],
        archives: Sequence[Archive],
    ) -> None:
        """Write an imported conversation whole; Conflict when the key exists."""
        ...

    async def spend(self, *, agent: str = "", sender: str = "") -> list[Spend]: ...
    async def teammate_spend(self, *, agent: str = "", sender: str = "") -> list[Spend]:
        """What spawned runs took, by the conversation they worked for, those that are not kept any more included."""
        ...

    async def budget(self, root_id: str) -> tuple[Limits, Spent]:
        """What the run at the top of a tree was allowed, and what all runs of the tree have used up so far."""
        ...

    async def add_token(self, token: Token, digest: str) -> None: ...
    async def find_token(self, digest: str) -> Token | None: ...
    async def touch_token(self, name: str, *, now: float) -> None: ...
    async def tokens(self) -> list[Token]: ...
    async def revoke_token(self, name: str, *, now: float) -> None: ...

    async def backup(self, path: str) -> None:
        """Write a consistent copy while everything goes on."""
        ...

    async def check(self) -> list[str]:
        """What is wrong with the store, one sentence each; an empty list is a clean bill."""
        ...

    async def close(self) -> None: ...
