"""Limits of connections on every listener: how many, how long without a token, and how long for one message."""

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moot.daemon.listen import http, tcp, unix
from moot.daemon.listen.frame_connection import Connection
from moot.daemon.principal import OWNER, Principal
from moot.daemon.requests.admission import Admission, ConnectionLimits, Stoppable
from moot.daemon.requests.exchange import Listener, Serving
from moot.daemon.requests.reply import Reply
from moot.wire import moot_pb2 as pb
from moot.wire.codec import FrameDecoder, decode_server, encode_frame
from tests.unit.daemon.listen.listener_fakes import House, Peer, peer

PING = pb.ClientMessage(request_id=7, ping=pb.Ping())
UPGRADE = (
    "GET /ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
LISTENERS: dict[str, Callable[[Serving], Awaitable[Listener]]] = {
    "tcp": lambda serving: tcp.listen(tcp.open_port("127.0.0.1:0"), serving),
    "http": lambda serving: http.listen(http.open_port("127.0.0.1:0"), serving),
    "websocket": lambda serving: http.listen(http.open_port("127.0.0.1:0"), serving),
}


@asynccontextmanager
async def opened(house: House, name: str) -> AsyncIterator[str]:
    listener = await LISTENERS[name](house.serving)
    try:
        yield listener.address
    finally:
        listener.stop_accepting()
        async with asyncio.TaskGroup() as group:
            closing = group.create_task(house.serving.close(grace=1.0))
            # Those who read nothing keep their connection until the time is up.
            await house.clock.advance(1.0)
            await closing
        await listener.close()
        await house.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the condition is in the same loop
            await asyncio.sleep(0.001)


async def connect(stack: AsyncExitStack, address: str, name: str) -> Peer:
    client = await stack.enter_async_context(peer(address=address))
    if name == "websocket":
        client.writer.write(UPGRADE.format(host=address).encode())
        async with asyncio.timeout(30):
            assert b"101" in (await client.reader.readuntil(b"\r\n\r\n"))
    return client


def scene(test: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    asyncio.run(test(*arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", LISTENERS)
def test_idle_connections_without_a_token_are_limited(name: str) -> None:
    async def test() -> None:
        house = House(ConnectionLimits(unauthenticated=8, per_address=6))
        async with AsyncExitStack() as stack, opened(house, name) as address:
            clients = [await connect(stack, address, name) for _ in range(20)]
            await until(lambda: house.admission.rejected.total() == 14)
            assert house.admission.unauthenticated == 6
            for oldest in clients[:14]:
                with suppress(ConnectionError):
                    assert await oldest.ended()
        assert house.admission.network == 0

    scene(test)


@pytest.mark.parametrize("name", LISTENERS)
def test_a_connection_without_a_token_is_closed_after_a_while_whatever_it_sends(name: str) -> None:
    async def test() -> None:
        house = House()
        async with AsyncExitStack() as stack, opened(house, name) as address:
            client = await connect(stack, address, name)
            await until(lambda: house.admission.unauthenticated == 1)
            ended = asyncio.ensure_future(client.reader.read())
            trickle = b"GET /api HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            for byte in trickle if name == "http" else b"\0\0\0\x50aaaaaaaaaaaaaaaaaaaa" if name == "tcp" else b"":
                client.writer.write(bytes([byte]))
                await house.clock.advance(1.0)
                await house.admission.expire()
            while not ended.done():
                await house.clock.advance(1.0)
                await house.admission.expire()
            with suppress(ConnectionError):
                await ended
            assert house.clock.monotonic() - 10_000.0 < 120

    scene(test)


def test_the_rest_of_a_frame_of_a_known_client_must_follow() -> None:
    async def test() -> None:
        house = House()
        async with opened(house, "tcp") as address, peer(address=address) as client:
            await client.ask(pb.ClientMessage(hello=pb.Hello(version=1, token=house.bot.secret)))
            client.writer.write(encode_frame(PING) + b"\0\0\0\x50begun")
            assert (await client.receive()).HasField("pong")
            for _ in range(61):
                client.writer.write(b"x")
                await house.clock.advance(1.0)
            assert "60 seconds" in (await client.receive()).error.message

    scene(test)


def post(address: str, token: str, *headers: str) -> bytes:
    lines = ["POST /api HTTP/1.1", f"Host: {address}", "Content-Type: application/json", *headers]
    lines += [f"Authorization: Bearer {token}"] if token else []
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def status(client: Peer) -> int:
    async with asyncio.timeout(30):
        return int((await client.reader.readline()).split()[1])


def test_the_body_of_a_known_client_must_follow() -> None:
    async def test() -> None:
        house = House()
        async with opened(house, "http") as address, peer(address=address) as client:
            client.writer.write(post(address, house.bot.secret, "Content-Length: 1000") + b'{"ping"')
            await until(lambda: (house.admission.network, house.admission.unauthenticated) == (1, 0))
            for _ in range(61):
                client.writer.write(b" ")
                await house.clock.advance(1.0)
            assert await status(client) == 408

    scene(test)


@pytest.mark.parametrize(
    ("with_token", "headers", "expected"),
    [
        (False, ["Content-Encoding: gzip", "Transfer-Encoding: chunked"], 401),
        (False, ["Content-Length: 99999999"], 401),
        (False, ["Expect: 100-continue", "Content-Length: 10"], 401),
        (True, ["Content-Encoding: gzip", "Transfer-Encoding: chunked"], 415),
        (True, ["Content-Encoding: deflate", "Content-Length: 10"], 415),
        (True, ["Content-Encoding: identity", "Content-Length: 99999999"], 413),
        (True, ["Expect: 100-continue", "Content-Length: 10"], 100),
    ],
)
@pytest.mark.parametrize("path", ["/api", "/v1/chat/completions"])
def test_a_body_is_judged_by_its_headers(path: str, with_token: bool, headers: list[str], expected: int) -> None:
    async def test() -> None:
        house = House()
        async with opened(house, "http") as address, peer(address=address) as client:
            # Not a byte of the body is sent.
            request = post(address, house.bot.secret if with_token else "", *headers)
            client.writer.write(request.replace(b"/api", path.encode()))
            assert await status(client) == expected

    scene(test)


def test_a_chunked_body_is_limited_while_it_is_read_and_never_decompressed() -> None:
    async def test() -> None:
        house = House()
        async with opened(house, "http") as address:
            async with peer(address=address) as client:
                client.writer.write(post(address, house.bot.secret, "Transfer-Encoding: chunked"))
                with suppress(ConnectionError):
                    for _ in range(40):
                        client.writer.write(b"80000\r\n" + b" " * 0x80000 + b"\r\n")
                        await client.writer.drain()
                assert await status(client) == 413
            async with peer(address=address) as client:
                bomb = gzip.compress(b" " * 5_000_000)
                head = post(address, house.bot.secret, "Content-Encoding: gzip", f"Content-Length: {len(bomb)}")
                client.writer.write(head + bomb)
                assert await status(client) == 415

    scene(test)


def test_a_token_has_a_limited_number_of_connections_and_a_closed_one_makes_room() -> None:
    async def test() -> None:
        house = House(ConnectionLimits(per_principal=2))
        hello = pb.ClientMessage(hello=pb.Hello(version=1, token=house.bot.secret))
        async with AsyncExitStack() as stack, opened(house, "tcp") as address:
            first, second, third = [await connect(stack, address, "tcp") for _ in range(3)]
            assert (await first.ask(hello)).HasField("welcome")
            assert (await second.ask(hello)).HasField("welcome")
            assert (await second.ask(hello)).HasField("welcome")
            assert (await third.ask(hello)).error.code == 429
            await first.close()
            await until(lambda: house.admission.network == 2)
            assert (await third.ask(hello)).HasField("welcome")

    scene(test)


def test_a_token_has_a_limited_number_of_requests_in_flight() -> None:
    async def test() -> None:
        house = House(ConnectionLimits(requests=2))

        async def never(*_arguments: object) -> None:
            await asyncio.Event().wait()

        house.handlers.on["kill"] = never
        kill = pb.ClientMessage(request_id=1, kill=pb.KillMsg(agent="a"))
        async with opened(house, "tcp") as address, peer(address=address) as one, peer(address=address) as two:
            for client in (one, two):
                await client.ask(pb.ClientMessage(hello=pb.Hello(version=1, token=house.bot.secret)))
                client.send(kill)
                await client.ask(PING)
            assert (await two.ask(kill)).error.code == 429
            # A client that leaves takes its requests along.
            await one.close()
            await until(lambda: house.admission.network == 1)

    scene(test)


def test_the_owner_is_told_when_the_socket_has_too_many_connections(tmp_path: Path) -> None:
    async def test() -> None:
        house = House(ConnectionLimits(owner=2))
        listener = await unix.listen(unix.open_socket(tmp_path / "run" / "moot.sock"), house.serving)
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(peer(path=listener.address)) for _ in range(3)]
            for client in clients[:2]:
                assert (await client.ask(PING)).HasField("pong")
            refused = await clients[2].receive()
            assert (refused.error.code, "overloaded" in refused.error.message) == (429, True)
            await clients[0].close()
            await until(lambda: house.admission.owners == 1)
            again = await stack.enter_async_context(peer(path=listener.address))
            assert (await again.ask(PING)).HasField("pong")
        await listener.close()
        await house.close()

    scene(test)


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_reading_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False


def test_frames_that_arrive_together_are_taken_in_parts_so_that_others_get_their_turn() -> None:
    async def test() -> None:
        house = House()
        wire, connection = Wire(), Connection(house.serving, principal=OWNER, name="unix")
        connection.connection_made(wire)
        connection.data_received(encode_frame(PING) * 1000)
        parts = []
        decoder = FrameDecoder()
        answered = 0
        was_paused = wire.is_reading_paused
        while answered < 1000:
            await asyncio.sleep(0)
            decoder.feed(wire.written)
            wire.written = b""
            part = 0
            while (payload := decoder.take()) is not None:
                assert decode_server(payload).HasField("pong")
                part += 1
            parts.append(part)
            answered += part
        assert max(parts) <= 64
        assert (was_paused, wire.is_reading_paused) == (True, False)
        connection.connection_lost(None)
        await house.close()

    scene(test)


@pytest.mark.parametrize("name", LISTENERS)
def test_a_token_that_does_not_read_fills_no_more_memory_with_many_connections(name: str) -> None:
    """Each connection alone is below the limit of a connection."""

    async def test() -> None:
        # The system itself holds some megabytes of each connection.
        house = House(ConnectionLimits(unread=16 * 1024 * 1024))
        reply = pb.SendResponse(agent="ada", content="x" * 12 * 1024 * 1024)
        house.answer("get_history", pb.ServerMessage(response=reply))
        headers = f"Host: {{host}}\r\nAuthorization: Bearer {house.bot.secret}\r\n"
        body = b'{"get_history":{"agent":"ada"}}'
        async with AsyncExitStack() as stack, opened(house, name) as address:
            for _ in range(5):
                client = await stack.enter_async_context(peer(address=address))
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is a socket
                stack.callback(client.writer.transport.abort)
                if name == "tcp":
                    client.send(pb.ClientMessage(hello=pb.Hello(version=1, token=house.bot.secret)))
                    client.send(pb.ClientMessage(get_history=pb.GetHistoryMsg(agent="ada")))
                elif name == "websocket":
                    request = UPGRADE.replace("Host: {host}\r\n", headers).format(host=address)
                    frame = bytes([0x81, 0x80 | len(body)]) + bytes(4) + body
                    client.writer.write(request.encode() + frame)
                else:
                    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                    request = f"POST /api HTTP/1.1\r\n{headers}{length}".format(host=address)
                    client.writer.write(request.encode() + body)
            await until(lambda: len(house.handlers.asked) == 5)
            await house.clock.advance(1.0)
            await until(lambda: any("not read" in reason for reason in house.admission.rejected))

    scene(test)


def test_what_the_owner_and_other_tokens_have_not_read_does_not_count() -> None:
    admission = Admission(House().clock, ConnectionLimits(unread=10))
    bot, other = (OWNER.__class__(name=name, default_sender=name) for name in ("bot", "other"))
    first, second, third = Gone(), Gone(), Gone()
    for each, principal, unread in ((first, bot, 6), (second, other, 8), (third, bot, 4)):
        assert admission.open(each, "a", partial(int, unread))
        admission.authenticate(each, principal)
    assert all(admission.has_unread_room(each) for each in (first, second, third, Gone()))
    fourth = Gone()
    admission.open(fourth, "a", lambda: 1)
    admission.authenticate(fourth, bot)
    assert [admission.has_unread_room(each) for each in (first, second, fourth)] == [False, True, False]
    admission.close(third)
    assert admission.has_unread_room(first)


class Gone:
    def __init__(self) -> None:
        self.is_aborted = False

    def stop(self) -> None:
        return

    def abort(self) -> None:
        self.is_aborted = True


def test_rejections_are_counted_and_logged_at_most_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        house = House()
        admission = Admission(house.clock, ConnectionLimits(unauthenticated=1))
        with caplog.at_level(logging.WARNING, "moot.daemon.requests.admission"):
            for _ in range(50):
                assert admission.open(Gone(), "127.0.0.1")
            await house.clock.advance(61)
            admission.open(Gone(), "127.0.0.1")
        assert admission.rejected.total() == 50
        assert [record.getMessage().split(":")[0] for record in caplog.records] == [
            "rejected 1 connections",
            "rejected 49 connections",
        ]

    scene(test)


def test_when_the_network_is_full_newcomers_go_first_and_known_clients_stay() -> None:
    house = House()
    admission = Admission(house.clock, ConnectionLimits(network=3, unauthenticated=2))
    known: list[Stoppable] = [Gone(), Gone()]
    bot = OWNER.__class__(name="bot", default_sender="bot")
    for each in known:
        assert admission.open(each, "a")
        admission.authenticate(each, bot)
    first, second, third = Gone(), Gone(), Gone()
    assert admission.open(first, "a")
    assert admission.open(second, "b")
    assert first.is_aborted
    admission.authenticate(second, bot)
    assert not admission.open(third, "c")
    assert admission.network == 3
    admission.close(known[0])
    assert admission.open(third, "c")


@pytest.mark.parametrize("descriptors", [64, 256, 1024, 4096, 1_048_576])
def test_the_limits_leave_descriptors_to_the_owner(descriptors: int) -> None:
    limits = ConnectionLimits.from_descriptors(descriptors)
    assert limits.network + limits.owner <= max(descriptors * 3 // 4, 32)
    assert 0 < limits.per_address < limits.unauthenticated <= limits.network // 2
    assert 0 < limits.per_principal < limits.network


async def test_a_token_has_few_large_answers_prepared_at_a_time_and_none_for_a_client_that_is_gone() -> None:
    house = House(ConnectionLimits(large_reads=2))
    begun, release = 0, asyncio.Event()

    async def prepare(_message: pb.ClientMessage, _principal: Principal, reply: Reply) -> None:
        nonlocal begun
        begun += 1
        await release.wait()
        reply.send(pb.ServerMessage(history=pb.History(title="large")))

    house.handlers.on["get_history"] = prepare
    house.answer("list_agents", pb.ServerMessage(agent_list=pb.AgentList()))
    async with opened(house, "tcp") as address, AsyncExitStack() as stack:
        clients = [await connect(stack, address, "tcp") for _ in range(3)]
        for client in clients:
            await client.ask(pb.ClientMessage(hello=pb.Hello(version=1, token=house.bot.secret)))
            client.send(pb.ClientMessage(request_id=1, get_history=pb.GetHistoryMsg(agent="ada")))
            # Small requests do not wait behind large ones.
            assert (await client.ask(pb.ClientMessage(request_id=2, list_agents=pb.ListAgentsMsg()))).request_id == 2
        assert begun == 2
        await clients[2].close()
        await until(lambda: house.admission.network == 2)
        release.set()
        assert [(await client.receive()).history.title for client in clients[:2]] == ["large", "large"]
        await clients[0].ask(pb.ClientMessage(request_id=3, get_history=pb.GetHistoryMsg(agent="ada")))
        assert begun == 3
