"""The stream of one run: publishes its events on the bus and keeps what a late subscriber needs.

Lanes and turns publish; the handlers of Stream and Attach, and callers that wait for a run, subscribe.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from moot.domain.errors import MootError
from moot.domain.events import (
    ASK_EVENTS,
    AskClosed,
    AskOpened,
    Event,
    EventBody,
    EventSource,
    MessageSteered,
    PrivateText,
    RunBlocked,
    RunEnded,
    RunStarted,
    RunUnblocked,
    RunWithdrawn,
    TextChunk,
    TextDiscarded,
    TextEnded,
    TextStarted,
    ThinkingChunk,
    ThinkingEnded,
    ThinkingStarted,
    UserMessageSent,
    make_event_source,
)
from moot.domain.run import Outcome, Run, RunEnd, RunKind
from moot.domain.run_view import Condition
from moot.engine.bus import Bus

logger = logging.getLogger(__name__)

StreamReader = Callable[[Event | MootError], None]

_LONGEST_CHUNK = 1024 * 1024
# Events for bus subscribers only; a stream has other events with the same meaning.
_NOT_STREAMED = frozenset((RunBlocked, RunUnblocked))
# Events are told apart by their exact type: isinstance takes ten times as long if the answer is no.
_PLAIN = frozenset((RunStarted, TextStarted, TextEnded, ThinkingStarted, ThinkingEnded))
_ASKS = frozenset(ASK_EVENTS)
_REVISING = frozenset((TextDiscarded, AskClosed))


def _ignore(_event: Event) -> None:
    return


class _Chunks:
    """Consecutive chunks of one type, joined only for a late subscriber, because a long reply has many thousands."""

    __slots__ = ("kind", "last", "pieces")

    def __init__(self, first: Event, body: TextChunk | ThinkingChunk | PrivateText) -> None:
        self.kind = type(body)
        self.last = first
        self.pieces = [body.content]

    def add(self, event: Event, body: TextChunk | ThinkingChunk | PrivateText) -> None:
        self.last = event
        self.pieces.append(body.content)

    def join(self) -> Iterator[Event]:
        """Yield the joined chunks as few events, each small enough for a frame."""
        text = "".join(self.pieces)
        self.pieces = [text]
        for start in range(0, len(text), _LONGEST_CHUNK):
            yield Event(self.last.seq, self.last.at, self.last.source, self.kind(text[start : start + _LONGEST_CHUNK]))


class RunStream:
    """The events of one run. Without a bus, they go only to the stream's own subscribers.

    A stream has no bus for work that is not a run, and for repeating a run that has ended.
    """

    __slots__ = ("_bus", "_log", "_readers", "closed", "source")

    def __init__(self, source: EventSource, bus: Bus | None = None) -> None:
        self.source = source
        self._bus = bus
        self._readers: list[StreamReader] = []
        self._log: list[Event | MootError | _Chunks] = []
        self.closed = False

    def publish(self, body: EventBody) -> None:
        if self._bus is None:
            self.receive(Event(0, 0.0, self.source, body))
        else:
            self._bus.publish(self.source, body, self)
            if type(body) in _ASKS and isinstance(body, ASK_EVENTS):
                self._bus.publish(self.source, _describe_block(body))

    def receive(self, event: Event) -> None:
        """Deliver an event of this run, or an ask of another run of the same root conversation."""
        body = event.body
        kind = type(body)
        if kind in _PLAIN:
            self._log.append(event)
        elif kind in _NOT_STREAMED:
            return
        elif type(body) is TextChunk or type(body) is ThinkingChunk or type(body) is PrivateText:
            last = self._log[-1] if self._log else None
            if type(last) is _Chunks and last.kind is kind:
                last.add(event, body)
            else:
                self._log.append(_Chunks(event, body))
        elif kind in _REVISING and isinstance(body, TextDiscarded | AskClosed):
            self._revise_log(body)
        else:
            self._log.append(event)
            self.closed = self.closed or kind is RunEnded
        self._hand_over(event)

    def fail(self, error: MootError) -> None:
        """Close the stream of a run that could not start; subscribers get the error."""
        self.closed = True
        self._log.append(error)
        self._hand_over(error)

    def subscribe(self, reader: StreamReader) -> Callable[[], None]:
        """Deliver all events so far and all future ones to the reader. Return a function to unsubscribe."""
        for item in self._log:
            for event in item.join() if isinstance(item, _Chunks) else (item,):
                reader(event)
        self._readers.append(reader)

        def leave() -> None:
            if reader in self._readers:
                self._readers.remove(reader)

        return leave

    async def wait_end(self, reader: Callable[[Event], None] = _ignore) -> RunEnd:
        """Wait for the run's end and return it; `reader` gets all earlier events. Raise if the run could not start."""
        ended: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()

        def read(item: Event | MootError) -> None:
            if ended.done():
                return
            if isinstance(item, MootError):
                ended.set_exception(item)
            elif isinstance(item.body, RunEnded):
                ended.set_result(item.body.end)
            else:
                reader(item)

        leave = self.subscribe(read)
        try:
            return await ended
        finally:
            leave()

    def _hand_over(self, item: Event | MootError) -> None:
        for reader in tuple(self._readers):
            try:
                reader(item)
            except Exception:
                # A failing subscriber must not stop the run.
                logger.exception("a reader of run %s failed", self.source.run_id)

    def _revise_log(self, body: TextDiscarded | AskClosed) -> None:
        """Drop what a late subscriber is not shown: a closed ask, or the discarded text of the current step."""
        if isinstance(body, AskClosed):
            self._log = [item for item in self._log if not _is_opening(item, body.ask.id)]
            return
        start = len(self._log)
        while start and _is_speech(self._log[start - 1]):
            start -= 1
        self._log[start:] = [item for item in self._log[start:] if not _is_text(item)]


def _describe_block(body: AskOpened | AskClosed) -> RunBlocked | RunUnblocked:
    """Return the block event that corresponds to opening or closing an ask."""
    ask = body.ask
    condition = Condition.ASKING if ask.is_question else Condition.BLOCKED
    if isinstance(body, AskOpened):
        return RunBlocked(condition, ask.waits_for, ask.id)
    return RunUnblocked(condition, ask.id)


def _is_text(item: Event | MootError | _Chunks) -> bool:
    if isinstance(item, _Chunks):
        return item.kind is TextChunk
    return isinstance(item, Event) and isinstance(item.body, TextStarted | TextEnded)


def _is_opening(item: Event | MootError | _Chunks, ask_id: str) -> bool:
    return isinstance(item, Event) and isinstance(item.body, AskOpened) and item.body.ask.id == ask_id


def _is_speech(item: Event | MootError | _Chunks) -> bool:
    if isinstance(item, _Chunks):
        return True
    return isinstance(item, Event) and isinstance(item.body, TextStarted | TextEnded | ThinkingStarted | ThinkingEnded)


def repeat_run(run: Run) -> RunStream:
    """Return a stream that repeats the events of an ended run, without running it again.

    The messages of an assistant must have been read before (run_results.py).
    """
    assert run.end is not None
    stream = RunStream(make_event_source(run.request))
    speaker = run.request.speaker
    if run.delivered_by and not run.parent_id:
        shown = MessageSteered(run.request.content, run.delivered_seq, run.id, run.delivered_by)
        stream.publish(shown)
        stream.publish(RunEnded(speaker, run.end))
        return stream
    if run.kind is RunKind.TURN and not run.started_at:
        # It was withdrawn, or failed before its message was in the history.
        if run.end.outcome is Outcome.CANCELLED:
            stream.publish(RunWithdrawn(run.request.content))
        stream.publish(RunEnded(speaker, run.end))
        return stream
    stream.publish(RunStarted(speaker, run.user_seq))
    for sent in run.end.messages:
        stream.publish(UserMessageSent(sent))
    if run.end.content:
        stream.publish(TextStarted(speaker))
        stream.publish(TextChunk(run.end.content))
        stream.publish(TextEnded(speaker))
    stream.publish(RunEnded(speaker, run.end))
    return stream
