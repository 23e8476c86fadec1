"""Model requests: tool specs, transcripts with their cached encodings, and the prompt."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from moot.domain.message import Message, Role
from moot.domain.text import defuse_behind

# The maximum number of tools for a model that chooses by a schema; with more it chooses badly.
MOST_BY_SCHEMA = 12

# How many characters before a message can affect how its beginning is read.
_LONGEST_JOIN = 1_024
# At least as long as the end of any encoded message that a following one of the same role is merged into.
_TAIL_BYTES = 32


class Safety(StrEnum):
    """How much harm a tool can do. The default is dangerous."""

    SAFE = "safe"
    MODERATE = "moderate"
    DANGEROUS = "dangerous"


class Sink(StrEnum):
    """Where untrusted text must not flow without approval."""

    SHELL = "shell"
    EGRESS = "egress"
    SECRETS = "secrets"


# The group of tools that direct other agents. A run that has them keeps them when no further run is offered them.
CONTROL = "control"
# Groups of tools that a run can call although they are not offered any more. Those of MCP servers refuse it themselves.
CALLABLE_WHEN_GONE = frozenset({CONTROL, "mcp"})


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool: what a model is told about it, and what the gate knows about it.

    `parameters` is a JSON schema of type object. `sinks` are where it could send untrusted text. `taint` names the
    source of untrusted text in its results ("web", "mcp"), and is empty if they are trusted.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    safety: Safety = Safety.DANGEROUS
    sinks: frozenset[Sink] = frozenset()
    taint: str = ""
    group: str = ""
    # Whether repeating a call is harmless if it is unknown whether the first one was executed.
    repeatable: bool = False
    # Whether it was added by a user: a plugin, a skill, an MCP server. Such tools have priority if not all fit.
    added: bool = False
    # Whether it is offered only to agents whose prefixes name it. Others find it with tool_search.
    deferred: bool = False
    # Optional parameters for fine control. A model that answers by schema fills in everything, so it is not shown them.
    fine: frozenset[str] = frozenset()
    # Whether it changes nothing by itself although it is not safe: it may be used in mode plan.
    reads_only: bool = False
    # Whether it may accept arguments that its schema does not name, because a third party wrote the schema.
    takes_more: bool = False
    # Whether several calls in one step are made one after the other, because their order matters.
    in_order: bool = False
    # Whether the tool itself checks its arguments, and answers in its own words.
    checks_arguments: bool = False


class Encoding:
    """The bytes of a transcript's first `count` messages in one provider's format."""

    __slots__ = ("_tail", "buffer", "count", "split_at")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.count = 0
        # Where the newest user message ends, and the bytes before that position.
        self.split_at = 0
        self._tail = b""

    def split(self) -> None:
        """Mark the current end as the place where messages of a single request can be inserted."""
        self.split_at = len(self.buffer)
        self._tail = bytes(self.buffer[-_TAIL_BYTES:])

    def split_place(self) -> int:
        """Return the place for inserting them; the end if the next message was merged into the previous one."""
        kept = self.buffer[max(0, self.split_at - _TAIL_BYTES) : self.split_at]
        return self.split_at if self.split_at and kept == self._tail else len(self.buffer)


# Python 3.11 takes thirty times as long to look up a member of an enumeration as a variable.
_ASSISTANT, _TOOL = Role.ASSISTANT, Role.TOOL


def _is_joined(first: Message, second: Message) -> bool:
    """Whether providers join two neighbours into one message."""
    one, other = first.role, second.role
    if one is _TOOL or other is _TOOL:
        return False
    return one is other or (one is not _ASSISTANT and other is not _ASSISTANT)


class Transcript:
    """The messages a speaker sees, already tagged and defused. It is only appended to.

    So a turn costs only what is new: each adapter encodes a message once and keeps the bytes.
    """

    __slots__ = ("__weakref__", "_encodings", "messages", "newest_message")

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self.messages: list[Message] = []
        # The number of messages up to and including the newest user message; 0 if unknown.
        self.newest_message = 0
        self._encodings: dict[str, Encoding] = {}
        self.extend(messages)

    def extend(self, messages: Sequence[Message]) -> None:
        for message in messages:
            last = self.messages[-1] if self.messages else None
            is_behind = last is not None and _is_joined(last, message)
            self.messages.append(self._behind_own_role(message) if is_behind else message)

    def _behind_own_role(self, message: Message) -> Message:
        """Defuse marks that would begin in one message and end in the next: providers join neighbours of one role."""
        before = ""
        for earlier in reversed(self.messages):
            if not _is_joined(earlier, message) or len(before) > _LONGEST_JOIN:
                break
            before = f"{earlier.content}\n\n{before}"
        content = defuse_behind(before.rstrip(), message.content)
        return message if content == message.content else replace(message, content=content)

    def encoding(self, form: str, advance: Callable[[Encoding, list[Message]], None]) -> Encoding:
        """Return the encoding in `form`, updated by `advance`, which adds messages[count:]."""
        encoding = self._encodings.get(form)
        if encoding is None:
            encoding = self._encodings[form] = Encoding()
        if encoding.count < self.newest_message:
            advance(encoding, self.messages[: self.newest_message])
            encoding.split()
        if encoding.count < len(self.messages):
            advance(encoding, self.messages)
        return encoding


class Prompt(Struct, frozen=True, kw_only=True):
    """One model request: instructions, then the transcript, then messages of this request only.

    `context` is what may differ between turns, such as the working directory. It is placed after the newest user
    message, so that everything before it is the same in every request and a provider can cache it.
    """

    system: tuple[str, ...]
    transcript: Transcript
    context: tuple[Message, ...] = ()
    tail: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = field(default=())
    max_tokens: int | None = None
