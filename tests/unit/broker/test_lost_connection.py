"""A daemon that is about to receive messages while its connection is lost waits for another one."""

import asyncio

import pytest

from moot.broker.nats import NatsBroker
from moot.broker.nats_link import NatsLink, NatsSettings
from moot.daemon.clock import SystemClock
from moot.domain.ports.broker import Batch
from moot.engine.supervisor import Supervisor


@pytest.mark.timeout(20)
async def test_a_lost_connection_that_is_not_replaced_yet_stops_nothing_else() -> None:
    clock = SystemClock()
    settings = NatsSettings(url="nats://127.0.0.1:9", name="desk")
    broker = NatsBroker(settings, clock, Supervisor(clock).start, lambda: None)  # type: ignore[arg-type,return-value]
    link = NatsLink(settings, clock, lambda *_: None)
    await link._note_lost()
    broker._link = link

    async def handle(_batch: Batch) -> None:
        raise AssertionError("nothing arrives")

    async with broker.consume(1, handle):
        for _ in range(5):
            await asyncio.sleep(0)
