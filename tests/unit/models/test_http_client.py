"""The HTTP client for model servers: what a server may send, and what becomes of the connection."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from moot.daemon.clock import SystemClock
from moot.models.http_client import HttpClient
from moot.models.http_errors import ConnectError, LostError, TlsError
from moot.models.http_url import parse_url

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"


class Server:
    """Answers each request with the same bytes."""

    def __init__(self, answer: bytes, *, closes: bool = False) -> None:
        self._answer = answer
        self._closes = closes
        self.connections = 0
        self.heads: list[bytes] = []
        self.tasks: set[asyncio.Task[None] | None] = set()
        self.url = ""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.add(asyncio.current_task())
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(self._answer)
                await writer.drain()
                if self._closes:
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass
        with suppress(OSError):
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def serving(
    answer: bytes, *, closes: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Server, HttpClient]]:
    server, client = Server(answer, closes=closes), HttpClient(SystemClock())
    listening = await asyncio.start_server(server.take, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1/models"
    try:
        yield server, client
    finally:
        await client.close()
        listening.close()
        await asyncio.gather(*filter(None, server.tasks))


async def get(server: Server, client: HttpClient) -> tuple[int, bytes]:
    return await client.get(parse_url(server.url), headers={"X-Name": "v"}, seconds=20, max_bytes=1_000_000)


async def test_a_connection_is_used_again_once_its_answer_is_whole() -> None:
    async with serving(CHUNKED) as (server, client):
        assert [await get(server, client) for _ in range(3)] == [(200, b"hello world")] * 3
        assert server.connections == 1
        assert server.heads[0].startswith(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"\r\nX-Name: v\r\n" in server.heads[0]


async def test_an_answer_that_was_not_read_to_its_end_costs_the_connection() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhell") as (server, client):
        for _ in range(2):
            response = await client.send("GET", parse_url(server.url), headers={}, idle_seconds=20)
            assert await response.read() == b"hell"
            response.close()
        assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED, b"hello world"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"small", mtime=0), b"small"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    ],
    ids=["interim", "until closed", "compressed", "empty"],
)
async def test_answers_come_in_many_forms(answer: bytes, body: bytes) -> None:
    async with serving(answer, closes=True) as (server, client):
        assert await get(server, client) == (200, body)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"what?\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhell",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["nothing", "no HTTP", "cut off", "long headers", "bad chunk"],
)
async def test_what_is_no_whole_answer_is_a_lost_connection(answer: bytes) -> None:
    async with serving(answer, closes=True) as (server, client):
        with pytest.raises(LostError):
            await get(server, client)


async def test_a_header_cannot_smuggle_another() -> None:
    async with serving(CHUNKED) as (server, client):
        with pytest.raises(ValueError, match="more than one line"):
            await client.send("GET", parse_url(server.url), headers={"A": "b\r\nC: d"}, idle_seconds=20)
        assert server.connections == 0


async def test_nobody_listening_is_an_error_of_its_own() -> None:
    async with serving(CHUNKED) as (server, client):
        url = parse_url(server.url)
    with pytest.raises(ConnectError):
        await client.send("GET", url, headers={}, idle_seconds=20)


async def test_a_server_must_prove_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    async with serving(CHUNKED, tls=tls) as (server, client):
        with pytest.raises(TlsError, match="self.signed"):
            await get(server, client)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with serving(CHUNKED, tls=tls) as (server, client):
        assert [await get(server, client) for _ in range(2)] == [(200, b"hello world")] * 2
        assert server.connections == 1


def make_certificate(folder: Path) -> Path:
    """A certificate for this machine that nobody has signed, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return file


@pytest.mark.parametrize(
    ("text", "authority", "target"),
    [
        ("http://host/v1", "host", "/v1"),
        ("https://host:8443/v1/a b?q=ü", "host:8443", "/v1/a%20b?q=%C3%BC"),
        ("http://[::1]:80/", "[::1]:80", "/"),
        ("http://bücher.example", "xn--bcher-kva.example", "/"),
    ],
)
def test_addresses_are_split_and_quoted(text: str, authority: str, target: str) -> None:
    url = parse_url(text)

    assert (url.authority, url.target) == (authority, target)


@pytest.mark.parametrize("text", ["", "host/v1", "ftp://host", "http://", "http://u:p@host", "http://host:x/"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        parse_url(text)
