"""What a model is given. The transcript is the stable part; adapters keep its encoding beside it."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from moot.domain.message import Message, Role
from moot.domain.text import defuse_behind

# A model that chooses by a schema is offered no more: with more to choose from it chooses badly.
MOST_BY_SCHEMA = 12

# So much of what stands before a message can matter to how it begins.
_LONGEST_JOIN = 1_024
# As long as the end of any encoded message that another one of its role would be written into.
_SEAM = 32


class Safety(StrEnum):
    """How much harm a tool can do. What does not say is dangerous."""

    SAFE = "safe"
    MODERATE = "moderate"
    DANGEROUS = "dangerous"


class Sink(StrEnum):
    """Where something read from a stranger must not flow by itself."""

    SHELL = "shell"
    EGRESS = "egress"
    SECRETS = "secrets"


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool: what a model is told of it, and what the gate knows of it.

    `parameters` is a JSON schema of type object. `sinks` are what it could carry a stranger's words into. `taint` names
    the stranger whose words its results are ("web", "mcp"), and is empty where they are our own.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    safety: Safety = Safety.DANGEROUS
    sinks: frozenset[Sink] = frozenset()
    taint: str = ""
    group: str = ""
    # Whether making a call a second time, when it is not known what came of the first, does no harm.
    repeatable: bool = False
    # Whether somebody put it here on purpose: a plugin, a skill, an MCP server. Where not all fit it comes first.
    added: bool = False
    # Parameters for fine control. A model that is held to a schema fills in all it is shown, and is not shown them.
    fine: frozenset[str] = frozenset()
    # Whether it may understand arguments that its schema does not name: the schema is a stranger's.
    takes_more: bool = False


class Encoding:
    """The bytes of a transcript's first `count` messages in one provider's format."""

    __slots__ = ("_seam", "buffer", "count", "split_at")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.count = 0
        # Where the newest message of the person ends, and the bytes before it.
        self.split_at = 0
        self._seam = b""

    def split(self) -> None:
        """What belongs to one request alone can be put in here."""
        self.split_at = len(self.buffer)
        self._seam = bytes(self.buffer[-_SEAM:])

    def split_place(self) -> int:
        """Where to put it; the end where the next message was written into the last one."""
        kept = self.buffer[max(0, self.split_at - _SEAM) : self.split_at]
        return self.split_at if self.split_at and kept == self._seam else len(self.buffer)


class Transcript:
    """The messages a speaker sees, already tagged and made safe. It only ever grows.

    A turn then costs what is new in it: each adapter encodes a message once and keeps the bytes.
    """

    __slots__ = ("__weakref__", "_encodings", "messages", "newest_message")

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self.messages: list[Message] = []
        # How many messages there are up to the newest of the person, that one included; 0 where that is not known.
        self.newest_message = 0
        self._encodings: dict[str, Encoding] = {}
        self.extend(messages)

    def extend(self, messages: Sequence[Message]) -> None:
        for message in messages:
            last = self.messages[-1] if self.messages else None
            is_behind = last is not None and last.role is message.role is not Role.TOOL
            self.messages.append(self._behind_own_role(message) if is_behind else message)

    def _behind_own_role(self, message: Message) -> Message:
        """Providers read neighbours of one role as one text: no mark may begin in one and end in the next."""
        before = ""
        for earlier in reversed(self.messages):
            if earlier.role is not message.role or len(before) > _LONGEST_JOIN:
                break
            before = f"{earlier.content}\n\n{before}"
        content = defuse_behind(before.rstrip(), message.content)
        return message if content == message.content else replace(message, content=content)

    def encoding(self, form: str, advance: Callable[[Encoding, list[Message]], None]) -> Encoding:
        """The encoding in `form`, brought up to date by `advance`, which adds messages[count:]."""
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
    """One model request: instructions, then the transcript, then what belongs to this request alone.

    `context` is what may differ from turn to turn, such as the working directory. It stands behind the newest message
    of the person, so that everything before that is the same in every request and a provider can cache it.
    """

    system: tuple[str, ...]
    transcript: Transcript
    context: tuple[Message, ...] = ()
    tail: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = field(default=())
    max_tokens: int | None = None
