"""Events of text that is not shown at once: held back until it is final, or not for the person. For turn_state."""

from collections.abc import Callable

from moot.domain.events import EventBody, PrivateText, TextChunk, TextDiscarded, TextEnded, TextStarted, ThinkingChunk


class HeldText:
    """Filters the events of one step: holds text events back and passes all others at once."""

    def __init__(self, emit: Callable[[EventBody], None], reset_idle: Callable[[], None]) -> None:
        self._emit = emit
        self._reset_idle = reset_idle
        self._held: list[EventBody] = []

    def __call__(self, event: EventBody) -> None:
        match event:
            case TextStarted() | TextChunk() | TextEnded():
                self._held.append(event)
                # Text counts as activity even while it is held back.
                self._reset_idle()
            case TextDiscarded():
                self._held.clear()
            case _:
                self._emit(event)

    def release(self) -> None:
        held, self._held = self._held, []
        for event in held:
            self._emit(event)


def emit_private(emit: Callable[[EventBody], None], reset_idle: Callable[[], None], event: EventBody) -> None:
    """Publish an event of a step whose text is not for the person. Reasoning is only stored."""
    match event:
        case ThinkingChunk():
            # It counts as activity even so.
            reset_idle()
        case TextChunk(content):
            emit(PrivateText(content))
        case TextStarted() | TextEnded() | TextDiscarded():
            pass
        case _:
            emit(event)
