"""Proxies for requests to models: which one is chosen, and how a connection goes through it."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.errors import ConfigError, ModelError
from moot.models.http_client import HttpClient
from moot.models.http_errors import ConnectError, ConnectFailure, ProxyError
from moot.models.http_url import Url, parse_url
from moot.models.proxy import Proxy, ProxyFinder, parse_proxy
from moot.models.refusals import describe_connect_error
from tests.unit.models.test_http_client import CHUNKED, make_certificate, serving

API = parse_url("https://api.example/v1/chat")


def find(url: str, configured: str = "", **environ: str) -> Proxy | None:
    return asyncio.run(ProxyFinder(configured, environ).find(parse_url(url)))


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("https://api.example/v1", {"HTTPS_PROXY": "http://p:1"}, "p:1"),
        ("https://api.example/v1", {"https_proxy": "p:1", "HTTPS_PROXY": "q:2"}, "p:1"),
        ("https://api.example/v1", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://api.example/v1", {"HTTP_PROXY": "http://p"}, "p:3128"),
        ("http://api.example/v1", {"ALL_PROXY": "http://p:1"}, "p:1"),
        ("http://127.0.0.1:8000/v1", {"ALL_PROXY": "http://p:1"}, None),
        ("http://localhost:8000/v1", {"ALL_PROXY": "http://p:1"}, None),
        ("http://[::1]:8000/v1", {"ALL_PROXY": "http://p:1"}, None),
        ("https://api.example/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "other,.example"}, None),
        ("https://api.example/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "ample"}, "p:1"),
        ("https://api.example/v1", {"ALL_PROXY": "http://p:1", "no_proxy": "*"}, None),
        ("https://10.1.2.3/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://api.example:444/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "api.example:443"}, "p:1"),
    ],
)
def test_the_proxy_of_the_environment(url: str, environ: dict[str, str], expected: str | None) -> None:
    found = find(url, **environ)

    assert (found.address if found else None) == expected


def test_the_configured_proxy_has_priority_and_off_means_none() -> None:
    found = find("https://api.example/v1", "http://mine:8080", HTTPS_PROXY="http://p:1")
    assert found == Proxy("mine", 8080)
    assert find("https://api.example/v1", "off", HTTPS_PROXY="http://p:1") is None


@pytest.mark.parametrize("text", ["socks5://u:hush@p:1", "http://", "http://u:hush@p:port"])
def test_an_unusable_proxy_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_proxy(text, place="HTTPS_PROXY")

    assert "hush" not in raised.value.message + raised.value.fix


class TunnelProxy:
    """A proxy that answers CONNECT and then passes bytes on to a port of this machine, whatever host was named."""

    def __init__(self, port: int, answer: bytes) -> None:
        self._port = port
        self._answer = answer
        self.heads: list[bytes] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._answer)
        if b" 200 " not in self._answer:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def test_https_goes_through_a_tunnel_and_the_server_must_still_prove_who_it_is(
    tmp_path: Path,
) -> None:
    certificate = make_certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    async with serving(CHUNKED, tls=tls) as (server, plain_client):
        await plain_client.close()
        url = parse_url(server.url)
        status, heads = await _get_through(b"HTTP/1.1 200 OK\r\n\r\n", url, trusted=certificate)

    assert status == 200
    assert heads == [
        f"CONNECT {url.authority} HTTP/1.1\r\nHost: {url.authority}\r\nProxy-Authorization: Basic eDp5\r\n\r\n".encode()
    ]
    assert server.heads[0].startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert b"Proxy-Authorization" not in server.heads[0]


@pytest.mark.parametrize(
    ("answer", "needs_login", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", True, "user and a password"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", False, "403 Forbidden"),
        (b"junk\r\n\r\n", False, "no valid answer"),
        (b"", False, "closed the connection"),
    ],
)
async def test_a_proxy_that_refuses_is_an_error_of_its_own(
    tmp_path: Path, answer: bytes, needs_login: bool, said: str
) -> None:
    with pytest.raises(ProxyError, match=said) as raised:
        await _get_through(answer, parse_url("https://127.0.0.1:9/v1"), trusted=make_certificate(tmp_path))

    assert raised.value.needs_login is needs_login


async def _get_through(answer: bytes, url: Url, *, trusted: Path) -> tuple[int, list[bytes]]:
    """GET an address through a tunnel; return the status and what the proxy was sent."""
    proxy = TunnelProxy(url.port, answer)
    listening = await asyncio.start_server(proxy.take, "127.0.0.1", 0)

    async def find_proxy(_url: Url) -> Proxy:
        return Proxy("127.0.0.1", listening.sockets[0].getsockname()[1], "Basic eDp5")

    client = HttpClient(SystemClock(), find_proxy)
    client._tls = ssl.create_default_context(cafile=str(trusted))
    try:
        status, body = await client.get(url, headers={}, seconds=20, max_bytes=1000)
        assert body == b"hello world"
        # The second request uses the same tunnel.
        assert (await client.get(url, headers={}, seconds=20, max_bytes=1000))[0] == 200
    finally:
        await client.close()
        listening.close()
    return status, proxy.heads


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), ConnectFailure.UNKNOWN_HOST),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), ConnectFailure.NO_NETWORK),
        (OSError(101, "Network is unreachable"), ConnectFailure.NO_NETWORK),
        (OSError(113, "No route to host"), ConnectFailure.NO_NETWORK),
        (OSError("Multiple exceptions: [Errno 111] x, [Errno 111] y"), ConnectFailure.REFUSED),
        (ConnectionRefusedError(111, "Connection refused"), ConnectFailure.REFUSED),
        (TimeoutError(), ConnectFailure.SILENT),
    ],
)
async def test_why_no_connection_could_be_made(
    monkeypatch: pytest.MonkeyPatch, error: Exception, failure: ConnectFailure
) -> None:
    async def fail(_self: HttpClient, _connection: object, _url: Url) -> None:
        raise error

    monkeypatch.setattr(HttpClient, "_connect_directly", fail)

    with pytest.raises(ConnectError) as raised:
        await HttpClient(SystemClock()).send("GET", API, headers={}, idle_seconds=5)

    assert raised.value.failure is failure


def test_a_wrong_host_no_network_and_a_proxy_are_told_apart_with_a_fix_each() -> None:
    errors = [
        ConnectError("x", ConnectFailure.UNKNOWN_HOST),
        ConnectError("x", ConnectFailure.NO_NETWORK),
        ConnectError("x", ConnectFailure.SILENT),
        ConnectError("x", ConnectFailure.REFUSED),
        ProxyError("x", needs_login=True),
        ProxyError("x"),
    ]

    told = [describe_connect_error(error, model="m", url=API) for error in errors]

    assert all(isinstance(each, ModelError) and each.fix for each in told)
    assert len({each.message for each in told} | {each.fix for each in told}) >= len(told) + 5
    assert "does not exist" in told[0].message
    assert "no network" in told[1].message
    assert "requires a proxy" in told[2].fix
    assert "login" in told[4].message
    assert [each.retryable for each in told] == [False, True, True, True, False, True]
