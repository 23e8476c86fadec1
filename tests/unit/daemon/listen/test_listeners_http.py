"""HTTP: who may ask, what a bad request is told, and that the OpenAPI document is true."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from moot.daemon.listen import http, web_app
from moot.daemon.listen.openapi import document
from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.domain.errors import Busy, NotFound, StoreError
from moot.domain.events import TextChunk
from moot.wire import moot_pb2 as pb
from tests.unit.daemon.listen.listener_fakes import House
from tests.unit.events import event as event_of

PROTECTED = [
    ("GET", "/v1/models"),
    ("GET", "/v1/models/crab"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/api"),
    ("GET", "/nothing"),
]


class Web:
    """A client of one listener."""

    def __init__(self, client: aiohttp.ClientSession, address: str, house: House) -> None:
        self._client = client
        self.address = address
        self.port = int(address.rpartition(":")[2])
        self.house = house
        self.token = {"Authorization": f"Bearer {house.bot.secret}"}

    async def __call__(self, method: str, path: str, **options: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
        async with self._client.request(method, f"http://{self.address}{path}", **options) as response:
            return response.status, json.loads(await response.read()), dict(response.headers)


@asynccontextmanager
async def opened() -> AsyncIterator[Web]:
    house = House()
    listener = await http.listen(http.open_port("127.0.0.1:0"), house.serving)
    try:
        async with aiohttp.ClientSession() as client:
            yield Web(client, listener.address, house)
    finally:
        await listener.close()
        await house.close()


def test_health_and_the_document_need_no_token() -> None:
    async def scene() -> None:
        async with opened() as web:
            assert (await web("GET", "/healthz"))[:2] == (200, {"ok": True})
            assert (await web("GET", "/openapi.json"))[:2] == (200, document())

    asyncio.run(scene())


@pytest.mark.parametrize(("method", "path"), PROTECTED)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer moot_wrong"},
        {"Authorization": "Basic bW9vdDptb290"},
        {"Authorization": "Bearer "},
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1", "X-Real-IP": "127.0.0.1"},
    ],
    ids=["none", "wrong", "basic", "blank", "forwarded", "real ip"],
)
def test_everything_else_wants_a_good_token_first(method: str, path: str, headers: dict[str, str]) -> None:
    async def scene() -> None:
        async with opened() as web:
            status, body, answered = await web(method, path, headers=headers)
            assert status == 401
            assert body["error"]["message"]
            assert answered["WWW-Authenticate"] == "Bearer"
            assert web.house.handlers.asked == []

    asyncio.run(scene())


@pytest.mark.parametrize("name", ["token", "access_token", "key"])
def test_a_token_in_the_address_is_no_token(name: str) -> None:
    async def scene() -> None:
        async with opened() as web:
            assert (await web("GET", f"/v1/models?{name}={web.house.bot.secret}"))[0] == 401

    asyncio.run(scene())


def test_wrong_tokens_are_soon_answered_with_429() -> None:
    async def scene() -> None:
        async with opened() as web:
            statuses = [
                (await web("GET", "/v1/models", headers={"Authorization": f"Bearer moot_{guess}"}))[0]
                for guess in range(15)
            ]
            assert statuses == [401] * 10 + [429] * 5

    asyncio.run(scene())


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1", "localhost.evil:{port}", "127.0.0.1:1", ""])
@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/ws"])
def test_only_our_own_names_are_answered(host: str, path: str) -> None:
    async def scene() -> None:
        async with opened() as web:
            headers = {**web.token, "Host": host.format(port=web.port)}
            assert (await web("GET", path, headers=headers))[0] == 403

    asyncio.run(scene())


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "LOCALHOST:{port}"])
def test_our_own_names_are_answered(host: str) -> None:
    async def scene() -> None:
        async with opened() as web:
            assert (await web("GET", "/healthz", headers={"Host": host.format(port=web.port)}))[0] == 200

    asyncio.run(scene())


def test_an_address_that_was_configured_is_answered() -> None:
    async def scene() -> None:
        house = House()
        listener = await http.listen(http.open_port("127.0.0.2:0"), house.serving)
        async with aiohttp.ClientSession() as client, client.get(f"http://{listener.address}/healthz") as response:
            assert response.status == 200
        await listener.close()
        await house.close()

    asyncio.run(scene())


def test_a_token_revoked_while_the_body_is_on_its_way_does_nothing() -> None:
    async def scene() -> None:
        async with opened() as web:
            web.house.answer("kill", pb.ServerMessage(pong=pb.Pong()))
            begun = asyncio.Event()

            async def body() -> AsyncIterator[bytes]:
                yield b'{"kill": '
                async with asyncio.timeout(30):
                    while not web.house.store.touched:  # noqa: ASYNC110  (the store has no event)
                        await asyncio.sleep(0)
                web.house.principals.invalidate("bot")
                begun.set()
                yield b'{"agent": "crab"}}'

            headers = {**web.token, "Content-Type": "application/json"}
            assert (await web("POST", "/api", headers=headers, data=body()))[0] == 401
            assert begun.is_set()
            assert web.house.handlers.asked == []

    asyncio.run(scene())


def test_a_completion_of_a_revoked_token_ends() -> None:
    async def scene() -> None:
        async with opened() as web:
            ended = asyncio.Event()

            async def stream(_message: pb.ClientMessage, _principal: Principal, reply: Reply) -> None:
                reply.event(event_of(TextChunk("one")))
                await reply.closed.wait()
                ended.set()

            web.house.handlers.on["stream"] = stream
            web.house.answer("list_asks", pb.ServerMessage(ask_list=pb.AskList()))
            asked = {"model": "crab", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
            url = f"http://{web.address}/v1/chat/completions"
            async with (
                asyncio.timeout(30),
                aiohttp.ClientSession() as client,
                client.post(url, headers=web.token, json=asked) as response,
            ):
                while b"one" not in await response.content.readline():
                    pass
                web.house.principals.invalidate("bot")
                assert b"revoked" in await response.content.read()
                await ended.wait()

    asyncio.run(scene())


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost.evil:{port}"},
        {"Origin": "http://localhost:1"},
        {"Origin": "https://localhost:{port}"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://localhost:{port}", "Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/healthz", "/v1/models"])
def test_a_page_of_another_origin_is_refused(headers: dict[str, str], path: str) -> None:
    async def scene() -> None:
        async with opened() as web:
            shown = {name: value.format(port=web.port) for name, value in headers.items()}
            assert (await web("GET", path, headers={**web.token, **shown}))[0] == 403

    asyncio.run(scene())


def test_our_own_origin_and_no_origin_are_fine() -> None:
    async def scene() -> None:
        async with opened() as web:
            ours = {"Origin": f"http://localhost:{web.port}", "Sec-Fetch-Site": "same-origin"}
            assert (await web("GET", "/healthz", headers=ours))[0] == 200
            assert (await web("GET", "/healthz", headers={"Sec-Fetch-Site": "none"}))[0] == 200

    asyncio.run(scene())


def test_every_answer_carries_the_headers_that_keep_browsers_honest() -> None:
    async def scene() -> None:
        async with opened() as web:
            for path in ("/healthz", "/v1/models"):
                headers = (await web("GET", path))[2]
                assert headers["X-Content-Type-Options"] == "nosniff"
                assert headers["Cache-Control"] == "no-store"
                assert "default-src 'none'" in headers["Content-Security-Policy"]
                assert "Access-Control-Allow-Origin" not in headers
                assert "Server" not in headers

    asyncio.run(scene())


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
@pytest.mark.parametrize("path", ["/api", "/v1/chat/completions"])
def test_a_body_that_is_not_called_json_is_refused(kind: str, path: str) -> None:
    async def scene() -> None:
        async with opened() as web:
            headers = {**web.token, "Content-Type": kind}
            assert (await web("POST", path, headers=headers, data=b'{"ping": {}}'))[0] == 415

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("POST", "/healthz", 405),
        ("GET", "/api", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/..%2fetc/passwd", 404),
    ],
)
def test_what_is_not_there_is_said_so_in_json(method: str, path: str, status: int) -> None:
    async def scene() -> None:
        async with opened() as web:
            answered, body, _ = await web(method, path, headers=web.token)
            assert answered == status
            assert body["error"]["message"]

    asyncio.run(scene())


@pytest.mark.parametrize("path", ["/api", "/v1/chat/completions"])
def test_a_body_over_the_limit_gets_413(path: str) -> None:
    async def scene() -> None:
        async with opened() as web:
            headers = {**web.token, "Content-Type": "application/json"}
            status, body, _ = await web("POST", path, headers=headers, data=io.BytesIO(b" " * (16 * 1024 * 1024 + 1)))
            assert status == 413
            assert body["error"]["message"]
            assert (await web("GET", "/healthz"))[0] == 200

    asyncio.run(scene())


def test_any_request_with_one_answer_can_be_asked_over_http() -> None:
    async def scene() -> None:
        async with opened() as web:
            web.house.answer("get_stats", pb.ServerMessage(stats=pb.DaemonStats(uptime_secs=5, active_model="m")))
            asked = {"request_id": 7, "get_stats": {}}
            status, body, _ = await web("POST", "/api", headers=web.token, json=asked)
            assert (status, body) == (200, {"request_id": "7", "stats": {"uptime_secs": "5", "active_model": "m"}})
            assert web.house.handlers.asked[0][1].name == "bot"
            assert (await web("POST", "/api", headers=web.token, json={"ping": {}}))[1] == {"pong": {}}

    asyncio.run(scene())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"5",
        b"{",
        b"{}",
        b'{"stream": {}}',
        b'{"attach": {}}',
        b'{"subscribe_events": {}}',
        b'{"hello": {}}',
        b'{"send": {"content": "\\ud800"}}',
        b'{"send": {"content": "\\u0000"}}',
        b'{"nope": {}}',
    ],
)
def test_a_body_that_is_no_such_request_gets_400(body: bytes) -> None:
    async def scene() -> None:
        async with opened() as web:
            headers = {**web.token, "Content-Type": "application/json"}
            status, answer, _ = await web("POST", "/api", headers=headers, data=body)
            assert status == 400
            assert answer["error"]["fix"]
            assert web.house.handlers.asked == []

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("error", "status"),
    [(NotFound("no"), 404), (Busy("wait"), 429), (StoreError("disk"), 507), (ZeroDivisionError(), 500)],
)
def test_an_error_keeps_its_code(error: Exception, status: int) -> None:
    async def scene() -> None:
        async def fail(*_: object) -> None:
            raise error

        async with opened() as web:
            web.house.handlers.on["get_stats"] = fail
            answered, body, _ = await web("POST", "/api", headers=web.token, json={"get_stats": {}})
            assert answered == status
            assert body["error"]["code"] == status

    asyncio.run(scene())


def test_a_client_that_leaves_at_the_worst_moment_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    upgrade = (
        "GET /ws HTTP/1.1\r\nHost: localhost:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )

    async def scene() -> None:
        async with opened() as web:
            for text in (
                upgrade,
                "GET /healthz HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n",
                "\0" * 10,
                "POST /api HTTP",
            ):
                for _ in range(5):
                    _, writer = await asyncio.open_connection("127.0.0.1", web.port)
                    writer.write(text.format(port=web.port).encode())
                    await writer.drain()
                    writer.transport.abort()
            reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
            writer.write(b"\x81X\x1e nothing like HTTP\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.0 400")
            writer.close()
            await writer.wait_closed()
            assert (await web("GET", "/healthz"))[0] == 200

    asyncio.run(scene())
    assert [record.getMessage() for record in caplog.records] == []


def test_the_document_names_every_route_and_no_other() -> None:
    app = web_app.make_app(House().serving, port=1)
    routes = {
        (route.method.lower(), resource.canonical)
        for resource in app.router.resources()
        for route in resource
        if route.method != "HEAD"
    }

    documented = {(method, path) for path, item in document()["paths"].items() for method in item}

    assert documented == routes


def test_the_document_is_whole() -> None:
    whole = document()
    names = set(whole["components"]["schemas"])
    references = {part.split('"')[0] for part in json.dumps(whole).split("#/components/schemas/")[1:]}

    assert references == names
    for item in whole["paths"].values():
        for operation in item.values():
            assert operation["summary"]
            assert operation["responses"]
            assert operation.get("security") == [] or "401" in operation["responses"]
