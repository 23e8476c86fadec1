"""One model call, from prompt to complete reply: text is cleaned as it streams, segments are opened and closed."""

from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from moot.domain.events import (
    EventBody,
    ModelPreparing,
    ModelRetrying,
    TextChunk,
    TextDiscarded,
    TextEnded,
    TextStarted,
    ThinkingChunk,
    ThinkingEnded,
    ThinkingStarted,
    ToolFinished,
    ToolsCompleted,
    ToolsStarted,
)
from moot.domain.message import Thinking, ToolCall
from moot.domain.ports.model import (
    CallReady,
    Finished,
    Model,
    ModelEvent,
    Preparing,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ThinkingDone,
)
from moot.domain.prompt import Prompt
from moot.domain.text import TagStripper, clean
from moot.domain.usage import Usage
from moot.engine.reply_length import ReplyLength
from moot.failpoint import reach


class ModelReply(Struct):
    """The reply of a model in one step. `flaws` has a sentence for each call whose arguments are unusable."""

    text: str = ""
    thinking: list[Thinking] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    flaws: dict[str, str] = field(default_factory=dict)
    usage: Usage | None = None
    truncated: bool = False


class Step:
    """Reads one model call and publishes its events. At most one segment is open at a time."""

    def __init__(
        self, *, speaker: str, emit: Callable[[EventBody], None], rng: Random, taken: Collection[str] = ()
    ) -> None:
        self._speaker = speaker
        self._taken = taken
        self._emit = emit
        self._rng = rng
        self._stripper = TagStripper()
        self._pieces: list[str] = []
        # The ids of the calls so far.
        self._made: set[str] = set()
        self._segment = ""
        self._length = ReplyLength()
        self.reply = ModelReply()

    async def read(self, model: Model, prompt: Prompt) -> ModelReply:
        reach("model.call")
        events = model.stream(prompt)
        try:
            async for event in events:
                self._take(event)
                reach("model.chunk")
        finally:
            await events.aclose()
        reach("model.replied")
        self._add_text(self._stripper.finish())
        self._close_segment()
        text = "".join(self._pieces)
        self.reply.text = text.strip() if self._stripper.stripped else text
        return self.reply

    def discard(self) -> None:
        """Discard the text of a step that will not be kept."""
        self._close_segment()
        if self._pieces:
            self._emit(TextDiscarded())

    def _take(self, event: ModelEvent) -> None:
        match event:
            case TextDelta(text):
                self._add_text(self._stripper.feed(clean(text)))
            case Finished(usage, truncated):
                self.reply.usage, self.reply.truncated = usage, truncated
            case ThinkingDelta(text):
                self._length.add(text)
                self._open_segment("thinking")
                self._emit(ThinkingChunk(clean(text)))
            case ThinkingDone(thinking):
                self._length.add(thinking.signature)
                self.reply.thinking.append(thinking)
            case CallReady(call, flaw):
                self._add_call(call, flaw)
            case Retrying(attempt, delay, reason):
                self._emit(ModelRetrying(attempt, delay, reason))
            case Preparing(stage, share, previous):
                self._emit(ModelPreparing(stage, round(100 * share), previous))
            case _:
                assert_never(event)

    def _add_text(self, text: str) -> None:
        if text:
            self._length.add(text)
            self._open_segment("text")
            self._pieces.append(text)
            self._emit(TextChunk(text))

    def _add_call(self, call: ToolCall, flaw: str) -> None:
        self._length.add(call.arguments)
        # Results are matched to calls by id, so an id that is empty or was used before is replaced. Some servers count
        # from zero in every answer, and some providers refuse a history that has an id twice.
        if not call.id or call.id in self._taken or call.id in self._made:
            call = replace(call, id=f"call_{self._rng.getrandbits(64):016x}")
        self._made.add(call.id)
        self.reply.calls.append(call)
        if flaw:
            self.reply.flaws[call.id] = flaw

    def _open_segment(self, kind: str) -> None:
        if self._segment != kind:
            self._close_segment()
            self._segment = kind
            self._emit(TextStarted(self._speaker) if kind == "text" else ThinkingStarted(self._speaker))

    def _close_segment(self) -> None:
        match self._segment:
            case "text":
                self._emit(TextEnded(self._speaker))
            case "thinking":
                self._emit(ThinkingEnded(self._speaker))
        self._segment = ""


def emit_refusal(emit: Callable[[EventBody], None], calls: Sequence[ToolCall]) -> None:
    """Publish that the calls of a speaker without tools were not made."""
    emit(ToolsStarted(tuple(calls)))
    for call in calls:
        emit(ToolFinished(call.id, call.name, "There are no tools here; nothing was run.", 0, True))
    emit(ToolsCompleted())
