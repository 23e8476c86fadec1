"""The events of one run, for those who follow it now and those who join late."""

import asyncio
from collections.abc import Callable, Iterator

from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.events import (
    AskClosed,
    AskOpened,
    EventBody,
    RunEnded,
    TextChunk,
    TextDiscarded,
    TextEnded,
    TextStarted,
    ThinkingChunk,
    ThinkingEnded,
    ThinkingStarted,
)
from moot.domain.run import RunEnd

Follower = Callable[[EventBody | MootError], None]

_LONGEST_CHUNK = 1024 * 1024


def _ignored(_event: EventBody) -> None:
    return


class _Chunks:
    """Neighbouring chunks of one kind, joined only when a late follower asks: a long reply has many thousands."""

    __slots__ = ("kind", "pieces")

    def __init__(self, first: TextChunk | ThinkingChunk) -> None:
        self.kind = type(first)
        self.pieces = [first.content]

    def joined(self) -> Iterator[EventBody]:
        """The chunks as few as fit: what a late follower is told must fit into a frame."""
        text = "".join(self.pieces)
        self.pieces = [text]
        for start in range(0, len(text), _LONGEST_CHUNK):
            yield self.kind(text[start : start + _LONGEST_CHUNK])


class Feed:
    """Hands each event to every follower at once, and keeps what a late one needs to catch up."""

    __slots__ = ("_followers", "_log", "asks_in", "closed", "key", "run_id", "speaker")

    def __init__(
        self, key: ConversationKey, *, speaker: str, run_id: str = "", asks_in: ConversationKey | None = None
    ) -> None:
        self.key = key
        self.speaker = speaker
        self.run_id = run_id
        # The conversation in which what the run asks comes up.
        self.asks_in = asks_in or key
        self._followers: list[Follower] = []
        self._log: list[EventBody | MootError | _Chunks] = []
        self.closed = False

    def emit(self, event: EventBody) -> None:
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
            for event in item.joined() if isinstance(item, _Chunks) else (item,):
                follower(event)
        self._followers.append(follower)

        def leave() -> None:
            if follower in self._followers:
                self._followers.remove(follower)

        return leave

    async def followed(self, note: Callable[[EventBody], None] = _ignored) -> RunEnd:
        """Wait for the run's end, told of all that comes before it; raises where the run could not begin."""
        ended: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()

        def follower(item: EventBody | MootError) -> None:
            if ended.done():
                return
            if isinstance(item, MootError):
                ended.set_exception(item)
            elif isinstance(item, RunEnded):
                ended.set_result(item.end)
            else:
                note(item)

        leave = self.follow(follower)
        try:
            return await ended
        finally:
            leave()

    def _remember(self, event: EventBody) -> None:
        if isinstance(event, TextChunk | ThinkingChunk):
            last = self._log[-1] if self._log else None
            if isinstance(last, _Chunks) and last.kind is type(event):
                last.pieces.append(event.content)
            else:
                self._log.append(_Chunks(event))
        elif isinstance(event, TextDiscarded):
            self._forget_text()
        elif isinstance(event, AskClosed):
            # Whoever joins late is not asked what is settled.
            self._log = [item for item in self._log if not _opens(item, event.ask.id)]
        else:
            self._log.append(event)

    def _forget_text(self) -> None:
        """Drop what was taken back: a late follower need not see the text of the step in flight."""
        start = len(self._log)
        while start and _is_speech(self._log[start - 1]):
            start -= 1
        self._log[start:] = [item for item in self._log[start:] if not _is_text(item)]


def _is_text(item: EventBody | MootError | _Chunks) -> bool:
    return item.kind is TextChunk if isinstance(item, _Chunks) else isinstance(item, TextStarted | TextEnded)


def _opens(item: EventBody | MootError | _Chunks, ask_id: str) -> bool:
    return isinstance(item, AskOpened) and item.ask.id == ask_id


def _is_speech(item: EventBody | MootError | _Chunks) -> bool:
    return isinstance(item, _Chunks | TextStarted | TextEnded | ThinkingStarted | ThinkingEnded)
