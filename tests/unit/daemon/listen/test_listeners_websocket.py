"""The WebSocket: the same requests and answers as JSON."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from moot.daemon.listen import http
from moot.daemon.listen.http_connection import HttpConnection
from moot.daemon.listen.websocket_frames import MOST_CONTROLS, MOST_FRAGMENTS, FrameScanner
from moot.daemon.principal import Principal
from moot.daemon.requests.exchange import REVOKED_GRACE_SECONDS
from moot.daemon.requests.reply import Reply
from moot.domain.events import RunStarted, TextChunk
from moot.wire import moot_pb2 as pb
from tests.unit.daemon.listen.listener_fakes import House
from tests.unit.events import event as event_of

WebSocket = aiohttp.ClientWebSocketResponse


@asynccontextmanager
async def opened(house: House, *, token: str = "", headers: dict[str, str] | None = None) -> AsyncIterator[WebSocket]:
    listener = await http.listen(http.open_port("127.0.0.1:0"), house.serving)
    shown = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"http://{listener.address}/ws", headers={**shown, **(headers or {})}) as websocket,
        ):
            yield websocket
    finally:
        await listener.close()
        await house.close()


async def ask(websocket: WebSocket, message: dict[str, Any] | str) -> dict[str, Any]:
    await websocket.send_str(message if isinstance(message, str) else json.dumps(message))
    return await receive(websocket)


async def receive(websocket: WebSocket) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(await websocket.receive_str(timeout=30))
    return document


def test_a_token_in_the_header_is_enough() -> None:
    async def scene() -> None:
        house = House()
        house.answer("kill", pb.ServerMessage(pong=pb.Pong()))
        async with opened(house, token=house.bot.secret) as websocket:
            answer = await ask(websocket, {"request_id": 5, "kill": {"agent": "crab"}})
            assert answer == {"request_id": "5", "pong": {}}
            assert house.handlers.asked[0][1].name == "bot"

    asyncio.run(scene())


def test_a_token_in_hello_is_enough_and_nothing_passes_before_it() -> None:
    async def scene() -> None:
        house = House()
        house.answer("kill", pb.ServerMessage(pong=pb.Pong()))
        async with opened(house) as websocket:
            assert (await ask(websocket, {"ping": {}})) == {"pong": {}}
            refused = await ask(websocket, {"request_id": 5, "kill": {"agent": "crab"}})
            assert (refused["request_id"], refused["error"]["code"]) == ("5", 401)
            wrong = await ask(websocket, {"hello": {"version": 1, "token": "moot_wrong"}})
            assert wrong["error"]["code"] == 401

            await websocket.send_str(json.dumps({"hello": {"version": 1, "token": house.bot.secret}}))
            await websocket.send_str(json.dumps({"request_id": 6, "kill": {"agent": "crab"}}))
            assert (await receive(websocket))["welcome"]["principal"] == "bot"
            assert await receive(websocket) == {"request_id": "6", "pong": {}}

    asyncio.run(scene())


def test_a_stream_comes_as_json_with_its_request_id() -> None:
    async def stream(message: pb.ClientMessage, _principal: Principal, reply: Reply) -> None:
        reply.event(event_of(RunStarted("crab", 3)))
        reply.event(event_of(TextChunk(message.stream.content)))
        reply.notify(event_of(TextChunk("to a subscriber")))

    async def scene() -> None:
        house = House()
        house.handlers.on["stream"] = stream
        async with opened(house, token=house.bot.secret) as websocket:
            first = await ask(websocket, {"request_id": "8", "stream": {"agent": "crab", "content": "é\u2028"}})
            assert first == {
                "request_id": "8",
                "stream": {"start": {"agent": "crab", "user_seq": "3", "run_id": "run-1"}},
            }
            assert await receive(websocket) == {"request_id": "8", "stream": {"chunk": {"content": "é\u2028"}}}
            assert (await receive(websocket))["agent_event"]["content"] == "to a subscriber"

    asyncio.run(scene())


@pytest.mark.parametrize(
    "text",
    ["", "5", "{", '{"nope": {}}', "{}", '{"send": {"content": "\\ud800"}}', '{"send": {"content": "a\\u0000"}}'],
)
def test_a_frame_that_is_no_request_gets_400_and_the_next_is_heard(text: str) -> None:
    async def scene() -> None:
        house = House()
        async with opened(house, token=house.bot.secret) as websocket:
            answer = await ask(websocket, text)
            assert answer["error"]["code"] == 400
            assert answer["error"]["fix"]
            assert await ask(websocket, {"ping": {}}) == {"pong": {}}
            assert house.handlers.asked == []

    asyncio.run(scene())


def test_a_binary_frame_gets_400() -> None:
    async def scene() -> None:
        house = House()
        async with opened(house, token=house.bot.secret) as websocket:
            await websocket.send_bytes(b"\0\0\0\0")
            assert (await receive(websocket))["error"]["code"] == 400

    asyncio.run(scene())


def test_a_frame_over_the_limit_gets_413_and_the_next_is_heard() -> None:
    async def scene() -> None:
        house = House()
        async with opened(house, token=house.bot.secret) as websocket:
            assert (await ask(websocket, "x" * (16 * 1024 * 1024 + 1)))["error"]["code"] == 413
            assert await ask(websocket, {"ping": {}}) == {"pong": {}}

    asyncio.run(scene())


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ],
)
def test_a_foreign_page_cannot_open_it(headers: dict[str, str]) -> None:
    async def scene() -> None:
        house = House()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with opened(house, token=house.bot.secret, headers=headers):
                pass
        assert refused.value.status == 403

    asyncio.run(scene())


def test_a_revoked_token_closes_it_with_a_reason() -> None:
    async def scene() -> None:
        house = House()
        async with opened(house, token=house.bot.secret) as websocket:
            await ask(websocket, {"ping": {}})
            house.principals.invalidate("bot")
            assert (await receive(websocket))["error"]["code"] == 401
            assert (await websocket.receive(timeout=30)).type is aiohttp.WSMsgType.CLOSE

    asyncio.run(scene())


def test_a_revoked_token_is_deaf_and_cut_off_even_if_nothing_is_read() -> None:
    async def scene() -> None:
        house = House()
        house.answer("export", pb.ServerMessage(exported=pb.Exported(jsonl="x" * 8_000_000)))
        house.answer("kill", pb.ServerMessage(pong=pb.Pong()))
        async with opened(house, token=house.bot.secret) as websocket:
            transport = websocket._response.connection.transport  # type: ignore[union-attr]
            transport.pause_reading()  # type: ignore[union-attr]
            await websocket.send_str('{"export": {"agent": "crab"}}')
            async with asyncio.timeout(30):
                while not house.handlers.asked:  # noqa: ASYNC110  (the fake has no event)
                    await asyncio.sleep(0)
            house.principals.invalidate("bot")
            await websocket.send_str('{"kill": {"agent": "crab"}}')
            await house.clock.advance(REVOKED_GRACE_SECONDS + 5)
            async with asyncio.timeout(30):
                await house.serving.connections.wait_until_none()
            assert len(house.handlers.asked) == 1
            transport.resume_reading()  # type: ignore[union-attr]

    asyncio.run(scene())


def test_before_hello_a_large_message_is_refused_whole_or_unfinished() -> None:
    async def scene() -> None:
        house = House()
        async with opened(house) as websocket:
            assert (await ask(websocket, "x" * (64 * 1024 + 1)))["error"]["code"] == 413
            await websocket.send_frame(b"x" * 1_000_000, aiohttp.WSMsgType.TEXT)
            received = asyncio.ensure_future(receive(websocket))
            while not received.done():
                # The time for a Hello before it passes.
                await house.clock.advance(0.1)
            assert (await received)["error"]["code"] == 413
            assert (await websocket.receive(timeout=30)).type is aiohttp.WSMsgType.CLOSE

    asyncio.run(scene())


def test_a_large_message_right_behind_hello_is_heard() -> None:
    async def scene() -> None:
        house = House()
        house.answer("send", pb.ServerMessage(pong=pb.Pong()))
        async with opened(house) as websocket:
            await websocket.send_str(json.dumps({"hello": {"version": 1, "token": house.bot.secret}}))
            await websocket.send_str(json.dumps({"send": {"agent": "crab", "content": "x" * 3_000_000}}))
            assert "welcome" in await receive(websocket)
            assert await receive(websocket) == {"pong": {}}

    asyncio.run(scene())


def test_leaving_ends_the_stream_and_not_the_work() -> None:
    async def scene() -> None:
        left = asyncio.Event()

        async def stream(_message: pb.ClientMessage, _principal: Principal, reply: Reply) -> None:
            reply.event(event_of(TextChunk("one")))
            await reply.closed.wait()
            left.set()

        house = House()
        house.handlers.on["stream"] = stream
        async with opened(house, token=house.bot.secret) as websocket:
            await ask(websocket, {"stream": {"agent": "crab", "content": "hi"}})
            await websocket.close()
            async with asyncio.timeout(30):
                await left.wait()

    asyncio.run(scene())


def text_frame(opcode: int, payload: bytes) -> bytes:
    """A masked frame of a client, with a mask of zeros."""
    return bytes((opcode, 0x80 | len(payload))) + bytes(4) + payload


_BEGUN = {
    "a fragment": text_frame(0x01, b"{"),
    "fragments with a ping between them": text_frame(0x01, b"{") + text_frame(0x89, b"") + text_frame(0x00, b'"ping'),
    "a frame": text_frame(0x81, b'{"ping": {}}')[:-1],
    "a header": b"\x81",
    "a control frame": text_frame(0x8A, b"pong")[:-1],
}


@pytest.mark.parametrize("begun", _BEGUN.values(), ids=list(_BEGUN))
@pytest.mark.parametrize("is_early", [True, False], ids=["with the request", "later"])
def test_the_rest_of_a_message_of_a_known_client_must_follow_however_small_it_is(begun: bytes, is_early: bool) -> None:
    async def scene() -> None:
        house = House()
        listener = await http.listen(http.open_port("127.0.0.1:0"), house.serving)
        try:
            reader, writer = await asyncio.open_connection(*listener.address.split(":"))
            head = f"GET /ws HTTP/1.1\r\nHost: {listener.address}\r\nAuthorization: Bearer {house.bot.secret}\r\n"
            head += "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            head += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            writer.write(head.encode() + (begun if is_early else b""))
            async with asyncio.timeout(30):
                await reader.readuntil(b"\r\n\r\n")
                if not is_early:
                    writer.write(begun)
                answer = asyncio.create_task(reader.readuntil(b"within 60 seconds"))
                while not answer.done():
                    await house.clock.advance(61)
                assert b"did not arrive" in await answer
            writer.close()
        finally:
            await listener.close()
            await house.close()

    asyncio.run(scene())


def test_a_client_that_answers_heartbeats_for_days_stays_connected() -> None:
    async def scene() -> None:
        house = House()
        async with opened(house, token=house.bot.secret) as websocket:
            for _ in range(40):
                for _ in range(300):
                    await websocket.pong(b"")
                await websocket.ping(b"x" * 100)
                # They do not come all at once.
                assert "pong" in await ask(websocket, {"ping": {}})
            assert await ask(websocket, {"ping": {}}) == {"pong": {}}
            await house.clock.advance(61)
            assert await ask(websocket, {"ping": {}}) == {"pong": {}}

    asyncio.run(scene())


@pytest.mark.parametrize(
    "flood",
    [
        text_frame(0x01, b"{") + text_frame(0x00, b"x") * (MOST_FRAGMENTS + 1),
        text_frame(0x01, b"{") + text_frame(0x00, b"") * (MOST_FRAGMENTS + 1),
    ],
    ids=["fragments of one byte", "empty fragments"],
)
def test_a_client_that_sends_very_many_small_frames_is_disconnected(flood: bytes) -> None:
    async def scene() -> None:
        house = House()
        listener = await http.listen(http.open_port("127.0.0.1:0"), house.serving)
        try:
            reader, writer = await asyncio.open_connection(*listener.address.split(":"))
            head = f"GET /ws HTTP/1.1\r\nHost: {listener.address}\r\nAuthorization: Bearer {house.bot.secret}\r\n"
            head += "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            head += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            writer.write(head.encode())
            async with asyncio.timeout(30):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(flood)
                with suppress(ConnectionError):
                    await reader.read()
            assert house.serving.admission.rejected["too many small frames on a WebSocket"] == 1
            writer.close()
        finally:
            await listener.close()
            await house.close()

    asyncio.run(scene())


def test_fragments_of_messages_that_were_completed_do_not_count_and_control_frames_that_come_at_once_do() -> None:
    scanner = FrameScanner()
    for _ in range(3):
        scanner.feed(text_frame(0x01, b"{") + text_frame(0x00, b"x") * (MOST_FRAGMENTS - 2) + text_frame(0x80, b"}"))
        assert scanner.is_complete
        assert not scanner.is_flooded
    scanner.feed(text_frame(0x89, b"") * (MOST_CONTROLS + 1))
    assert scanner.is_flooded


def test_little_is_read_at_once_however_much_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    receive = HttpConnection.data_received

    def count(connection: HttpConnection, data: bytes) -> None:
        sizes.append(len(data))
        receive(connection, data)

    monkeypatch.setattr(HttpConnection, "data_received", count)

    async def scene() -> None:
        house = House()
        listener = await http.listen(http.open_port("127.0.0.1:0"), house.serving)
        try:
            reader, writer = await asyncio.open_connection(*listener.address.split(":"))
            head = f"POST /api HTTP/1.1\r\nHost: {listener.address}\r\nAuthorization: Bearer {house.bot.secret}\r\n"
            head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(head.encode() + b"1\r\n \r\n" * 200_000 + b"0\r\n\r\n")
            async with asyncio.timeout(30):
                assert b"HTTP/1.1 400" in await reader.readline()
            writer.close()
        finally:
            await listener.close()
            await house.close()

    asyncio.run(scene())
    assert sum(sizes) > 1_000_000
    assert max(sizes) <= 128 * 1024
