"""The subject on which the server answers a publication is used again, but never for two that may be answered."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import pytest

from moot.broker.nats_link import NatsLink, NatsSettings
from moot.broker.nats_stream import STREAM
from moot.domain.ports.broker import BrokerMessage, BrokerUnavailable, Position
from tests.simulation.clock import VirtualClock

VIRTUAL_TIME = True


class _Client:
    """Takes what is published, and gives the answers that a test chooses."""

    max_payload = 1_000

    def __init__(self) -> None:
        # The reply subject of each message, by its payload.
        self.replies: dict[bytes, bytes] = {}

    async def send_commands(self, commands: Iterable[bytes]) -> None:
        for command in commands:
            line, _, rest = command.partition(b"\r\n")
            self.replies[rest.split(b"\r\n")[-2]] = line.split(b" ")[2]


class _Rig:
    def __init__(self) -> None:
        self.client = _Client()
        self.link = NatsLink(NatsSettings(url="nats://127.0.0.1:9", name="desk"), VirtualClock(), lambda *_: None)
        self.link.client = cast(Any, self.client)
        self.link.stream = "s"
        self.link._inbox = b"_INBOX.desk.1."

    def publish(self, *names: str) -> "asyncio.Task[dict[str, Position | BrokerUnavailable]]":
        messages = {name: BrokerMessage(subject="agent.inbox.a", payload=name.encode(), headers={}) for name in names}
        return asyncio.create_task(self.link.publish_all(messages))

    def answer(self, name: str, sequence: int, *, stream: str = STREAM) -> None:
        data = b'{"stream":"%b","seq":%d}' % (stream.encode(), sequence)
        self.link._receive_answer(self.client.replies[name.encode()], b"", data, b"")

    def find_reply(self, name: str) -> bytes:
        return self.client.replies[name.encode()]


async def test_a_subject_is_used_again_once_everything_that_was_sent_with_it_is_answered() -> None:
    rig = _Rig()
    first = rig.publish("a", "b")
    await asyncio.sleep(0)
    rig.answer("a", 1)
    second = rig.publish("c")
    await asyncio.sleep(0)
    assert len({*map(rig.find_reply, "abc")}) == 3
    rig.answer("b", 2)
    assert await first == {"a": Position("s", 1), "b": Position("s", 2)}
    # The end of the first does not end the wait of the second.
    rig.answer("c", 3)
    assert await second == {"c": Position("s", 3)}
    third = rig.publish("d", "e", "f", "g")
    await asyncio.sleep(0)
    assert len({*map(rig.find_reply, "defg")}) == 4
    assert {*map(rig.find_reply, "abc")} < {*map(rig.find_reply, "defg")}
    for number, name in enumerate("defg", start=4):
        rig.answer(name, number)
    assert set((await third).values()) == {Position("s", number) for number in range(4, 8)}


@pytest.mark.parametrize("stream", ["", "OTHER"])
async def test_a_later_answer_counts_for_no_other_message(stream: str) -> None:
    """The first was not answered in time, or by a stream that is not that of the daemons."""
    rig = _Rig()
    first = rig.publish("a")
    await asyncio.sleep(0)
    if stream:
        rig.answer("a", 1, stream=stream)
    assert isinstance((await first)["a"], BrokerUnavailable)
    second = rig.publish("b")
    await asyncio.sleep(0)
    assert rig.find_reply("a") != rig.find_reply("b")
    rig.answer("a", 1)
    await asyncio.sleep(0)
    assert not second.done()
    rig.answer("b", 2)
    assert await second == {"b": Position("s", 2)}


async def test_the_subject_of_a_message_that_was_not_sent_is_not_waited_for() -> None:
    rig = _Rig()
    (result,) = (await rig.publish("x" * 2_000)).values()
    assert isinstance(result, BrokerUnavailable)
    assert "larger than the NATS server allows" in result.message
    assert not rig.link._waiting
