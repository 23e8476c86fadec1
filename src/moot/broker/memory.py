"""The broker in memory: MemoryBroker is one object to which several daemons of a test or a simulation connect.

It behaves like the stream of nats.py: numbers without gaps, a window in which a message id is stored once, a queue from
which a message disappears when it was received, presence that is not stored. Its faults are chosen by a given random
generator, and time passes by a given clock, so that a history can be repeated. A daemon with `[broker] url = "memory:"`
is alone on its own.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import islice
from random import Random
from typing import Any

from msgspec.structs import replace

from moot.broker.memory_faults import Faults
from moot.domain.inbox_message import read_subject
from moot.domain.ports.broker import (
    Arrival,
    Batch,
    BatchHandler,
    BrokerMessage,
    BrokerUnavailable,
    MalformedHandler,
    Position,
    PresenceHandler,
    StateHandler,
)
from moot.domain.ports.clock import Clock

logger = logging.getLogger(__name__)

# Starts a coroutine under an owner: Supervisor.start.
Start = Callable[[str, Coroutine[Any, Any, None]], "asyncio.Task[None]"]

MOST_IN_BATCH = 256
DUPLICATE_WINDOW = 120.0
_RETRY = 1.0
_LONGEST_RECONNECT = 2.0


class MemoryBroker:
    """The broker itself: its stream, its connections, and the faults that a test injects."""

    def __init__(self, clock: Clock, *, random: Random | None = None, is_shared: bool = True) -> None:
        self.clock = clock
        self.is_shared = is_shared
        self.faults = Faults()
        # How many bytes of messages are stored at most.
        self.capacity: int | None = None
        self._random = random
        self._connections: list[MemoryConnection] = []
        self._is_running = True
        self._starts = 1
        self._last = 0
        self._bytes = 0
        # The messages that nobody has received yet, by store; under None those that no store can be found for.
        self._pending: dict[int | None, dict[int, Arrival]] = {}
        # The sequence and the time of each message of the duplicate window, oldest first.
        self._ids: dict[str, tuple[int, float]] = {}

    def connect(self, name: str, start: Start) -> "MemoryConnection":
        """Return a new connection for a daemon. It is used after its `start`."""
        return MemoryConnection(self, name, start)

    def add(self, connection: "MemoryConnection") -> None:
        self._connections.append(connection)

    @property
    def is_running(self) -> bool:
        return self._is_running

    @property
    def stream(self) -> str:
        return f"memory-{self._starts}"

    def count_pending(self) -> int:
        return sum(len(messages) for messages in self._pending.values())

    def stop(self) -> None:
        self._is_running = False
        for connection in list(self._connections):
            connection.disconnect()

    def restart(self, *, with_data: bool = True, lost_tail: int = 0) -> None:
        """Start again. Without its data, or without the last messages that had not reached its disk, if asked to."""
        self.stop()
        self._starts += 1
        if not with_data:
            self._pending, self._last, self._bytes = {}, 0, 0
        self._drop_tail(lost_tail)
        kept = {sequence for messages in self._pending.values() for sequence in messages}
        self._ids = {message_id: entry for message_id, entry in self._ids.items() if entry[0] in kept}
        self._is_running = True
        for connection in list(self._connections):
            connection.reconnect_soon()

    def _drop_tail(self, count: int) -> None:
        self._last = max(0, self._last - count)
        for messages in self._pending.values():
            for sequence in [sequence for sequence in messages if sequence > self._last]:
                self._bytes -= _measure(messages.pop(sequence).message)

    def partition(self, name: str, *, notice_after: float = 0.0) -> None:
        """Cut the connections of a daemon. They notice it after some time; until then a publish waits."""
        for connection in self._find(name):
            connection.cut(notice_after)

    def heal(self, name: str) -> None:
        for connection in self._find(name):
            connection.restore()

    def _find(self, name: str) -> list["MemoryConnection"]:
        return [connection for connection in self._connections if connection.name == name]

    def forget(self, connection: "MemoryConnection") -> None:
        with suppress(ValueError):
            self._connections.remove(connection)

    def draw_fault(self, probability: float) -> bool:
        return self._random is not None and probability > 0 and self._random.random() < probability

    def choose_time(self, longest: float) -> float:
        return self._random.uniform(0, longest) if self._random is not None and longest > 0 else 0.0

    def choose_reconnect_time(self) -> float:
        return self.choose_time(_LONGEST_RECONNECT)

    def store(self, message: BrokerMessage, message_id: str) -> Position:
        """Append a message to the stream, or return the place of one with this id in the duplicate window."""
        now = self.clock.monotonic()
        self._expire_ids(now)
        if message_id in self._ids:
            return Position(self.stream, self._ids[message_id][0])
        if self.capacity is not None and self._bytes + _measure(message) > self.capacity:
            raise BrokerUnavailable("the broker's stream is full")
        if _find_store(message.subject) is None and self._connections:
            # One of the daemons takes it out of the stream.
            self._connections[0].report_malformed(message.subject)
            return Position(self.stream, self._last)
        position = self._append(message, message_id)
        self._ids[message_id] = position.sequence, now
        if self.draw_fault(self.faults.duplicates):
            self._append(message, message_id)
        for connection in self._connections:
            connection.wake()
        return position

    def _append(self, message: BrokerMessage, message_id: str) -> Position:
        self._last += 1
        position = Position(self.stream, self._last)
        self._pending.setdefault(_find_store(message.subject), {})[self._last] = Arrival(
            message=message, position=position, message_id=message_id
        )
        self._bytes += _measure(message)
        return position

    def _expire_ids(self, now: float) -> None:
        while self._ids:
            oldest = next(iter(self._ids))
            if now - self._ids[oldest][1] <= DUPLICATE_WINDOW:
                return
            del self._ids[oldest]

    def list_pending(self, store: int) -> Batch:
        """Return the first messages that have not been received, or the end of the stream if there are none."""
        stream = self.stream
        arrivals = tuple(
            replace(arrival, position=Position(stream, arrival.position.sequence))
            for arrival in islice(self._pending.get(store, {}).values(), MOST_IN_BATCH)
        )
        last = arrivals[-1].position.sequence if arrivals else self._last
        return Batch(arrivals=arrivals, position=Position(stream, last))

    def acknowledge(self, store: int, batch: Batch) -> None:
        """Remove the messages of a batch that was received."""
        messages = self._pending.get(store, {})
        for arrival in batch.arrivals:
            if messages.pop(arrival.position.sequence, None) is not None:
                self._bytes -= _measure(arrival.message)

    def broadcast(self, sender: "MemoryConnection", payload: bytes) -> None:
        """Give an announcement to all other connections. Nobody waits for it, and nobody is told if it is lost."""
        for connection in self._connections:
            if connection is not sender and not self.draw_fault(self.faults.lost_presence):
                delay = self.choose_time(self.faults.delay)
                self.clock.call_later(delay, lambda to=connection: to.receive_presence(sender.name, payload))  # type: ignore[misc]


class MemoryConnection:
    """A daemon's connection to a MemoryBroker: the Broker port."""

    def __init__(self, broker: MemoryBroker, name: str, start: Start) -> None:
        self.name = name
        self._broker = broker
        self._start = start
        self._is_started = False
        self._is_closed = False
        self._is_cut = False
        self._stream = ""
        # Counts the connections that were made; 0 while there is none.
        self._connection = 0
        self._connections = 0
        self._changed = asyncio.Event()
        self._presence_handlers: list[PresenceHandler] = []
        self._state_handlers: list[StateHandler] = []
        self._malformed_handlers: list[MalformedHandler] = []

    @property
    def is_shared(self) -> bool:
        return self._broker.is_shared

    @property
    def is_connected(self) -> bool:
        return self._connection > 0

    @property
    def problem(self) -> str:
        if self.is_connected:
            return ""
        if self._is_closed or not self._is_started:
            return "the connection is closed"
        return "the broker cannot be reached" if self._broker.is_running else "the broker is stopped"

    @property
    def stream(self) -> str:
        return self._stream

    def observe_presence(self, handle: PresenceHandler) -> None:
        self._presence_handlers.append(handle)

    def observe_state(self, handle: StateHandler) -> None:
        self._state_handlers.append(handle)

    def observe_malformed(self, handle: MalformedHandler) -> None:
        self._malformed_handlers.append(handle)

    def report_malformed(self, subject: str) -> None:
        for handle in self._malformed_handlers:
            handle(subject)

    async def start(self) -> None:
        self._is_started = True
        self._broker.add(self)
        self.reconnect_soon()

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        """End the connection at once, as when the process of the daemon was killed."""
        self._is_closed = True
        self.disconnect()
        self._broker.forget(self)

    async def publish_all(self, messages: Mapping[str, BrokerMessage]) -> dict[str, Position | BrokerUnavailable]:
        if len(messages) == 1:
            return {message_id: await self._publish(message, message_id) for message_id, message in messages.items()}
        async with asyncio.TaskGroup() as group:
            tasks = {
                message_id: group.create_task(self._publish(message, message_id))
                for message_id, message in messages.items()
            }
        return {message_id: task.result() for message_id, task in tasks.items()}

    async def _publish(self, message: BrokerMessage, message_id: str) -> Position | BrokerUnavailable:
        connection = self._connection
        try:
            await self._delay(connection)
            position = self._broker.store(message, message_id)
            is_lost = self._broker.draw_fault(self._broker.faults.lost_acknowledgements)
            await self._delay(connection)
        except BrokerUnavailable as error:
            return error
        return BrokerUnavailable("the broker did not acknowledge the message") if is_lost else position

    async def _delay(self, connection: int) -> None:
        """Take the time that a message is under way. Raise BrokerUnavailable if the connection breaks meanwhile."""
        if delay := self._broker.choose_time(self._broker.faults.delay):
            await self._broker.clock.sleep(delay)
        while self._is_cut and self._connection == connection > 0:
            await self._wait_for_change()
        if self._connection != connection or not self.is_connected:
            raise BrokerUnavailable(self.problem or "the connection to the broker was lost")

    async def announce(self, payload: bytes) -> None:
        if self.is_connected and not self._is_cut:
            self._broker.broadcast(self, payload)

    def receive_presence(self, name: str, payload: bytes) -> None:
        if self.is_connected and not self._is_cut:
            for handle in self._presence_handlers:
                handle(name, payload)

    def consume(self, store: int, handle: BatchHandler) -> AbstractAsyncContextManager[None]:
        return self._consume_in_task(store, handle)

    @asynccontextmanager
    async def _consume_in_task(self, store: int, handle: BatchHandler) -> AsyncIterator[None]:
        task = self._start(f"broker-consume-{self.name}", self._consume(store, handle))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _consume(self, store: int, handle: BatchHandler) -> None:
        while True:
            while not self.is_connected:
                await self._wait_for_change()
            try:
                await self._consume_connected(store, handle)
            except BrokerUnavailable:
                continue
            except Exception:
                logger.exception("a batch of messages could not be handled; it is given again")
                await self._broker.clock.sleep(_RETRY)

    async def _consume_connected(self, store: int, handle: BatchHandler) -> None:
        """Give batches to the handler until the connection is lost. The first batch may be empty."""
        connection, is_first = self._connection, True
        while self._connection == connection:
            batch = self._broker.list_pending(store)
            if not batch.arrivals and not is_first:
                await self._wait_for_change()
                continue
            await self._delay(connection)
            await handle(batch)
            is_first = False
            if self._broker.draw_fault(self._broker.faults.lost_receipts):
                self.disconnect()
                self.reconnect_soon()
            await self._delay(connection)
            self._broker.acknowledge(store, batch)
            if pause := self._broker.choose_time(self._broker.faults.slowness):
                await self._broker.clock.sleep(pause)

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def wake(self) -> None:
        self._changed.set()

    def cut(self, notice_after: float) -> None:
        self._is_cut = True
        if notice_after:
            self._broker.clock.call_later(notice_after, self._notice_cut)
        else:
            self._notice_cut()

    def _notice_cut(self) -> None:
        if self._is_cut:
            self.disconnect()

    def restore(self) -> None:
        self._is_cut = False
        self.wake()
        self.reconnect_soon()

    def disconnect(self) -> None:
        was_connected, self._connection = self.is_connected, 0
        self.wake()
        if was_connected:
            self._report(False)

    def reconnect_soon(self) -> None:
        self._broker.clock.call_later(self._broker.choose_reconnect_time(), self._connect)

    def _connect(self) -> None:
        may_connect = self._is_started and not self._is_closed and not self._is_cut and self._broker.is_running
        if not may_connect or self.is_connected:
            return
        self._connections += 1
        self._connection = self._connections
        self._stream = self._broker.stream
        self.wake()
        self._report(True)

    def _report(self, is_connected: bool) -> None:
        for handle in self._state_handlers:
            handle(is_connected)


def _find_store(subject: str) -> int | None:
    found = read_subject(subject)
    return None if found is None else found[2]


def _measure(message: BrokerMessage) -> int:
    return (
        len(message.subject)
        + len(message.payload)
        + sum(len(name) + len(text) for name, text in message.headers.items())
    )
