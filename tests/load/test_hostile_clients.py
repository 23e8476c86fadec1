"""Clients that send rubbish or come and go by the thousand do not disturb those who talk."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from moot.client.connection import connect
from moot.wire import moot_pb2 as pb
from moot.wire.codec import encode_frame
from tests.chaos.daemon import Mortal
from tests.load.crowd import REPLY, WORDS, launch
from tests.load.test_crowd import settled, stats, warm_up

TALKERS = 10


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Mortal]:
    daemon = launch(tmp_path / "home")
    yield daemon
    daemon.stop()
    assert daemon.home.failures() == []


def rubbish(rng: Random) -> bytes:
    """Bytes no client should send: noise, lengths that lie, frames cut short, messages that say nothing."""
    good = encode_frame(pb.ClientMessage(request_id=1, stream=pb.StreamMsg(agent="ada", content="hello")))
    match rng.randrange(7):
        case 0:
            return rng.randbytes(rng.randint(1, 4_000))
        case 1:
            return (0xFFFFFFFF).to_bytes(4, "big") + rng.randbytes(64)
        case 2:
            return good[: rng.randint(1, len(good) - 1)]
        case 3:
            return (0).to_bytes(4, "big") * rng.randint(1, 50)
        case 4:
            noise = rng.randbytes(rng.randint(1, 200))
            return len(noise).to_bytes(4, "big") + noise
        case 5:
            mangled = bytearray(good)
            mangled[rng.randrange(4, len(good))] ^= 1 << rng.randrange(8)
            return bytes(mangled)
        case _:
            nul = pb.ClientMessage(request_id=2, stream=pb.StreamMsg(agent="a\0b", content="\0", sender="\0"))
            return encode_frame(nul) * 3


async def storm(path: Path, seed: int, over: asyncio.Event) -> int:
    """Connect, send rubbish, leave: politely, abruptly, or after reading what was said."""
    rng = Random(seed)
    sent = 0
    while not over.is_set():
        reader, writer = await asyncio.open_unix_connection(str(path))
        try:
            for _ in range(rng.randint(1, 4)):
                writer.write(rubbish(rng))
            await writer.drain()
            sent += 1
            if rng.random() < 0.5:
                writer.write_eof()
                async with asyncio.timeout(0.05):
                    await reader.read(65_536)
        except (OSError, TimeoutError):
            continue
        finally:
            if rng.random() < 0.3:
                writer.transport.abort()
            else:
                writer.close()
    return sent


async def test_a_storm_of_garbage_does_not_disturb_those_who_talk(daemon: Mortal) -> None:
    over = asyncio.Event()
    async with daemon.client() as talk:
        await warm_up(talk)
        files = daemon.files()
        async with asyncio.TaskGroup() as group:
            storms = [group.create_task(storm(daemon.home.socket, seed, over)) for seed in range(8)]
            speeches = [talk.start("ada", "recite", f"talker {number}") for number in range(TALKERS)]
            for speech in speeches:
                await speech.end()
            over.set()
        assert sum(task.result() for task in storms) > 50
        for speech in speeches:
            assert (speech.outcome, len(speech.of("chunk")), speech.text) == ("completed", WORDS, REPLY)
        await settled(daemon, talk)
        assert daemon.files() <= files + 1
        senders = {info.sender for info in await talk.conversations()}
        assert senders <= {"user", *(f"talker {number}" for number in range(TALKERS))}


async def test_a_thousand_connections_come_and_go_and_leave_nothing_behind(daemon: Mortal) -> None:
    async with daemon.client() as talk:
        await warm_up(talk)
        tasks, files = daemon.tasks(), daemon.files()
        before = (await stats(talk)).rss_bytes
        for _ in range(10):
            async with asyncio.TaskGroup() as group:
                for _ in range(100):
                    group.create_task(_visit(daemon.home.socket))
        after = await settled(daemon, talk)
        assert daemon.tasks() <= tasks
        assert daemon.files() <= files
        assert after.rss_bytes - before < 24 * 1024 * 1024


async def _visit(path: Path) -> None:
    async with connect(path) as connection:
        answer = await connection.request(pb.ClientMessage(ping=pb.Ping()))
        assert answer.HasField("pong")


async def test_a_client_that_leaves_in_the_middle_leaves_its_run_going(daemon: Mortal) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as leaving:
        leaving.connect(os.fspath(daemon.home.socket))
        stream = pb.StreamMsg(agent="ada", content="recite", sender="gone")
        leaving.sendall(encode_frame(pb.ClientMessage(request_id=1, stream=stream)))
        assert leaving.recv(4)
    async with daemon.client() as talk:
        speech = talk.attach("ada", "gone")
        await speech.end()
        assert (speech.outcome, speech.text) == ("completed", REPLY)
