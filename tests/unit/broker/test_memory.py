"""The faults of the broker in memory, which a simulation injects: each is what the name says, and a seed repeats it."""

import asyncio
from random import Random

import pytest

from moot.broker.memory import DUPLICATE_WINDOW, MemoryBroker, MemoryConnection
from moot.domain.ports.broker import BrokerUnavailable
from moot.engine.supervisor import Supervisor
from tests.contracts.broker_kit import STORE, Recorder, make_broker_message, publish
from tests.simulation.clock import VirtualClock

VIRTUAL_TIME = True
TEST_SECONDS = 1_000.0


class World:
    """A broker with faults and two daemons on it."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.broker = MemoryBroker(self.clock, random=Random(seed))
        self.supervisor = Supervisor(self.clock)
        self.laptop = self.broker.connect("laptop", self.supervisor.start)
        self.desk = self.broker.connect("desk", self.supervisor.start)
        self.at_desk = Recorder()
        self.desk.observe_presence(self.at_desk.hear)

    async def start(self) -> "World":
        for connection in (self.laptop, self.desk):
            await self.start_one(connection)
        return self

    async def start_one(self, connection: MemoryConnection) -> None:
        recorder = Recorder()
        connection.observe_state(recorder.note_state)
        await connection.start()
        await recorder.wait_until(lambda: connection.is_connected)

    async def publish_all(self, count: int) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(publish(self.laptop, make_broker_message(str(number)), message_id=str(number)))

    async def receive(self, count: int) -> list[str]:
        async with self.desk.consume(STORE, self.at_desk.handle):
            await self.at_desk.wait_until(lambda: len(self.at_desk.bodies) >= count)
            return self.at_desk.bodies


async def _store_concurrently(seed: int) -> list[str]:
    world = await World(seed).start()
    world.broker.faults.delay = 0.5
    await world.publish_all(8)
    return await world.receive(8)


async def test_concurrent_messages_are_stored_in_any_order_and_a_seed_repeats_it() -> None:
    orders = [await _store_concurrently(seed) for seed in (1, 2, 1)]
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == [str(number) for number in range(8)]
    assert orders[0] != sorted(orders[0])


async def test_a_message_whose_acknowledgement_is_lost_is_stored_once() -> None:
    world = await World().start()
    world.broker.faults.lost_acknowledgements = 1.0
    with pytest.raises(BrokerUnavailable):
        await publish(world.laptop, make_broker_message("a"), message_id="a")
    world.broker.faults.lost_acknowledgements = 0.0
    await publish(world.laptop, make_broker_message("a"), message_id="a")
    assert world.broker.count_pending() == 1
    await world.clock.sleep(DUPLICATE_WINDOW + 1)
    await publish(world.laptop, make_broker_message("a"), message_id="a")
    assert await world.receive(2) == ["a", "a"]


async def test_messages_are_given_again_when_the_receipt_is_lost_and_twice_when_stored_twice() -> None:
    world = await World().start()
    world.broker.faults.lost_receipts = 0.9
    await publish(world.laptop, make_broker_message("a"), message_id="a")
    received = await world.receive(2)
    assert set(received) == {"a"}
    world.broker.faults = type(world.broker.faults)(duplicates=1.0, slowness=3.0)
    await publish(world.laptop, make_broker_message("b"), message_id="b")
    async with world.desk.consume(STORE, world.at_desk.handle):
        await world.at_desk.wait_until(lambda: world.at_desk.bodies.count("b") == 2)


async def test_a_partition_is_noticed_late_and_touches_one_connection() -> None:
    world = await World().start()
    world.broker.partition("laptop", notice_after=10.0)
    began = world.clock.monotonic()
    assert world.laptop.problem == ""
    await world.laptop.announce(b"lost")
    with pytest.raises(BrokerUnavailable):
        await publish(world.laptop, make_broker_message("a"), message_id="a")
    assert world.clock.monotonic() - began == 10.0
    assert [each.is_connected for each in (world.laptop, world.desk)] == [False, True]
    world.broker.restart()
    await world.clock.sleep(5)
    assert world.laptop.problem == "the broker cannot be reached"
    world.broker.heal("laptop")
    await world.clock.sleep(2)
    await publish(world.laptop, make_broker_message("a"), message_id="a")
    await world.laptop.announce(b"heard")
    assert await world.receive(1) == ["a"]
    assert world.at_desk.presence == [("laptop", b"heard")]


async def test_a_broker_that_lost_its_last_messages_uses_their_numbers_in_another_stream() -> None:
    world = await World().start()
    positions = [await publish(world.laptop, make_broker_message(name), message_id=name) for name in "abc"]
    world.broker.restart(lost_tail=1)
    await world.clock.sleep(2)
    again = await publish(world.laptop, make_broker_message("d"), message_id="d")
    assert again.sequence == positions[2].sequence
    assert again.stream != positions[2].stream
    assert await world.receive(3) == ["a", "b", "d"]


async def test_a_connection_that_ended_receives_and_acknowledges_nothing() -> None:
    world = await World().start()
    await publish(world.laptop, make_broker_message("a"), message_id="a")
    world.at_desk.may_return.clear()
    async with world.desk.consume(STORE, world.at_desk.handle):
        await world.at_desk.wait_until(lambda: world.at_desk.bodies)
        world.desk.end()
        world.at_desk.may_return.set()
        await world.clock.sleep(10)
    assert world.broker.count_pending() == 1
    world.desk = world.broker.connect("desk", world.supervisor.start)
    await world.start_one(world.desk)
    assert await world.receive(2) == ["a", "a"]


async def test_presence_can_be_lost() -> None:
    world = await World().start()
    world.broker.faults.lost_presence = 1.0
    await world.laptop.announce(b"1")
    world.broker.faults.lost_presence = 0.0
    await world.laptop.announce(b"2")
    await world.at_desk.wait_until(lambda: world.at_desk.presence)
    assert world.at_desk.presence == [("laptop", b"2")]
