"""Every fact that a run publishes: one closed union. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from moot.domain.ask import Ask, Asker
from moot.domain.message import ToolCall
from moot.domain.run import RunEnd


@dataclass(frozen=True, slots=True)
class RunQueued:
    """The message is stored and waits; `position` 1 is next.

    Where the run in front waits for a person, `ask_id` is what for, and `ask_kind` question, approval or grant.
    """

    position: int
    ask_id: str = ""
    ask_kind: str = ""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The user message is on disk. `agent` is who will answer."""

    agent: str
    user_seq: int


@dataclass(frozen=True, slots=True)
class TextStarted:
    agent: str


@dataclass(frozen=True, slots=True)
class TextChunk:
    content: str


@dataclass(frozen=True, slots=True)
class TextEnded:
    agent: str


@dataclass(frozen=True, slots=True)
class ThinkingStarted:
    agent: str


@dataclass(frozen=True, slots=True)
class ThinkingChunk:
    content: str


@dataclass(frozen=True, slots=True)
class ThinkingEnded:
    agent: str


@dataclass(frozen=True, slots=True)
class ToolsStarted:
    calls: tuple[ToolCall, ...]
    # Each call in one line for a person, empty where its tool cannot say it; none at all where nobody was asked.
    lines: tuple[str, ...] = ()

    def told(self) -> Iterator[tuple[ToolCall, str]]:
        return zip(self.calls, self.lines or repeat(""), strict=False)


@dataclass(frozen=True, slots=True)
class ToolFinished:
    call_id: str
    name: str
    output: str
    duration_ms: int
    is_error: bool


@dataclass(frozen=True, slots=True)
class ToolExecuted:
    """A call has passed the gate: for those who watch, beside what it came to."""

    call_id: str
    name: str
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class ToolsCompleted:
    pass


@dataclass(frozen=True, slots=True)
class AskOpened:
    """A question, an approval or a grant is stored and waits for a person."""

    ask: Ask
    # Set where it is told to somebody who follows another run.
    by: Asker | None = None


@dataclass(frozen=True, slots=True)
class AskClosed:
    """An ask is over; its state tells how: answered, granted, denied, expired or cancelled."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class ModelRetrying:
    """A model call failed before it said anything and will be tried again."""

    attempt: int
    delay_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class TextDiscarded:
    """The text of the step in flight will not be kept; a reader should take it back."""


@dataclass(frozen=True, slots=True)
class Compacted:
    number: int
    title: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The last event of every run. `agent` is who answered."""

    agent: str
    end: RunEnd


EventBody = (
    RunQueued
    | RunStarted
    | TextStarted
    | TextChunk
    | TextEnded
    | ThinkingStarted
    | ThinkingChunk
    | ThinkingEnded
    | ToolsStarted
    | ToolFinished
    | ToolExecuted
    | ToolsCompleted
    | AskOpened
    | AskClosed
    | ModelRetrying
    | TextDiscarded
    | Compacted
    | RunEnded
)
