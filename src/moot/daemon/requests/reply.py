"""Reply: receives the answers to one request. Implemented by the listeners, used by the handlers."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from moot.daemon.path_mask import PathMask
from moot.domain.events import AskClosed, AskOpened, Event, EventBody, Gap, ModelRetrying, RunBlocked, RunEnded
from moot.wire import moot_pb2 as pb


class Reply(Protocol):
    """Receives the answers to one request. No method blocks, or raises after the client has disconnected."""

    @property
    def closed(self) -> asyncio.Event:
        """Return an event that is set once nothing sent arrives: the client is gone, or its stream fell behind."""
        ...

    def send(self, message: pb.ServerMessage) -> None:
        """Send one message, stamped with the request's id."""
        ...

    def event(self, event: Event) -> bool:
        """Send an event of the stream. Return False if the reader is gone or fell behind: stop sending then."""
        ...

    def notify(self, item: Event | Gap) -> bool:
        """Send an event to a subscriber. Return False while the reader is behind: send it again after `on_drain`."""
        ...

    def on_drain(self, callback: Callable[[], None]) -> None:
        """Register a callback for when there is room again after `notify` returned False."""
        ...

    def on_close(self, callback: Callable[[], None]) -> None:
        """Register a callback that is called once when `closed` is set; at once if it already is."""
        ...


class MaskedReply:
    """A Reply to a principal other than the owner: forwards to another Reply, without paths of the owner's files.

    Asks are sent as they are to a principal that may approve: it must see exactly what it decides.
    """

    def __init__(self, reply: Reply, mask: PathMask, *, may_approve: bool = False) -> None:
        self._reply = reply
        self._mask = mask
        self._may_approve = may_approve

    @property
    def closed(self) -> asyncio.Event:
        return self._reply.closed

    def send(self, message: pb.ServerMessage) -> None:
        if not (self._may_approve and message.HasField("ask_list")):
            self._mask.apply_to_message(message)
        self._reply.send(message)

    def event(self, event: Event) -> bool:
        return self._reply.event(self._mask_event(event))

    def notify(self, item: Event | Gap) -> bool:
        return self._reply.notify(self._mask_event(item) if isinstance(item, Event) else item)

    def on_drain(self, callback: Callable[[], None]) -> None:
        self._reply.on_drain(callback)

    def on_close(self, callback: Callable[[], None]) -> None:
        self._reply.on_close(callback)

    def _mask_event(self, event: Event) -> Event:
        body = self._mask_body(event.body)
        return event if body == event.body else replace(event, body=body, encodings=None)

    def _mask_body(self, body: EventBody) -> EventBody:
        mask = self._mask.apply
        match body:
            case RunEnded(end=end):
                return replace(body, end=replace(end, error=mask(end.error), model=mask(end.model)))
            case AskOpened(ask=ask) | AskClosed(ask=ask) if not self._may_approve:
                shown = replace(ask, subject=mask(ask.subject), preview=mask(ask.preview), reason=mask(ask.reason))
                # Patterns are made from the shape, which contains paths.
                return replace(body, ask=replace(shown, shape=None))
            case RunBlocked(reason=reason) | ModelRetrying(reason=reason):
                return replace(body, reason=mask(reason))
            case _:
                return body
