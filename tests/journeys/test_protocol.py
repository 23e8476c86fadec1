"""Whatever is sent to a real daemon gets one clear answer, and the daemon keeps serving."""

import asyncio
import json
import struct

import aiohttp
import pytest

from moot.client.connection import connect
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import MAX_FRAME
from moot.wire.codec import encode_frame
from tests.daemon_process import Home, LiveDaemon, running
from tests.daemon_thread import daemon_thread
from tests.raw_client import http_address, raw, tcp_address
from tests.talking import Talking

CONFIG = """
default_model = "scripted"
[models.scripted]
provider = "scripted"
script = "script.toml"
[listen]
http = "127.0.0.1:0"
tcp = "127.0.0.1:0"
"""

SCRIPT = """
[[rule]]
match = "slowly"
token_seconds = 0.02
reply = "one two three four five six seven eight nine ten"

[[rule]]
reply = "You said: {user}"
"""


async def still_talks(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        assert (await talk.say("ada", "still there?", sender)).text == "You said: still there?"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\0\0\0\x05\xff\xff\xff\xff\xff", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 413),
        (struct.pack(">I", MAX_FRAME + 1) + b"x" * (MAX_FRAME + 1), 413),
        (b"\0\0\0\x07\x0a\x05\x12\x03\xed\xa0\x80", 400),
    ],
    ids=["garbage", "http", "too large", "half a surrogate"],
)
async def test_a_bad_frame_gets_one_error(daemon: LiveDaemon, sender: str, sent: bytes, code: int) -> None:
    async with raw(daemon) as client:
        client.writer.write(sent)
        error = (await client.receive()).error
        assert error.code == code
        assert error.message
        assert error.fix
        assert await client.ended()
    await still_talks(daemon, sender)


async def test_a_truncated_frame_gets_one_error(daemon: LiveDaemon, sender: str) -> None:
    async with raw(daemon) as client:
        whole = encode_frame(pb.ClientMessage(stream=pb.StreamMsg(agent="ada", content="hi", sender=sender)))
        client.writer.write(whole[:-3])
        client.writer.write_eof()
        assert (await client.receive()).error.code == 400
        assert await client.ended()
    await still_talks(daemon, sender)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (pb.ClientMessage(), 400),
        (pb.ClientMessage.FromString(b"\xba\x3e\x00"), 400),
        (pb.ClientMessage(stream=pb.StreamMsg(agent="ghost", content="hi")), 404),
        (pb.ClientMessage(stream=pb.StreamMsg(agent="", content="hi")), 404),
        (pb.ClientMessage(stream=pb.StreamMsg(agent="ada", content="hi", guest="ghost")), 404),
        (pb.ClientMessage(stream=pb.StreamMsg(agent="ada", content="hi", guest="ada")), 400),
        (pb.ClientMessage(stream=pb.StreamMsg(agent="ada", content="")), 400),
        (pb.ClientMessage(stream=pb.StreamMsg(agent="ada", content=" \n")), 400),
        (pb.ClientMessage(stream=pb.StreamMsg(agent="ada", content="a\0b")), 400),
        (pb.ClientMessage(stream=pb.StreamMsg(agent="ada", content="x" * 10_000_000)), 413),
        (pb.ClientMessage(stream=pb.StreamMsg(agent="ada", content="hi", cwd="/no/such/folder")), 400),
        (pb.ClientMessage(stream=pb.StreamMsg(agent="ada", content="hi", cwd="relative")), 400),
        (pb.ClientMessage(hello=pb.Hello(version=99)), 400),
        (pb.ClientMessage(hello=pb.Hello(version=1, token="moot_wrong")), 401),
        (pb.ClientMessage(get_archive=pb.GetArchiveMsg(agent="ada", number=1)), 404),
        (pb.ClientMessage.FromString(b"\xb2\x0c\x00"), 400),
    ],
    ids=range(16),
)
async def test_a_bad_request_gets_one_error_and_makes_nothing(
    daemon: LiveDaemon, sender: str, message: pb.ClientMessage, code: int
) -> None:
    message.request_id = 7
    if message.HasField("stream"):
        message.stream.sender = sender
    async with raw(daemon) as client:
        answer = await client.ask(message)
        assert (answer.request_id, answer.error.code) == (7, code), answer
        assert (await client.ask(pb.ClientMessage(request_id=8, ping=pb.Ping()))).request_id == 8
    async with daemon.client() as talk:
        assert await talk.conversations(sender=sender) == []


@pytest.mark.parametrize("reserved", ["run:1", "cron:daily", "team:1:2", "bg:1"])
async def test_a_sender_of_the_daemons_own_is_refused_even_to_the_owner(daemon: LiveDaemon, reserved: str) -> None:
    async with raw(daemon) as client:
        stream = pb.StreamMsg(agent="ada", content="hi", sender=reserved)
        assert (await client.ask(pb.ClientMessage(stream=stream))).error.code == 400


async def test_the_same_turn_reads_the_same_on_every_door(daemon: LiveDaemon, sender: str) -> None:
    token = daemon.cli_json("tokens", "new", "doors", "--sender", "test:*")["data"]["token"]
    async with daemon.client() as talk:
        spoken = (await talk.say("ada", "over unix", sender)).kinds
    async with connect(tcp_address(daemon), token=token) as connection:
        assert (await Talking(connection).say("ada", "over tcp", sender)).kinds == spoken
    kinds: list[str | None] = []
    async with (
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{http_address(daemon)}/ws", headers={"Authorization": f"Bearer {token}"}) as websocket,
    ):
        asked = {"request_id": 4, "stream": {"agent": "ada", "content": "over ws", "sender": sender}}
        await websocket.send_str(json.dumps(asked))
        while not kinds or kinds[-1] != "end":
            answer = json.loads(await websocket.receive_str(timeout=30))
            assert answer["request_id"] == "4"
            kinds += answer["stream"]
    assert kinds == spoken
    async with daemon.client() as talk:
        assert [content for role, _, content in await talk.told("ada", sender) if role == "user"] == [
            "over unix",
            "over tcp",
            "over ws",
        ]


async def test_a_reader_that_leaves_does_not_stop_the_run(daemon: LiveDaemon, sender: str) -> None:
    async with raw(daemon) as client:
        stream = pb.StreamMsg(agent="ada", content="slowly", sender=sender)
        started = await client.ask(pb.ClientMessage(request_id=1, stream=stream))
        assert started.stream.start.agent == "ada"
    async with daemon.client() as talk:
        await talk.say("ada", "after it", sender)
        told = [content for _, _, content in await talk.told("ada", sender)]
    assert told == [
        "slowly",
        "one two three four five six seven eight nine ten",
        "after it",
        "You said: after it",
    ]


async def test_many_requests_share_one_connection(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk, asyncio.TaskGroup() as group:
        tasks = [group.create_task(talk.say("ada", f"number {n}", f"{sender}:{n}")) for n in range(30)]
    assert [task.result().text for task in tasks] == [f"You said: number {n}" for n in range(30)]


def test_a_fixed_port_that_is_taken_is_a_bad_configuration(home: Home) -> None:
    with daemon_thread(home) as first:
        port = tcp_address(first).rpartition(":")[2]
        other = Home(home.path.parent / "other").furnish(
            config=CONFIG.replace('tcp = "127.0.0.1:0"', f'tcp = "127.0.0.1:{port}"')
        )
        with pytest.raises(AssertionError) as refused, running(other):
            pass
    assert port in str(refused.value)


def test_an_address_open_to_other_machines_is_refused(home: Home) -> None:
    home.write_config(CONFIG.replace("127.0.0.1:0", "0.0.0.0:0"))
    with pytest.raises(AssertionError) as refused, running(home):
        pass
    assert "tunnel" in str(refused.value)
