"""What a message through NATS costs: published and acknowledged per second beside raw nats-py, and its latency."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import nats
from nats.js import JetStreamContext
from nats.js.api import SubjectTransform

from moot.broker.nats import NatsBroker
from moot.broker.nats_link import NatsSettings
from moot.broker.nats_server import LocalServer
from moot.broker.nats_stream import make_stream_config
from moot.daemon.clock import SystemClock
from moot.domain.config import BrokerConfig
from moot.domain.goal import make_goal_id
from moot.domain.ports.broker import INBOX_SUBJECT, Batch, BrokerMessage
from moot.engine.supervisor import Supervisor

_MESSAGES = 5_000
_TOGETHER = 100
_LATENCIES = 300
_STORE = 42
_GOAL = make_goal_id(_STORE, 1)
PARCEL = BrokerMessage(subject=INBOX_SUBJECT + _GOAL, payload=b"x" * 500, headers={"Moot-Hops": "0"})
RAW_STREAM = "RAW"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCost:
    """Messages per second, by raw nats-py and by the adapter, and seconds from publishing to the handler."""

    raw: float
    adapter: float
    latency: float


async def measure_broker(folder: Path, messages: int = _MESSAGES) -> BrokerCost:
    server = LocalServer(folder)
    await asyncio.to_thread(server.start)
    try:
        async with AsyncExitStack() as stack:
            broker = await _connect(stack, server.url)
            raw = await _measure_raw(server.url, messages)
            adapter = await _measure_rate(lambda number: broker.publish_all({f"adapter-{number}": PARCEL}), messages)
            return BrokerCost(raw=raw, adapter=adapter, latency=await _measure_latency(broker, messages))
    finally:
        await asyncio.to_thread(server.stop)


async def _connect(stack: AsyncExitStack, url: str) -> NatsBroker:
    supervisor, is_connected = Supervisor(SystemClock()), asyncio.Event()

    async def read_nothing() -> None:
        return None

    broker = NatsBroker(NatsSettings(url=url, name="bench"), SystemClock(), supervisor.start, read_nothing)
    broker.observe_state(lambda state: is_connected.set() if state else None)
    stack.push_async_callback(supervisor.stop)
    stack.push_async_callback(broker.close)
    await broker.start()
    await is_connected.wait()
    return broker


async def add_raw_stream(jetstream: JetStreamContext) -> None:
    """Create a stream like that of the daemons beside it, with subjects of its own, that can be purged."""
    config = make_stream_config(BrokerConfig().max_stream_bytes)
    transform = SubjectTransform(src="raw.*.*", dest="raw.{{wildcard(1)}}.{{split(2,-)}}")
    await jetstream.add_stream(
        config.evolve(name=RAW_STREAM, subjects=["raw.inbox.*"], subject_transform=transform, deny_purge=False)
    )


async def publish_raw(jetstream: JetStreamContext, number: int) -> None:
    headers = {"Nats-Msg-Id": f"raw-{number}"}
    await jetstream.publish(f"raw.inbox.{_GOAL}", PARCEL.payload, headers=headers)


async def _measure_raw(url: str, messages: int) -> float:
    """Publish with nats-py alone."""
    client = await nats.connect(url)
    jetstream = client.jetstream()
    await add_raw_stream(jetstream)
    rate = await _measure_rate(lambda number: publish_raw(jetstream, number), messages)
    await jetstream.delete_stream(RAW_STREAM)
    await client.close()
    return rate


async def _measure_rate(publish: Callable[[int], Awaitable[object]], messages: int) -> float:
    """Return how many messages per second are accepted."""
    started = time.perf_counter()
    await send_together(publish, range(messages))
    return messages / (time.perf_counter() - started)


async def send_together(send: Callable[[int], Awaitable[object]], numbers: Iterable[int]) -> None:
    """Send messages, always as many at once; the next one begins when one has been accepted."""
    left = iter(numbers)

    async def send_some() -> None:
        for number in left:
            await send(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(_TOGETHER):
            group.create_task(send_some())


async def _measure_latency(broker: NatsBroker, published: int) -> float:
    """Receive what was published before, then measure how long single messages take to arrive."""
    arrived, found = asyncio.Event(), 0

    async def handle(batch: Batch) -> None:
        nonlocal found
        found += len(batch.arrivals)
        arrived.set()

    latencies = []
    async with broker.consume(_STORE, handle):
        while found < published:
            arrived.clear()
            await arrived.wait()
        for number in range(_LATENCIES):
            arrived.clear()
            started = time.perf_counter()
            await broker.publish_all({f"latency-{number}": PARCEL})
            await arrived.wait()
            latencies.append(time.perf_counter() - started)
    return statistics.median(latencies)
