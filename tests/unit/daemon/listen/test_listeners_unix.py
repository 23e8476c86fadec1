"""The owner's socket: private, one at a time, and steady whatever is sent to it."""

import asyncio
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import uvloop

from moot.daemon.listen import unix
from moot.daemon.paths import socket_address
from moot.daemon.principal import OWNER, Principal
from moot.daemon.requests.reply import Reply
from moot.domain.errors import ConfigError, Conflict, NotFound
from moot.domain.events import TextChunk
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import MAX_FRAME
from moot.wire.codec import encode_frame
from tests.unit.daemon.listen.listener_fakes import House, Peer, peer
from tests.unit.events import event as event_of

PING = pb.ClientMessage(request_id=9, ping=pb.Ping())
KILL = pb.ClientMessage(request_id=3, kill=pb.KillMsg(agent="crab"))


@asynccontextmanager
async def opened(tmp_path: Path, house: House) -> AsyncIterator[Path]:
    path = tmp_path / "run" / "moot.sock"
    listener = await unix.listen(unix.open_socket(path), house.serving)
    try:
        yield path
    finally:
        await listener.close()
        await house.close()


async def still_serves(path: Path) -> None:
    async with peer(path=str(path)) as client:
        assert (await client.ask(PING)).HasField("pong")


def test_only_the_owner_can_reach_the_socket(tmp_path: Path) -> None:
    async def scene() -> None:
        async with opened(tmp_path, House()) as path:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    asyncio.run(scene())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_is_refused_even_with_the_socket_open_to_all() -> None:
    async def scene(folder: Path) -> None:
        house = House()
        async with opened(folder, house) as path:
            path.chmod(0o666)
            path.parent.chmod(0o755)
            stranger = socket.socket(socket.AF_UNIX)
            os.seteuid(65534)
            try:
                stranger.connect(str(path))
            finally:
                os.seteuid(0)
            client = Peer(*await asyncio.open_unix_connection(sock=stranger))
            client.send(KILL)
            assert (await client.receive()).error.code == 403
            assert await client.ended()
            assert house.handlers.asked == []
            await client.close()

    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        asyncio.run(scene(Path(folder)))


def test_the_peer_is_the_owner_and_its_sender_is_user(tmp_path: Path) -> None:
    async def scene() -> None:
        house = House()
        house.answer("kill", pb.ServerMessage(pong=pb.Pong()))
        async with opened(tmp_path, house) as path, peer(path=str(path)) as client:
            answer = await client.ask(KILL)
            assert (answer.request_id, answer.WhichOneof("message")) == (3, "pong")
            assert house.handlers.asked == [(KILL, OWNER)]

            welcome = (await client.ask(pb.ClientMessage(hello=pb.Hello(version=1)))).welcome
            assert (welcome.principal, welcome.default_sender) == ("owner", "user")

    asyncio.run(scene())


def test_a_token_on_the_owners_socket_narrows_what_follows(tmp_path: Path) -> None:
    async def scene() -> None:
        house = House()
        house.answer("kill", pb.ServerMessage(pong=pb.Pong()))
        async with opened(tmp_path, house) as path, peer(path=str(path)) as client:
            hello = pb.ClientMessage(hello=pb.Hello(version=1, token=house.bot.secret))
            assert (await client.ask(hello)).welcome.principal == "bot"
            await client.ask(KILL)
            assert [principal.name for _, principal in house.handlers.asked] == ["bot"]

    asyncio.run(scene())


def test_a_path_longer_than_the_kernel_takes_is_served(tmp_path: Path) -> None:
    async def scene() -> None:
        house = House()
        deep = tmp_path / ("d" * 60) / ("e" * 60)
        async with opened(deep, house) as path:
            with socket_address(path) as address:
                reader, writer = await asyncio.open_unix_connection(address)
            client = Peer(reader, writer)
            assert (await client.ask(PING)).HasField("pong")
            await client.close()

    asyncio.run(scene())


def test_a_stale_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "run" / "moot.sock"
        path.parent.mkdir()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        house = House()
        async with opened(tmp_path, house):
            await still_serves(path)
            with pytest.raises(Conflict):
                await unix.listen(unix.open_socket(path), house.serving)
            await still_serves(path)

    asyncio.run(scene())


def test_a_file_in_the_sockets_place_is_left_alone(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "run" / "moot.sock"
        path.parent.mkdir()
        path.write_text("mine")
        with pytest.raises(ConfigError):
            await unix.listen(unix.open_socket(path), House().serving)
        assert path.read_text() == "mine"

    asyncio.run(scene())


def test_closing_removes_our_socket_and_no_other(tmp_path: Path) -> None:
    async def scene() -> None:
        house = House()
        path = tmp_path / "run" / "moot.sock"
        listener = await unix.listen(unix.open_socket(path), house.serving)
        await listener.close()
        assert not path.exists()

        listener = await unix.listen(unix.open_socket(path), house.serving)
        path.unlink()
        path.write_text("somebody else's")
        await listener.close()
        assert path.exists()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\0\0\0\x05\xff\xff\xff\xff\xff", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 413),
        (struct.pack(">I", MAX_FRAME + 1) + b"x" * 3_000_000, 413),
        (b"\0\0\0\x07\x0a\x05\x12\x03\xed\xa0\x80", 400),
    ],
    ids=["garbage", "http", "too large", "half a surrogate"],
)
def test_a_bad_frame_gets_one_error_and_the_connection_closes(tmp_path: Path, sent: bytes, code: int) -> None:
    async def scene() -> None:
        async with opened(tmp_path, House()) as path:
            async with peer(path=str(path)) as client:
                client.writer.write(sent)
                answer = await client.receive()
                assert answer.error.code == code
                assert answer.error.fix
                assert await client.ended()
            await still_serves(path)

    asyncio.run(scene())


def test_a_frame_cut_off_by_the_end_gets_one_error(tmp_path: Path) -> None:
    async def scene() -> None:
        async with opened(tmp_path, House()) as path:
            async with peer(path=str(path)) as client:
                client.writer.write(encode_frame(KILL)[:-1])
                client.writer.write_eof()
                assert (await client.receive()).error.code == 400
                assert await client.ended()
            await still_serves(path)

    asyncio.run(scene())


@pytest.mark.parametrize(
    "message",
    [
        pb.ClientMessage(request_id=5),
        pb.ClientMessage.FromString(b"\xba\x3e\x00\xc0\x0c\x05"),
        pb.ClientMessage(request_id=5, kill=pb.KillMsg(agent="a\0b")),
        pb.ClientMessage(request_id=5, hello=pb.Hello(version=99)),
    ],
    ids=["empty", "unknown", "NUL", "newer protocol"],
)
def test_a_request_that_means_nothing_gets_400_and_the_next_is_heard(tmp_path: Path, message: pb.ClientMessage) -> None:
    async def scene() -> None:
        house = House()
        async with opened(tmp_path, house) as path, peer(path=str(path)) as client:
            answer = await client.ask(message)
            assert (answer.request_id, answer.error.code) == (5, 400)
            assert answer.error.fix
            assert (await client.ask(PING)).HasField("pong")
            assert house.handlers.asked == []

    asyncio.run(scene())


def test_errors_of_a_request_answer_it_and_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def missing(_message: pb.ClientMessage, _principal: Principal, _reply: Reply) -> None:
        raise NotFound("there is no agent 'ghost'", fix="moot agents")

    async def broken(_message: pb.ClientMessage, _principal: Principal, _reply: Reply) -> None:
        raise ZeroDivisionError

    async def scene() -> None:
        house = House()
        house.handlers.on.update(kill=missing, compact=broken)
        async with opened(tmp_path, house) as path, peer(path=str(path)) as client:
            error = (await client.ask(KILL)).error
            assert (error.code, error.type, error.fix) == (404, "not_found", "moot agents")

            answer = await client.ask(pb.ClientMessage(request_id=4, compact=pb.CompactMsg()))
            assert (answer.request_id, answer.error.code, answer.error.type) == (4, 500, "internal_error")
            assert "ZeroDivisionError" in caplog.text
            assert (await client.ask(PING)).HasField("pong")

    asyncio.run(scene())


def test_a_slow_request_delays_no_other_on_its_connection(tmp_path: Path) -> None:
    async def scene() -> None:
        release = asyncio.Event()

        async def slow(_message: pb.ClientMessage, _principal: Principal, reply: Reply) -> None:
            await release.wait()
            reply.send(pb.ServerMessage(compact=pb.CompactResponse(summary="done")))

        house = House()
        house.handlers.on["compact"] = slow
        house.answer("kill", pb.ServerMessage(pong=pb.Pong()))
        async with opened(tmp_path, house) as path, peer(path=str(path)) as client:
            client.send(pb.ClientMessage(request_id=1, compact=pb.CompactMsg()))
            assert (await client.ask(KILL)).request_id == 3
            assert (await client.ask(PING)).request_id == 9
            release.set()
            assert (await client.receive()).compact.summary == "done"

    asyncio.run(scene())


def test_requests_in_flight_are_bounded_and_a_kill_still_gets_through(tmp_path: Path) -> None:
    async def scene() -> None:
        release = asyncio.Event()

        async def slow(_message: pb.ClientMessage, _principal: Principal, reply: Reply) -> None:
            await release.wait()
            reply.send(pb.ServerMessage(pong=pb.Pong()))

        house = House(in_flight=2)
        house.handlers.on["compact"] = slow
        house.answer("kill", pb.ServerMessage(pong=pb.Pong()))
        async with opened(tmp_path, house) as path, peer(path=str(path)) as client:
            for number in (1, 2, 3):
                client.send(pb.ClientMessage(request_id=number, compact=pb.CompactMsg()))
            refused = await client.receive()
            assert (refused.request_id, refused.error.code) == (3, 429)
            assert (await client.ask(KILL)).HasField("pong")
            release.set()
            assert {(await client.receive()).request_id for _ in range(2)} == {1, 2}
            assert (await client.ask(pb.ClientMessage(request_id=4, compact=pb.CompactMsg()))).HasField("pong")

    asyncio.run(scene())


def test_a_client_that_leaves_ends_its_stream_and_not_the_work(tmp_path: Path) -> None:
    async def scene() -> None:
        started, finished = asyncio.Event(), asyncio.Event()
        replies: list[Reply] = []

        async def stream(_message: pb.ClientMessage, _principal: Principal, reply: Reply) -> None:
            replies.append(reply)
            reply.event(event_of(TextChunk("one")))
            started.set()
            await reply.closed.wait()
            assert reply.event(event_of(TextChunk("two"))) is False
            reply.send(pb.ServerMessage(pong=pb.Pong()))
            finished.set()

        house = House()
        house.handlers.on["stream"] = stream
        async with opened(tmp_path, house) as path:
            async with peer(path=str(path)) as client:
                client.send(pb.ClientMessage(request_id=1, stream=pb.StreamMsg(agent="crab", content="hi")))
                assert (await client.receive()).stream.chunk.content == "one"
            async with asyncio.timeout(30):
                await finished.wait()
            called: list[str] = []
            replies[0].on_close(lambda: called.append("at once"))
            assert called == ["at once"]
            assert not house.serving.connections

    asyncio.run(scene())


def test_an_answer_too_large_for_a_frame_is_an_error_that_says_so(tmp_path: Path) -> None:
    async def scene() -> None:
        house = House()
        house.answer("export", pb.ServerMessage(exported=pb.Exported(jsonl="x" * (MAX_FRAME + 1))))
        async with opened(tmp_path, house) as path, peer(path=str(path)) as client:
            answer = await client.ask(pb.ClientMessage(request_id=6, export=pb.ExportMsg(agent="crab")))
            assert (answer.request_id, answer.error.code) == (6, 413)
            assert (await client.ask(PING)).HasField("pong")

    asyncio.run(scene())


def test_shutdown_writes_what_was_said_and_closes(tmp_path: Path) -> None:
    async def scene() -> None:
        house = House()
        house.answer("kill", *[pb.ServerMessage(pong=pb.Pong())] * 100)
        async with opened(tmp_path, house) as path, peer(path=str(path)) as client:
            client.send(KILL)
            await client.receive()
            await house.serving.close(grace=5.0)
            for _ in range(99):
                assert (await client.receive()).HasField("pong")
            assert await client.ended()

    asyncio.run(scene())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_an_event_for_a_connection_that_is_closing_is_refused_quietly(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def scene() -> None:
        replies: list[Reply] = []

        async def stream(_message: pb.ClientMessage, _principal: Principal, reply: Reply) -> None:
            replies.append(reply)
            reply.event(event_of(TextChunk("one")))
            await reply.closed.wait()

        house = House()
        house.handlers.on["stream"] = stream
        async with opened(tmp_path, house) as path:
            for ending in ("stop", "abort"):
                async with peer(path=str(path)) as other:
                    await other.ask(pb.ClientMessage(stream=pb.StreamMsg(agent="crab", content="hi")))
                    (connection,) = house.serving.connections
                    getattr(connection, ending)()
                    assert replies[-1].event(event_of(TextChunk("two"))) is False
                    replies[-1].send(pb.ServerMessage(pong=pb.Pong()))
                    assert await other.reader.read() == b""
            await still_serves(path)

    run(scene())


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    async def scene() -> None:
        (tmp_path / "run").write_text("in the way")
        with pytest.raises(ConfigError) as refused:
            await unix.listen(unix.open_socket(tmp_path / "run" / "moot.sock"), House().serving)
        assert "moot.sock" in refused.value.message
        assert refused.value.fix

    asyncio.run(scene())
