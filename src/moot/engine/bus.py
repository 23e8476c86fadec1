"""The event bus: numbers every event of the daemon, keeps the newest, and hands them to subscribers.

engine/run_stream.py publishes the events of a run here; streams, SubscribeEvents, traces and waits subscribe.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Protocol

from moot.domain.events import Event, EventBody, EventSource, Gap, TextChunk, ThinkingChunk, ToolFinished, ToolsStarted
from moot.domain.ports.clock import Clock

logger = logging.getLogger(__name__)

# How much is kept for readers that ask for earlier events: so many events, and so many characters in them.
MAX_EVENTS = 16_384
MAX_SIZE = 16 * 1024 * 1024
# Numbers that are reserved in the store at a time, so that none is used again after a crash.
SEQ_BLOCK = 1_000_000_000

Reader = Callable[[Event | Gap], bool | None]
Observer = Callable[[Event], None]
Filter = Callable[[Event], bool]


# Reserves so many numbers in the store and returns the last of them.
Reserve = Callable[[int], Awaitable[int]]


async def _reserve_none(count: int) -> int:
    return count


class Listener(Protocol):
    """Receives the events of one run before all subscribers."""

    def receive(self, event: Event) -> None: ...


class Subscription:
    """One reader. It returns False for what it cannot take now; `resume` goes on from there once it can."""

    __slots__ = ("_bus", "_cursor", "_is_behind", "_read", "_wants")

    def __init__(self, bus: "Bus", read: Reader, wants: Filter | None, cursor: int) -> None:
        self._bus = bus
        self._read = read
        self._wants = wants
        # The last event it has had, or does not want.
        self._cursor = cursor
        self._is_behind = False

    def offer(self, event: Event) -> None:
        """Hand over a new event, unless earlier ones still wait."""
        if self._is_behind or event.seq <= self._cursor:
            return
        if (self._wants is None or self._wants(event)) and self._hand_over(event) is False:
            self._is_behind = True
        else:
            self._cursor = event.seq

    def resume(self) -> None:
        """Read what is kept from where the reader stopped; what is not kept any more is announced as a gap."""
        self._is_behind = False
        missing = self._bus.first_kept - 1
        if self._cursor < missing:
            if self._hand_over(Gap(self._cursor + 1, missing)) is False:
                self._is_behind = True
                return
            self._cursor = missing
        for event in self._bus.kept_after(self._cursor):
            self.offer(event)
            if self._is_behind:
                return

    def close(self) -> None:
        self._bus.remove(self)

    def _hand_over(self, item: Event | Gap) -> bool | None:
        try:
            return self._read(item)
        except Exception:
            # A broken reader must not stop the run whose event this is, nor keep it from the others.
            logger.exception("a reader of events failed")
            return True


def _hand_over(read: Observer, event: Event) -> None:
    try:
        read(event)
    except Exception:
        logger.exception("a reader of events failed")


class Bus:
    def __init__(
        self, *, clock: Clock, reserve: Reserve = _reserve_none, max_events: int = MAX_EVENTS, max_size: int = MAX_SIZE
    ) -> None:
        self._clock = clock
        self._reserve = reserve
        self._max_events = max_events
        self._max_size = max_size
        # The number of the newest event, and the last one that is reserved.
        self.seq = 0
        self._reserved = 0
        self._kept: deque[Event] = deque()
        self._size = 0
        self._subscriptions: list[Subscription] = []
        # Readers in this process by the kind of event they read: an event of another kind costs them nothing.
        self._observers: dict[type[EventBody], tuple[Observer, ...]] = {}
        # Events that are published while another is handed over: readers get them in the order of their numbers.
        self._pending: deque[tuple[Event, Listener | None]] = deque()
        self._is_delivering = False

    async def reserve_numbers(self) -> None:
        """Reserve numbers where few are left. Called before anything is published, and then now and again."""
        if self._reserved - self.seq < SEQ_BLOCK // 2:
            is_first = not self._reserved
            self._reserved = await self._reserve(SEQ_BLOCK)
            if is_first:
                # Behind every number that an earlier daemon may have used.
                self.seq = self._reserved - SEQ_BLOCK

    def publish(self, source: EventSource, body: EventBody, listener: Listener | None = None) -> Event:
        """Number an event and hand it to every subscriber before this returns, the listener first."""
        self.seq += 1
        event = Event(self.seq, self._clock.now(), source, body)
        self._keep(event)
        self._pending.append((event, listener))
        if not self._is_delivering:
            self._deliver()
        return event

    def subscribe(self, read: Reader, *, wants: Filter | None = None, since: int | None = None) -> Subscription:
        """Hand every event from now on to the reader; with `since` also the earlier ones after that number."""
        subscription = Subscription(self, read, wants, self.seq if since is None else min(since, self.seq))
        if since is not None and since > self.seq:
            # The number is from another store: whatever the reader knows may be something else here.
            read(Gap(1, self.seq))
        elif since is not None:
            subscription.resume()
        self._subscriptions.append(subscription)
        return subscription

    def observe(self, read: Observer, *kinds: type[EventBody]) -> Callable[[], None]:
        """Hand the events of these kinds to a reader in this process, which always keeps up. Returns how to stop."""
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
        """The number of the oldest event that is kept, or of the next one."""
        return self._kept[0].seq if self._kept else self.seq + 1

    def kept_after(self, seq: int) -> list[Event]:
        return list(islice(self._kept, max(0, seq + 1 - self.first_kept), None))

    def _keep(self, event: Event) -> None:
        self._kept.append(event)
        self._size += _size(event.body)
        while len(self._kept) > self._max_events or (self._size > self._max_size and len(self._kept) > 1):
            self._size -= _size(self._kept.popleft().body)

    def _deliver(self) -> None:
        self._is_delivering = True
        try:
            while self._pending:
                event, listener = self._pending.popleft()
                if listener is not None:
                    listener.receive(event)
                for read in self._observers.get(type(event.body), ()):
                    _hand_over(read, event)
                for subscription in tuple(self._subscriptions):
                    subscription.offer(event)
        finally:
            self._is_delivering = False


def _size(body: EventBody) -> int:
    """The characters of what can be long."""
    if isinstance(body, TextChunk | ThinkingChunk):
        return len(body.content)
    if isinstance(body, ToolFinished):
        return len(body.output)
    if isinstance(body, ToolsStarted):
        return sum(len(call.arguments) for call in body.calls)
    return 0
