"""What every Broker promises, over the one in memory and over a real NATS server."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import pytest
from msgspec.structs import replace

import moot.broker.nats
from moot.domain.ports.broker import Broker, BrokerMessage, BrokerUnavailable, Position
from tests.contracts.broker_kit import (
    OTHER_STORE,
    STORE,
    MemoryRig,
    NatsRig,
    Rig,
    connect,
    make_broker_message,
    publish,
    remove_stream,
)
from tests.daemon_process import eventually
from tests.nats_server import NatsServer, nats_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(params=["memory", "nats"])
def rig(request: pytest.FixtureRequest) -> Rig:
    if request.param == "memory":
        return MemoryRig()
    server: NatsServer = request.getfixturevalue("server")
    asyncio.run(remove_stream(server.url))
    return NatsRig(server)


async def _publish_until_it_fails(broker: Broker, end: Callable[[], Awaitable[None]]) -> int:
    """Publish without a pause while `end` is called; return how many messages were accepted."""
    accepted = 0
    has_begun = asyncio.Event()

    async def publish_some() -> None:
        nonlocal accepted
        with suppress(BrokerUnavailable):
            while True:
                await publish(broker, make_broker_message(), message_id=f"{end.__name__} {accepted}")
                accepted += 1
                has_begun.set()
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(publish_some())
        await has_begun.wait()
        await end()
    return accepted


async def test_messages_arrive_in_order_at_their_store_only_and_once(rig: Rig) -> None:
    async with connect(rig) as (sender, _), connect(rig, "desk") as (receiver, there):
        assert sender.is_shared
        assert sender.problem == ""
        first = await publish(sender, make_broker_message("1"), message_id="a")
        await publish(sender, make_broker_message("elsewhere", store=OTHER_STORE), message_id="b")
        async with receiver.consume(STORE, there.handle):
            await there.wait_until(lambda: there.bodies)
            for number in range(2, 6):
                await publish(sender, make_broker_message(str(number), conversation=number), message_id=f"c{number}")
            await there.wait_until(lambda: len(there.bodies) == 5)
        assert there.bodies == ["1", "2", "3", "4", "5"]
        sequences = [arrival.position.sequence for arrival in there.arrivals]
        assert sequences == sorted(set(sequences))
        assert there.arrivals[0].position == first
        assert (there.arrivals[0].message, there.arrivals[0].message_id) == (make_broker_message("1"), "a")
        assert sender.stream == receiver.stream == first.stream
        # What was received is not given again; the first batch says up to where everything is received.
        async with receiver.consume(STORE, there.handle):
            await there.wait_until(lambda: not there.batches[-1].arrivals)
        assert there.position.sequence >= sequences[-1]
        async with receiver.consume(OTHER_STORE, there.handle):
            await there.wait_until(lambda: there.bodies[-1] == "elsewhere")


async def test_a_message_id_is_stored_once(rig: Rig) -> None:
    async with connect(rig) as (sender, _), connect(rig, "desk") as (receiver, there):
        first = await publish(sender, make_broker_message("hello"), message_id="a")
        assert await publish(sender, make_broker_message("hello"), message_id="a") == first
        async with receiver.consume(STORE, there.handle):
            await publish(sender, make_broker_message("last"), message_id="b")
            await there.wait_until(lambda: "last" in there.bodies)
            assert there.bodies == ["hello", "last"]
            # Also when it has been received.
            assert await publish(sender, make_broker_message("hello"), message_id="a") == first


async def test_a_batch_whose_handler_fails_is_given_again_before_anything_newer(rig: Rig) -> None:
    async with connect(rig) as (sender, _), connect(rig, "desk") as (receiver, there):
        there.failures = 1
        await publish(sender, make_broker_message("1"), message_id="a")
        async with receiver.consume(STORE, there.handle):
            await there.wait_until(lambda: there.bodies)
            await publish(sender, make_broker_message("2"), message_id="b")
            await there.wait_until(lambda: len(there.bodies) >= 3)
        assert there.bodies == ["1", "1", "2"]


async def test_a_batch_whose_handler_has_not_returned_is_given_to_the_next_connection(rig: Rig) -> None:
    async with connect(rig) as (sender, _):
        for name in "abc":
            await publish(sender, make_broker_message(name), message_id=name)
        async with connect(rig, "desk") as (receiver, there):
            there.may_return.clear()
            async with receiver.consume(STORE, there.handle):
                await there.wait_until(lambda: there.bodies)
        async with connect(rig, "desk") as (receiver, there), receiver.consume(STORE, there.handle):
            await there.wait_until(lambda: len(there.bodies) == 3)
            assert there.bodies == ["a", "b", "c"]


async def test_a_batch_that_a_lost_connection_was_given_is_given_to_the_next_one_at_once(rig: Rig) -> None:
    async with connect(rig) as (sender, _), connect(rig, "desk") as (killed, before):
        for name in "ab":
            await publish(sender, make_broker_message(name), message_id=name)
        before.may_return.clear()
        async with killed.consume(STORE, before.handle):
            await before.wait_until(lambda: before.bodies)
            # As when its process ends: nothing is said to the broker about the consumer.
            await killed.close()
            async with connect(rig, "desk") as (receiver, there), receiver.consume(STORE, there.handle):
                await there.wait_until(lambda: len(there.bodies) == 2)
                assert there.bodies == ["a", "b"]
                assert receiver.problem == ""


async def test_others_hear_what_a_connection_announces(rig: Rig) -> None:
    async with connect(rig) as (laptop, at_laptop), connect(rig, "desk") as (desk, at_desk):
        await laptop.announce(b"here is laptop")
        await at_desk.wait_until(lambda: at_desk.presence)
        await desk.announce(b"here is desk")
        await at_laptop.wait_until(lambda: at_laptop.presence)
        # It does not hear itself, but another one of its name.
        async with connect(rig, "desk") as (second, _):
            await second.announce(b"here is desk, too")
            await at_desk.wait_until(lambda: len(at_desk.presence) == 2)
        assert at_desk.presence == [("laptop", b"here is laptop"), ("desk", b"here is desk, too")]
        assert at_laptop.presence[0] == ("desk", b"here is desk")


async def test_a_restarted_broker_is_used_again_and_gives_what_it_had_stored(rig: Rig) -> None:
    async with connect(rig) as (sender, here), connect(rig, "desk") as (receiver, there):
        first = await publish(sender, make_broker_message("1"), message_id="a")
        there.may_return.clear()
        async with receiver.consume(STORE, there.handle):
            await there.wait_until(lambda: there.bodies)
            await rig.stop()
            await here.wait_until(lambda: not sender.is_connected)
            assert sender.problem
            with pytest.raises(BrokerUnavailable) as refusal:
                await publish(sender, make_broker_message("2"), message_id="b")
            assert sender.problem in refusal.value.message
            await sender.announce(b"nobody hears this")
            there.may_return.set()
            await rig.start()
            await here.wait_until(lambda: sender.is_connected)
            assert sender.problem == ""
            second = await publish(sender, make_broker_message("2"), message_id="b")
            await there.wait_until(lambda: len(there.bodies) == 3)
        # It was handled, but the broker could not be told.
        assert there.bodies == ["1", "1", "2"]
        assert second.sequence > first.sequence
        # What the broker had accepted may not have been on its disk: it is another stream.
        assert second.stream == sender.stream == receiver.stream != first.stream
        assert {batch.position.stream for batch in there.batches} == {first.stream, second.stream}
        assert here.states == [True, False, True]


async def test_a_broker_that_lost_its_data_begins_another_stream(rig: Rig) -> None:
    async with connect(rig) as (sender, here):
        first = await publish(sender, make_broker_message("1"), message_id="a")
        await rig.stop()
        await here.wait_until(lambda: not sender.is_connected)
        await rig.lose_data()
        await rig.start()
        await here.wait_until(lambda: sender.is_connected)
        second = await publish(sender, make_broker_message("1"), message_id="a")
        assert second.stream == sender.stream != first.stream
        assert second.sequence == 1
        async with connect(rig, "desk") as (receiver, there), receiver.consume(STORE, there.handle):
            await there.wait_until(lambda: there.bodies)
            assert there.bodies == ["1"]


async def test_a_slow_receiver_is_given_everything_in_order_and_in_batches(rig: Rig) -> None:
    async with connect(rig) as (sender, _), connect(rig, "desk") as (receiver, there):
        there.may_return.clear()
        async with receiver.consume(STORE, there.handle):
            await there.wait_until(lambda: there.batches)
            async with asyncio.TaskGroup() as group:
                for number in range(1_200):
                    group.create_task(publish(sender, make_broker_message(str(number)), message_id=str(number)))
            there.may_return.set()
            await there.wait_until(lambda: sum(len(batch.arrivals) for batch in there.batches) >= 1_200)
        sequences = [arrival.position.sequence for arrival in there.arrivals]
        assert sequences == sorted(set(sequences))
        assert len(sequences) == 1_200
        assert max(len(batch.arrivals) for batch in there.batches) <= 256


async def test_many_messages_are_published_at_once_and_each_has_its_own_result(rig: Rig) -> None:
    await rig.limit()
    async with connect(rig) as (sender, _), connect(rig, "desk") as (receiver, there):
        broker_messages = {f"m{number}": make_broker_message(str(number), conversation=number) for number in range(20)}
        results = await sender.publish_all({**broker_messages, "big": make_broker_message("x" * 30_000)})
        assert isinstance(results.pop("big"), BrokerUnavailable)
        positions = {message_id: result for message_id, result in results.items() if isinstance(result, Position)}
        assert positions.keys() == broker_messages.keys()
        async with receiver.consume(STORE, there.handle):
            await there.wait_until(lambda: len(there.bodies) == 20)
        stored = {arrival.message_id: arrival for arrival in there.arrivals}
        assert {message_id: arrival.position for message_id, arrival in stored.items()} == positions
        assert {message_id: arrival.message for message_id, arrival in stored.items()} == broker_messages


async def test_a_full_stream_refuses_until_something_was_received(rig: Rig) -> None:
    await rig.limit()
    async with connect(rig) as (sender, _), connect(rig, "desk") as (receiver, there):
        big = "x" * 9_000
        await publish(sender, make_broker_message(big), message_id="a")
        await publish(sender, make_broker_message(big), message_id="b")
        with pytest.raises(BrokerUnavailable, match="full"):
            await publish(sender, make_broker_message(big), message_id="c")
        assert sender.is_connected
        async with receiver.consume(STORE, there.handle):
            await there.wait_until(lambda: len(there.bodies) == 2)
        await publish(sender, make_broker_message("later"), message_id="c")


async def test_a_publish_fails_when_the_broker_stops_or_the_connection_is_closed(rig: Rig) -> None:
    async with connect(rig) as (sender, here):
        published = await _publish_until_it_fails(sender, rig.stop)
        assert published >= 1
        await rig.start()
        await here.wait_until(lambda: sender.is_connected)
        await _publish_until_it_fails(sender, sender.close)
        with pytest.raises(BrokerUnavailable):
            await publish(sender, make_broker_message(), message_id="after")
        await sender.announce(b"nobody hears this")
        await sender.close()
        assert not sender.is_connected


async def test_subjects_without_a_goal_disturb_nobody(rig: Rig) -> None:
    async with connect(rig) as (sender, _), connect(rig, "desk") as (receiver, there):
        for tail in ("not-a-uuid", "x", "1-2-3-4-5"):
            await publish(
                sender, BrokerMessage(subject=f"agent.inbox.{tail}", payload=b"?", headers={}), message_id=tail
            )
        async with receiver.consume(STORE, there.handle):
            await publish(sender, make_broker_message("good"), message_id="a")
            await there.wait_until(lambda: there.bodies)
        assert there.bodies == ["good"]


async def test_a_message_for_no_goal_is_removed_and_its_subject_is_reported(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both look for them, and one may be in the way of the other: then the next time.
    monkeypatch.setattr(moot.broker.nats, "_MALFORMED_SECONDS", 0.1)
    broker_messages = [
        replace(make_broker_message(), subject=f"agent.inbox.{suffix}") for suffix in ("garbage", "a-b-c-d-e")
    ]
    async with connect(rig) as (sender, here):
        for number, broker_message in enumerate(broker_messages):
            await publish(sender, broker_message, message_id=f"message {number}")
        async with connect(rig, "desk") as (_, there):
            await eventually(lambda: len(here.malformed) + len(there.malformed) == len(broker_messages))
            assert sorted(here.malformed + there.malformed) == sorted(
                broker_message.subject for broker_message in broker_messages
            )
