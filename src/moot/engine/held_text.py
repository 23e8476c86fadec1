"""HeldText: holds back the text events of a step until turn_state knows that the text is final."""

from collections.abc import Callable

from moot.domain.events import EventBody, TextChunk, TextDiscarded, TextEnded, TextStarted


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
