"""A Reply that queues its messages until they are taken. Used by the HTTP handlers."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from moot.daemon.requests.exchange import ReaderTooSlow
from moot.domain.errors import MootError
from moot.domain.events import Event, EventBody, Gap, PrivateText, TextChunk, ThinkingChunk, ToolFinished, ToolsStarted
from moot.wire import moot_pb2 as pb

_E = TypeVar("_E", bound=MootError)

Item = Event | pb.ServerMessage


class NotRetryable(MootError):
    """A failure after the message was stored; a retry would store it twice."""


def to_error(error: pb.ErrorMsg) -> MootError:
    """Return the exception for an error message."""
    return _copy_with_code(MootError(error.message, fix=error.fix), error.code, error.type)


def not_retryable(error: MootError) -> NotRetryable:
    return _copy_with_code(NotRetryable(error.message, fix=error.fix), error.code, error.type)


def _copy_with_code(error: _E, code: int, type_: str) -> _E:
    error.code, error.type = code, type_
    return error


class QueuedReply:
    """Holds events and messages in order, up to `max_unsent` characters of text."""

    def __init__(self, max_unsent: int) -> None:
        self.closed = asyncio.Event()
        self._queue: asyncio.Queue[Item | MootError] = asyncio.Queue()
        self._max_unsent = max_unsent
        self._unsent = 0
        # Whether anything but an error was received, which means that the message is stored.
        self.begun = False
        self._callbacks: list[Callable[[], None]] = []

    async def take(self) -> Item:
        """Return the next item. Raise if the stream was ended because the items were not taken."""
        item = await self._queue.get()
        if isinstance(item, MootError):
            raise item
        if not isinstance(item, pb.ServerMessage):
            self._unsent -= _event_weight(item.body)
        return item

    def send(self, message: pb.ServerMessage) -> None:
        if not self.closed.is_set():
            self._queue.put_nowait(message)

    def fail(self, error: MootError) -> None:
        """End the stream with an error, ahead of all items still queued."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(error)
        self.close()

    def event(self, event: Event) -> bool:
        if self.closed.is_set():
            return False
        self.begun = True
        if isinstance(event.body, ToolsStarted | ToolFinished):
            # Tool calls and results are not part of this answer.
            return True
        self._unsent += _event_weight(event.body)
        if self._unsent > self._max_unsent:
            self._queue.put_nowait(
                ReaderTooSlow(
                    "this stream was ended because it was not read fast enough", fix="The run continues; ask again."
                )
            )
            self.close()
            return False
        self._queue.put_nowait(event)
        return True

    def notify(self, item: Event | Gap) -> bool:
        return isinstance(item, Event) and self.event(item)

    def on_drain(self, callback: Callable[[], None]) -> None:
        """Do nothing, as there are no subscriptions through HTTP."""

    def on_close(self, callback: Callable[[], None]) -> None:
        if self.closed.is_set():
            callback()
        else:
            self._callbacks.append(callback)

    def close(self) -> None:
        self.closed.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


def _event_weight(event: EventBody) -> int:
    return 64 + (len(event.content) if isinstance(event, TextChunk | ThinkingChunk | PrivateText) else 0)
