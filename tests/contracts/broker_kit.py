"""Brokers that the contract tests run on: how each is started, stopped, filled and connected to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import nats
from nats.js.errors import NotFoundError

from moot.broker.memory import MemoryBroker
from moot.broker.nats import NatsBroker
from moot.broker.nats_link import NatsSettings
from moot.broker.nats_stream import STREAM
from moot.daemon.clock import SystemClock
from moot.domain.goal import make_goal_id
from moot.domain.ports.broker import INBOX_SUBJECT, Arrival, Batch, Broker, BrokerMessage, BrokerUnavailable, Position
from moot.engine.supervisor import Supervisor
from tests.nats_server import NatsServer

# Two stores; the second differs from the first in one bit of its first group.
STORE, OTHER_STORE = 0x0123_0000_0000_0042, 0x0124_0000_0000_0042
SMALL_STREAM = 20_000


async def publish(broker: Broker, broker_message: BrokerMessage, *, message_id: str) -> Position:
    """Publish one message. Raise BrokerUnavailable if it is not accepted."""
    result = (await broker.publish_all({message_id: broker_message}))[message_id]
    if isinstance(result, BrokerUnavailable):
        raise result
    return result


def make_broker_message(body: str = "hello", *, store: int = STORE, conversation: int = 1) -> BrokerMessage:
    return BrokerMessage(
        subject=INBOX_SUBJECT + make_goal_id(store, conversation),
        payload=body.encode(),
        headers={"Moot-Daemon": "laptop", "Moot-Hops": "0"},
    )


class Recorder:
    """Keeps what a broker gives and reports; a test waits for what it expects."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.presence: list[tuple[str, bytes]] = []
        self.states: list[bool] = []
        self.malformed: list[str] = []
        # How many of the next batches fail, and whether a batch is kept waiting.
        self.failures = 0
        self.may_return = asyncio.Event()
        self.may_return.set()
        self._changed = asyncio.Event()

    @property
    def arrivals(self) -> list[Arrival]:
        return [arrival for batch in self.batches for arrival in batch.arrivals]

    @property
    def bodies(self) -> list[str]:
        return [arrival.message.payload.decode() for arrival in self.arrivals]

    @property
    def position(self) -> Position:
        return self.batches[-1].position

    async def handle(self, batch: Batch) -> None:
        self.batches.append(batch)
        self._changed.set()
        await self.may_return.wait()
        if batch.arrivals and self.failures:
            self.failures -= 1
            raise OSError("the disk is full")

    def hear(self, name: str, payload: bytes) -> None:
        self.presence.append((name, payload))
        self._changed.set()

    def note_malformed(self, subject: str) -> None:
        self.malformed.append(subject)
        self._changed.set()

    def note_state(self, is_connected: bool) -> None:
        self.states.append(is_connected)
        self._changed.set()

    async def wait_until(self, condition: Callable[[], object]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


class Rig(Protocol):
    """A broker under test."""

    def make_connection(self, name: str, supervisor: Supervisor) -> Broker: ...
    async def stop(self) -> None: ...
    async def start(self) -> None: ...
    async def lose_data(self) -> None:
        """Remove what a stopped broker has stored."""
        ...

    async def limit(self) -> None:
        """Let the stream hold at most SMALL_STREAM bytes."""
        ...


class MemoryRig:
    def __init__(self) -> None:
        self.broker = MemoryBroker(SystemClock())
        self._with_data = True

    def make_connection(self, name: str, supervisor: Supervisor) -> Broker:
        return self.broker.connect(name, supervisor.start)

    async def stop(self) -> None:
        self.broker.stop()

    async def start(self) -> None:
        self.broker.restart(with_data=self._with_data)
        self._with_data = True

    async def lose_data(self) -> None:
        self._with_data = False

    async def limit(self) -> None:
        self.broker.capacity = SMALL_STREAM


class NatsRig:
    """A real server whose stream is removed before each test."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self._most_bytes = 1 << 26

    def make_connection(self, name: str, supervisor: Supervisor) -> Broker:
        settings = NatsSettings(url=self.server.url, name=name, most_stream_bytes=self._most_bytes)
        return NatsBroker(settings, SystemClock(), supervisor.start, _read_nothing)

    async def stop(self) -> None:
        await asyncio.to_thread(self.server.kill)

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)

    async def lose_data(self) -> None:
        await asyncio.to_thread(self.server.lose_data)

    async def limit(self) -> None:
        self._most_bytes = SMALL_STREAM


async def _read_nothing() -> None:
    return None


async def remove_stream(url: str) -> None:
    client = await nats.connect(url)
    with suppress(NotFoundError):
        await client.jetstream().delete_stream(STREAM)
    await client.close()


@asynccontextmanager
async def connect(rig: Rig, name: str = "laptop") -> AsyncIterator[tuple[Broker, Recorder]]:
    """A started connection that is connected, and what it reports."""
    supervisor, recorder = Supervisor(SystemClock()), Recorder()
    broker = rig.make_connection(name, supervisor)
    broker.observe_presence(recorder.hear)
    broker.observe_state(recorder.note_state)
    broker.observe_malformed(recorder.note_malformed)
    await broker.start()
    try:
        await recorder.wait_until(lambda: broker.is_connected)
        yield broker, recorder
    finally:
        await broker.close()
        await supervisor.stop()
