"""No address, redirect, name or answer takes the web tools where they may not go, or costs more than it may."""

import asyncio
import gzip
import json
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver
from hypothesis import given
from hypothesis import strategies as st

from moot.daemon.clock import SystemClock
from moot.domain.config import WebConfig
from moot.domain.errors import BadRequest, ConfigError, Forbidden, MootError, TooLarge, Unavailable
from moot.redaction.redactor import Redactor
from moot.tools.web import addresses
from moot.tools.web.request import Request
from moot.tools.web.safe_http import SafeHttp, parse_web_address
from moot.tools.web.web_tools import tools
from tests.configured_keys import reveal
from tests.web_server import Names, Site, context, serving

METADATA = "169.254.169.254"


async def reach(url: str, config: WebConfig | None = None, resolver: AbstractResolver | None = None) -> str:
    http = SafeHttp.for_public(
        config or WebConfig(seconds=5), **({"resolver": lambda: resolver} if resolver else {}), clock=SystemClock()
    )
    return (await http.fetch(Request(url=url))).body.decode()


async def hello(_request: web.Request) -> web.Response:
    return web.Response(text="inside")


@asynccontextmanager
async def inside() -> AsyncIterator[Site]:
    """Something private: a server on loopback that must never be asked."""
    async with serving(hello) as site:
        yield site
        assert site.requests == []


REFUSED = [
    "127.0.0.1", "127.8.9.1", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    METADATA, "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "3fff::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:8.8.8.8", "::127.0.0.1", "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::", "2001:0:7f00:1::1", "2001::1",
    "100::1", "2606:4700::5efe:7f00:1", "fe80::1%eth0", "127.0.0.1%lo", "::1%lo", "",
    "2130706433", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "127.1", "127.0.1", "010.0.0.1", "localhost",
]  # fmt: skip
ALLOWED = ["8.8.8.8", "1.1.1.1", "93.184.215.14", "172.32.0.1", "2606:4700::1111", "2a00:1450:4001::200e"]


@pytest.mark.parametrize("host", REFUSED)
def test_an_address_that_is_not_public_is_refused(host: str) -> None:
    assert not addresses.PublicOnly(ports=(80,)).allows(host, 80)


@pytest.mark.parametrize("host", ALLOWED)
def test_a_public_address_is_allowed_on_a_web_port_alone(host: str) -> None:
    rules = addresses.PublicOnly(ports=(80, 443))
    assert rules.allows(host, 443)
    assert not any(rules.allows(host, port) for port in (0, 22, 25, 6379, 11211, 8081))


@given(st.ip_addresses(v=4))
def test_no_ipv4_address_becomes_reachable_by_wrapping_it_in_ipv6(address: object) -> None:
    number = int(address)  # type: ignore[call-overload]
    rules = addresses.PublicOnly(ports=(80,))
    wrapped = [
        number,
        0xFFFF << 32 | number,
        0xFFFF << 48 | number,
        0x0064FF9B << 96 | number,
        0x0064FF9B0001 << 80 | number,
        0x2002 << 112 | number << 80 | 1,
        0x20010000 << 96 | number << 64,
        0x20010000 << 96 | (number ^ 0xFFFFFFFF),
        0x26064700 << 96 | 0x00005EFE << 32 | number,
    ]
    for form in wrapped:
        text = ":".join(f"{form >> shift & 0xFFFF:x}" for shift in range(112, -1, -16))
        assert not rules.allows(text, 80), text


URLS = [
    "http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://2130706433:{port}/", "http://0177.0.0.1:{port}/",
    "http://0x7f.1:{port}/", "http://0x7f000001:{port}/", "http://127.1:{port}/", "http://127.0.0.1.:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/", "http://[::ffff:7f00:1]:{port}/", "http://[::1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/", "http://[2002:7f00:1::]:{port}/", "http://[fe80::1%25lo]:{port}/",
    "http://[::1%25lo]:{port}/", "http://0:{port}/", "http://[::]:{port}/", "http://１２７.0.0.1:{port}/",
    "http://127。0。0。1:{port}/", "http://①②⑦.0.0.1:{port}/", "http://LOCALHOST:{port}/", "http://localhost.:{port}/",
    "http://example.org@127.0.0.1:{port}/", "http://127.0.0.1:{port}@example.org/", "http://a:b@127.0.0.1:{port}/",
    "http://@127.0.0.1:{port}/", "http://example.org\\@127.0.0.1:{port}/", "http://127.0.0.1:{port}\\.example.org/",
    "http:\\\\127.0.0.1:{port}\\", "http:127.0.0.1:{port}/", "//127.0.0.1:{port}/", "127.0.0.1:{port}/",
    "file:///etc/passwd", "ftp://127.0.0.1:{port}/", "gopher://127.0.0.1:{port}/_x", "unix:///run/docker.sock",
    "http+unix://%2Frun%2Fdocker.sock/info", "tcp://127.0.0.1:{port}", "ws://127.0.0.1:{port}/", "data:text/html,x",
    "javascript:alert(1)", "http://127.0.0.1:{port}/\r\nHost: x", "http://127.0.0.1 :{port}/", "http:///", "http://",
    "http://127.0.0.1\t:{port}/", "http://%31%32%37.0.0.1:{port}/", "http://127.0.0.1:{port}#@example.org/",
    "http://127.0.0.1:{port}?@example.org/", "http://127.0.0.1:99999/", "http://127.0.0.1:-1/", "http://[::1/", "",
]  # fmt: skip


@pytest.mark.parametrize("url", URLS)
async def test_no_spelling_of_a_url_reaches_this_machine(url: str) -> None:
    async with inside() as site:
        # Every port is open to the web here, so that the address alone is what refuses.
        config = WebConfig(ports=tuple(range(1, 65536)), seconds=5)
        with pytest.raises(MootError) as refused:
            await reach(url.replace("{port}", str(site.port)), config)
        assert "Traceback" not in refused.value.message


async def test_the_ordinary_spelling_works_once_it_is_allowed() -> None:
    async with serving(hello) as site:
        assert await reach(f"{site.url}/", site.config()) == "inside"
        with pytest.raises(ConfigError):
            SafeHttp.for_public(WebConfig(allow_private=("everything",)), clock=SystemClock())


async def test_what_is_allowed_on_one_port_is_not_on_another() -> None:
    async with serving(hello) as site, inside() as other:
        with pytest.raises(Forbidden):
            await reach(other.url, site.config())


@pytest.mark.parametrize(
    "target",
    [
        f"http://{METADATA}/latest/meta-data/",
        f"//{METADATA}/",
        "http://[::ffff:169.254.169.254]/",
        "http://2852039166/",
        "http://0xa9.0xfe.0xa9.0xfe/",
        "http://0251.0376.0251.0376/",
        "http://[fd00:ec2::254]/",
        "http://10.0.0.1:8080/",
        "file:///etc/passwd",
        "unix:/run/docker.sock",
        "http://x@127.0.0.1/",
        "http://[::1",
        "\x00",
    ],
)
async def test_a_redirect_to_a_private_address_is_not_followed(target: str) -> None:
    async def away(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": target} if target != "\x00" else {"Location": "http://\\"})

    async with serving(away) as site:
        with pytest.raises((Forbidden, BadRequest)):
            await reach(site.url, site.config(seconds=5))
        assert len(site.requests) == 1


async def test_a_redirect_to_a_private_server_never_arrives_there() -> None:
    async with inside() as private:

        async def away(_request: web.Request) -> web.Response:
            return web.Response(status=307, headers={"Location": f"http://127.0.0.1:{private.port}/"})

        async with serving(away) as site:
            with pytest.raises(Forbidden):
                await reach(site.url, site.config())


async def test_a_name_that_resolves_to_a_private_address_is_refused() -> None:
    async with inside() as site:
        for answer in (["127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], ["10.0.0.1", METADATA], []):
            with pytest.raises(Forbidden):
                await reach(f"http://evil.example:{site.port}/", WebConfig(ports=(site.port,)), Names(answer))


async def test_a_name_is_looked_up_once_and_the_address_that_was_checked_is_the_one_connected_to() -> None:
    """A rebinding name: harmless on the first look-up, private from the second on."""
    async with inside() as private, serving(hello) as site:
        names = Names(["127.0.0.1"], [METADATA])
        assert await reach(f"http://evil.example:{site.port}/", site.config(), names) == "inside"
        assert names.asked == ["evil.example"]
        with pytest.raises(Forbidden):
            await reach(f"http://evil.example:{site.port}/", site.config(), names)
        assert private.requests == []


async def test_a_rebinding_name_is_caught_at_the_redirect() -> None:
    async def around(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/again"})

    async with serving(around) as site:
        names = Names(["127.0.0.1"], ["127.0.0.2"])
        with pytest.raises(Forbidden):
            await reach(f"http://evil.example:{site.port}/", site.config(), names)
        assert names.asked == ["evil.example", "evil.example"]
        assert len(site.requests) == 1


async def test_an_address_the_resolver_sneaks_past_the_check_is_refused_at_the_socket() -> None:
    """Rules that change their mind after the look-up show that the socket is checked by itself."""

    class Fickle:
        def __init__(self) -> None:
            self.answers = [True, False]
            self.asked: list[str] = []

        def allows(self, host: str, port: int) -> bool:
            self.asked.append(host)
            return self.answers.pop(0)

    async with inside() as site:
        rules = Fickle()
        http = SafeHttp(
            rules=rules, max_bytes=1000, seconds=5, resolver=lambda: Names(["127.0.0.1"]), clock=SystemClock()
        )
        with pytest.raises(Forbidden):
            await http.fetch(Request(url=f"http://evil.example:{site.port}/"))
        assert rules.asked == ["127.0.0.1", "127.0.0.1"]


async def test_of_several_addresses_only_those_that_may_be_reached_are_tried() -> None:
    async with serving(hello) as site:
        names = Names([METADATA, "::ffff:127.0.0.1", "127.0.0.1"])
        assert await reach(f"http://mixed.example:{site.port}/", site.config(), names) == "inside"


async def test_redirects_end_after_five() -> None:
    async def on(request: web.Request) -> web.Response:
        number = int(request.path.strip("/") or 0)
        if number == 5:
            return web.Response(text="there")
        return web.Response(status=301, headers={"Location": f"/{number + 1}"})

    async def for_ever(request: web.Request) -> web.Response:
        return web.Response(status=301, headers={"Location": request.path + "x"})

    async with serving(on) as site:
        assert await reach(site.url, site.config()) == "there"
    async with serving(for_ever) as site:
        with pytest.raises(BadRequest, match="redirects"):
            await reach(site.url, site.config())
        assert len(site.requests) == 6


async def test_what_was_meant_for_the_first_server_is_not_sent_to_the_next() -> None:
    async def away(request: web.Request) -> web.Response:
        if request.path == "/":
            return web.Response(
                status=307, headers={"Location": "/next", "Set-Cookie": "id=1", "Referrer-Policy": "unsafe-url"}
            )
        return web.Response(text="done")

    async with serving(away) as site:
        http = SafeHttp.for_public(site.config(), clock=SystemClock())
        await http.fetch(
            Request(url=site.url, method="POST", body=b"secret", headers={"Authorization": "Bearer x", "X-Key": "y"})
        )
        first, second = site.requests
        assert first.headers["Authorization"] == "Bearer x"
        assert second.method == "GET"
        assert not {"Authorization", "X-Key", "Cookie", "Referer"} & set(second.headers)


def test_a_step_down_from_https_is_not_followed() -> None:
    from moot.tools.web.safe_http import _redirect_target

    with pytest.raises(Forbidden, match="https to http"):
        _redirect_target(parse_web_address("https://example.org/"), "http://example.org/")
    assert _redirect_target(parse_web_address("http://example.org/"), "https://example.org/x").scheme == "https"


def test_a_url_longer_than_four_thousand_characters_is_refused() -> None:
    with pytest.raises(TooLarge):
        parse_web_address("http://example.org/" + "a" * 5000)


async def test_a_huge_body_is_cut_at_the_cap() -> None:
    async def huge(_request: web.Request) -> web.Response:
        return web.Response(body=b"a" * 3_000_000)

    async with serving(huge) as site:
        http = SafeHttp.for_public(site.config(max_bytes=1_000_000), clock=SystemClock())
        answer = await http.fetch(Request(url=site.url))
        assert len(answer.body) == 1_000_000
        assert answer.cut


async def test_a_body_without_end_is_cut_at_the_cap() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"b" * 65536)
        except ConnectionError:
            return response

    async with serving(endless) as site:
        answer = await SafeHttp.for_public(site.config(max_bytes=500_000), clock=SystemClock()).fetch(
            Request(url=site.url)
        )
        assert len(answer.body) == 500_000


@pytest.mark.parametrize("pause_after", ["connection", "headers", "body"])
async def test_a_server_that_keeps_us_waiting_is_given_up(pause_after: str) -> None:
    release = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if pause_after != "connection":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n")
        if pause_after == "body":
            writer.write(b"Content-Length: 100\r\n\r\nabc")
        await release.wait()
        writer.close()

    server = await asyncio.start_server(slow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        config = WebConfig(allow_private=(f"127.0.0.1:{port}",), seconds=0.3)
        with pytest.raises(Unavailable, match="within"):
            await reach(f"http://127.0.0.1:{port}/", config)
        release.set()


async def test_headers_without_end_are_refused() -> None:
    async def verbose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                writer.write(b"X-A: " + b"a" * 4000 + b"\r\n")
                await writer.drain()
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(verbose, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(Unavailable):
            await reach(f"http://127.0.0.1:{port}/", WebConfig(allow_private=(f"127.0.0.1:{port}",), seconds=10))


def bomb(levels: int) -> bytes:
    data = b"\0" * 50_000_000
    for _ in range(levels):
        data = gzip.compress(data, 9)
    return data


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "x-gzip"])
async def test_a_decompression_bomb_is_cut_at_the_cap(encoding: str) -> None:
    body = zlib.compress(b"\0" * 50_000_000, 9) if encoding == "deflate" else bomb(1)
    assert len(body) < 100_000

    async def bombing(_request: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Encoding": encoding})

    async with serving(bombing) as site:
        answer = await SafeHttp.for_public(site.config(max_bytes=1_000_000), clock=SystemClock()).fetch(
            Request(url=site.url)
        )
        assert len(answer.body) == 1_000_000
        assert answer.cut


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "compress", "gzip,identity"])
async def test_an_encoding_that_was_not_asked_for_is_refused(encoding: str) -> None:
    async def odd(_request: web.Request) -> web.Response:
        return web.Response(body=bomb(2), headers={"Content-Encoding": encoding})

    async with serving(odd) as site:
        with pytest.raises(Unavailable, match="encoding"):
            await reach(site.url, site.config())


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with inside() as proxy, serving(hello) as site:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert await reach(site.url, site.config()) == "inside"


async def test_nothing_listens_is_an_error_that_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(Unavailable, match="cannot be reached"):
        await reach(f"http://127.0.0.1:{port}/", WebConfig(allow_private=(f"127.0.0.1:{port}",)))


async def test_web_fetch_goes_through_the_same_door() -> None:
    fetch = next(
        tool
        for tool in tools(WebConfig(), reveal=reveal, redact=Redactor(), clock=SystemClock())
        if tool.spec.name == "web_fetch"
    )
    async with inside() as site:
        with pytest.raises(Forbidden):
            await fetch({"url": f"{site.url}/"}, context())


async def test_search_may_reach_what_the_owner_configured_and_is_not_sent_elsewhere() -> None:
    async with inside() as private:

        async def searxng(request: web.Request) -> web.Response:
            if request.query.get("q") == "away":
                return web.Response(status=302, headers={"Location": private.url})
            return web.Response(
                text=json.dumps({"results": [{"title": "T", "url": "http://t.example/", "content": "c"}]})
            )

        async with serving(searxng) as site:
            config = WebConfig(provider="searxng", base_url=site.url)
            made = tools(config, reveal=reveal, redact=Redactor(), clock=SystemClock())
            search = next(tool for tool in made if tool.spec.name == "web_search")
            found = json.loads(str(await search({"query": "moot"}, context())))
            assert found["count"] == 1
            with pytest.raises(MootError):
                await search({"query": "away"}, context())
