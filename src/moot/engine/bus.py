"""The event bus: numbers every event of the daemon, keeps the newest, and passes them to subscribers.

engine/run_stream.py publishes the events of a run here; streams, SubscribeEvents, traces and waits subscribe.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any, Protocol

from moot.domain.events import (
    BridgeRefused,
    Event,
    EventBody,
    EventSource,
    Gap,
    MailDelivered,
    MailDropped,
    MailEvicted,
    MailRead,
    MailSent,
    PrivateText,
    TextChunk,
    ThinkingChunk,
    ToolFinished,
    ToolsStarted,
    UserMessageSent,
)
from moot.domain.ports.clock import Clock

logger = logging.getLogger(__name__)

# How much is kept for subscribers that request earlier events: a number of events, and of characters in them.
MAX_EVENTS = 16_384
MAX_SIZE = 16 * 1024 * 1024
# How many event numbers are reserved in the store at a time, so that none is reused after a crash.
SEQ_BLOCK = 1_000_000_000

Reader = Callable[[Event | Gap], bool | None]
Observer = Callable[[Event], None]
Filter = Callable[[Event], bool]


# Reserves this many numbers in the store and returns the last of them.
Reserve = Callable[[int], Awaitable[int]]


async def _reserve_none(count: int) -> int:
    return count


class RunListener(Protocol):
    """Receives the events of one run before all subscribers."""

    def receive(self, event: Event) -> None: ...


class Subscription:
    """One subscriber. Its reader returns False for an event it cannot take now; `resume` continues from that event."""

    __slots__ = ("_bus", "_cursor", "_is_behind", "_read", "_wants")

    def __init__(self, bus: "Bus", read: Reader, wants: Filter | None, cursor: int) -> None:
        self._bus = bus
        self._read = read
        self._wants = wants
        # The number of the last event that was delivered or filtered out.
        self._cursor = cursor
        self._is_behind = False

    def offer(self, event: Event) -> None:
        """Deliver a new event, unless earlier ones are still undelivered."""
        if self._is_behind or event.seq <= self._cursor:
            return
        if (self._wants is None or self._wants(event)) and self._hand_over(event) is False:
            self._is_behind = True
        else:
            self._cursor = event.seq

    def resume(self) -> None:
        """Deliver the kept events after the last delivered one; events no longer kept are reported as a gap."""
        self._is_behind = False
        missing = self._bus.first_kept - 1
        if self._cursor < missing:
            if self._hand_over(Gap(self._cursor + 1, missing)) is False:
                self._is_behind = True
                return
            self._cursor = missing
        for event in self._bus.list_since(self._cursor):
            self.offer(event)
            if self._is_behind:
                return

    def close(self) -> None:
        self._bus.remove(self)

    def _hand_over(self, item: Event | Gap) -> bool | None:
        try:
            return self._read(item)
        except Exception:
            # A failing subscriber must not stop the run that publishes, nor delivery to other subscribers.
            logger.exception("a reader of events failed")
            return True


class Bus:
    def __init__(
        self, *, clock: Clock, reserve: Reserve = _reserve_none, max_events: int = MAX_EVENTS, max_size: int = MAX_SIZE
    ) -> None:
        self._clock = clock
        self._reserve = reserve
        self._max_events = max_events
        self._max_size = max_size
        # The number of the newest event, and the last reserved number.
        self.seq = 0
        self._reserved = 0
        self._kept: deque[Event] = deque()
        self._size = 0
        self._subscriptions: list[Subscription] = []
        # In-process subscribers by event type, so that events of other types cost nothing.
        self._observers: dict[type[EventBody], tuple[Observer, ...]] = {}
        # Events published during the delivery of another one; they are queued so that subscribers get them in order.
        self._pending: deque[tuple[Event, RunListener | None]] = deque()
        self._is_delivering = False

    async def reserve_numbers(self) -> None:
        """Reserve more numbers when few are left. Called before the first event is published, and then regularly."""
        if self._reserved - self.seq < SEQ_BLOCK // 2:
            is_first = not self._reserved
            self._reserved = await self._reserve(SEQ_BLOCK)
            if is_first:
                # Start after every number that an earlier daemon may have used.
                self.seq = self._reserved - SEQ_BLOCK

    def publish(self, source: EventSource, body: EventBody, listener: RunListener | None = None) -> Event:
        """Number an event and deliver it to the listener, then to every subscriber, before returning."""
        self.seq += 1
        event = Event(self.seq, self._clock.now(), source, body)
        self._kept.append(event)
        if (size := _SIZES.get(type(body))) is not None:
            self._size += size(body)
        if len(self._kept) > self._max_events or self._size > self._max_size:
            self._drop_oldest()
        if self._is_delivering:
            self._pending.append((event, listener))
            return event
        self._is_delivering = True
        try:
            self._deliver(event, listener)
            while self._pending:
                self._deliver(*self._pending.popleft())
        finally:
            self._is_delivering = False
        return event

    def subscribe(self, read: Reader, *, wants: Filter | None = None, since: int | None = None) -> Subscription:
        """Deliver every future event to the reader; with `since`, also the kept events after that number."""
        subscription = Subscription(self, read, wants, self.seq if since is None else min(since, self.seq))
        if since is not None and since > self.seq:
            # The number comes from another store, so it says nothing about the events of this one.
            read(Gap(1, self.seq))
        elif since is not None:
            subscription.resume()
        self._subscriptions.append(subscription)
        return subscription

    def observe(self, read: Observer, *kinds: type[EventBody]) -> Callable[[], None]:
        """Deliver events of these types to an in-process reader that always keeps up.

        Return a function to unsubscribe.
        """
        for kind in kinds:
            self._observers[kind] = (*self._observers.get(kind, ()), read)

        def leave() -> None:
            for kind in kinds:
                self._observers[kind] = tuple(each for each in self._observers[kind] if each is not read)

        return leave

    def remove(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    @property
    def first_kept(self) -> int:
        """The number of the oldest kept event, or of the next event if none is kept."""
        return self._kept[0].seq if self._kept else self.seq + 1

    def list_since(self, seq: int) -> list[Event]:
        return list(islice(self._kept, max(0, seq + 1 - self.first_kept), None))

    def _drop_oldest(self) -> None:
        while len(self._kept) > self._max_events or (self._size > self._max_size and len(self._kept) > 1):
            body = self._kept.popleft().body
            if (size := _SIZES.get(type(body))) is not None:
                self._size -= size(body)

    def _deliver(self, event: Event, listener: RunListener | None) -> None:
        if listener is not None:
            listener.receive(event)
        for read in self._observers.get(type(event.body), ()):
            try:
                read(event)
            except Exception:
                logger.exception("a reader of events failed")
        if self._subscriptions:
            for subscription in tuple(self._subscriptions):
                subscription.offer(event)


def _size_of_text(body: Any) -> int:
    return len(body.content)


def _size_of_mail(body: Any) -> int:
    return len(body.mail.body)


# How many characters are in the fields that can be long, by type. Looked up by type: isinstance of a struct is slow.
_SIZES: dict[type[EventBody], Callable[[Any], int]] = {
    **dict.fromkeys((TextChunk, ThinkingChunk, PrivateText), _size_of_text),
    **dict.fromkeys((MailSent, MailDelivered, MailRead, MailEvicted, MailDropped, BridgeRefused), _size_of_mail),
    UserMessageSent: lambda body: len(body.message.content),
    ToolFinished: lambda body: len(body.output),
    ToolsStarted: lambda body: sum(len(call.arguments) for call in body.calls),
}
