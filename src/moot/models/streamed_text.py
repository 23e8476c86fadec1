"""Joins streamed text and thinking so that one network read yields one event. Pure."""

from moot.domain.message import Thinking
from moot.domain.ports.model import ModelEvent, TextDelta, ThinkingDelta, ThinkingDone
from moot.models.scrub import TextScrubber


class StreamedText:
    """Collects the text and thinking of a model. Add chunks as they arrive; drain after each read."""

    __slots__ = ("_is_thought", "_out", "_pieces", "_scrub", "_thoughts")

    def __init__(self) -> None:
        self._out: list[ModelEvent] = []
        self._pieces: list[str] = []
        self._is_thought = False
        self._thoughts: list[str] = []
        self._scrub = TextScrubber()

    def add_text(self, text: str) -> None:
        if self._is_thought:
            self.end_thought()
        # Fast path: almost every chunk is plain, and a reply has thousands.
        if text.isascii() and "\0" not in text and not self._scrub.held or (text := self._scrub(text)):
            self._pieces.append(text)

    def add_thinking(self, text: str) -> None:
        if not self._is_thought:
            self._flush()
            self._is_thought = True
        if text := self._scrub(text):
            self._pieces.append(text)

    def end_thought(self, signature: str = "") -> None:
        """End a part of the reasoning; does nothing if there was none."""
        self._flush()
        self._is_thought = False
        if self._thoughts or signature:
            self._out.append(ThinkingDone(Thinking(text="".join(self._thoughts), signature=signature)))
            self._thoughts.clear()

    def add(self, event: ModelEvent) -> None:
        """Add an event of another kind at its position."""
        self._flush()
        self._out.append(event)

    def drain(self) -> list[ModelEvent]:
        """Return the collected events."""
        self._flush()
        out, self._out = self._out, []
        return out

    def end(self) -> None:
        if rest := self._scrub.rest():
            self._pieces.append(rest)
        self.end_thought()

    def _flush(self) -> None:
        pieces = self._pieces
        if not pieces:
            return
        text = pieces[0] if len(pieces) == 1 else "".join(pieces)
        pieces.clear()
        if self._is_thought:
            self._thoughts.append(text)
            self._out.append(ThinkingDelta(text))
        else:
            self._out.append(TextDelta(text))
