"""The events of one run, for those who follow it now and those who join late."""

from collections.abc import Callable

from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.events import (
    Event,
    RunEnded,
    TextChunk,
    TextDiscarded,
    TextEnded,
    TextStarted,
    ThinkingChunk,
    ThinkingEnded,
    ThinkingStarted,
)

Follower = Callable[[Event | MootError], None]

_TEXT = (TextStarted, TextChunk, TextEnded)
_THINKING = (ThinkingStarted, ThinkingChunk, ThinkingEnded)


class Feed:
    """Hands each event to every follower at once, and keeps what a late one needs to catch up."""

    __slots__ = ("_followers", "_log", "closed", "key", "speaker")

    def __init__(self, key: ConversationKey, *, speaker: str) -> None:
        self.key = key
        self.speaker = speaker
        self._followers: list[Follower] = []
        self._log: list[Event | MootError] = []
        self.closed = False

    def emit(self, event: Event) -> None:
        self._remember(event)
        if isinstance(event, RunEnded):
            self.closed = True
        for follower in tuple(self._followers):
            follower(event)

    def fail(self, error: MootError) -> None:
        """Close the feed of a run that could not start."""
        self.closed = True
        self._log.append(error)
        for follower in tuple(self._followers):
            follower(error)

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Tell the follower everything so far, and then everything. Returns how to stop."""
        for item in self._log:
            follower(item)
        self._followers.append(follower)

        def leave() -> None:
            if follower in self._followers:
                self._followers.remove(follower)

        return leave

    def _remember(self, event: Event) -> None:
        log = self._log
        if isinstance(event, TextDiscarded):
            self._forget_text()
        elif log and isinstance(event, TextChunk) and isinstance(log[-1], TextChunk):
            log[-1] = TextChunk(log[-1].content + event.content)
        elif log and isinstance(event, ThinkingChunk) and isinstance(log[-1], ThinkingChunk):
            log[-1] = ThinkingChunk(log[-1].content + event.content)
        else:
            log.append(event)

    def _forget_text(self) -> None:
        """Drop what was taken back: a late follower need not see the text of the step in flight."""
        start = len(self._log)
        while start and isinstance(self._log[start - 1], _TEXT + _THINKING):
            start -= 1
        self._log[start:] = [item for item in self._log[start:] if not isinstance(item, _TEXT)]
