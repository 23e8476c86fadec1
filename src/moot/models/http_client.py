"""An HTTP/1.1 client for model servers: keep-alive connections with one request each, and streamed answers.

Used by transport.py and server_window.py. httptools parses responses; docs/adr/0006 says why it is not aiohttp.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import cast

import httptools

from moot import __version__
from moot.domain.ports.clock import Clock, Timer
from moot.models.http_errors import (
    ConnectError,
    ConnectFailure,
    LostError,
    ProxyError,
    TlsError,
    UnansweredError,
    classify_connect_error,
)
from moot.models.http_response import Response
from moot.models.http_tunnel import Tunnel
from moot.models.http_url import Url
from moot.models.proxy import Proxy

CONNECT_SECONDS = 10.0
# How long an unused connection stays open.
_KEEP_SECONDS = 30.0
_COMMON = f"User-Agent: moot/{__version__}\r\nAccept-Encoding: identity\r\n"


async def _find_no_proxy(_url: Url) -> Proxy | None:
    return None


class HttpClient:
    """The connections shared by all models of one event loop. `find_proxy` chooses the proxy of an address."""

    def __init__(self, clock: Clock, find_proxy: Callable[[Url], Awaitable[Proxy | None]] = _find_no_proxy) -> None:
        self.clock = clock
        self.closed = False
        self._find_proxy = find_proxy
        self._idle: dict[tuple[str, str, int], list[_Connection]] = {}
        self._connections: set[_Connection] = set()
        self._sweeper: Timer | None = None
        self._tls: ssl.SSLContext | None = None

    async def send(
        self, method: str, url: Url, *, headers: Mapping[str, str], body: bytes = b"", idle_seconds: float
    ) -> "Response":
        """Send a request and wait for the response headers. No wait may take longer than `idle_seconds`.

        Some servers close a connection after a streamed answer although they announced to keep it. A request that
        was sent on it meanwhile is sent once more, on a new connection.
        """
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if lines.count("\n") != len(headers):
            raise ValueError("a header has more than one line")
        length = f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""

        async def request(connection: _Connection) -> Response:
            target = f"{connection.target_prefix}{url.target}"
            head = (
                f"{method} {target} HTTP/1.1\r\nHost: {url.authority}\r\n"
                f"{_COMMON}{length}{connection.proxy_headers}{lines}\r\n"
            )
            response = connection.send(head.encode("latin-1"), body, idle_seconds)
            try:
                await response.wait_head()
            except BaseException:
                response.close()
                raise
            return response

        proxy = await self._find_proxy(url)
        kept = self._take(url, proxy)
        if kept is not None:
            with suppress(UnansweredError):
                return await request(kept)
        return await request(await self._connect(url, proxy))

    async def get(self, url: Url, *, headers: Mapping[str, str], seconds: float, max_bytes: int) -> tuple[int, bytes]:
        """Return the status and body of a short response. Raises TimeoutError if it takes longer."""
        async with self.clock.timeout(seconds):
            response = await self.send("GET", url, headers=headers, idle_seconds=seconds)
            try:
                body = b""
                while len(body) < max_bytes and (chunk := await response.read()):
                    body += chunk
            finally:
                response.close()
        return response.status, body

    async def close(self) -> None:
        self.closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self._connections):
            connection.abort()

    def keep(self, connection: "_Connection") -> None:
        """Keep a connection whose response is complete for the next request."""
        if self.closed:
            connection.abort()
            return
        self._idle.setdefault(connection.place, []).append(connection)
        if self._sweeper is None:
            self._sweeper = self.clock.call_later(_KEEP_SECONDS, self._sweep)

    def forget(self, connection: "_Connection") -> None:
        self._connections.discard(connection)
        idle = self._idle.get(connection.place)
        if idle is not None and connection in idle:
            idle.remove(connection)

    def _take(self, url: Url, proxy: Proxy | None) -> "_Connection | None":
        idle = self._idle.get((url.scheme, url.host, url.port))
        while idle:
            connection = idle.pop()
            if connection.is_open:
                if connection.proxy == proxy:
                    return connection
                # The address or the login of the proxy was replaced.
                connection.abort()
        return None

    async def _connect(self, url: Url, proxy: Proxy | None) -> "_Connection":
        connection = _Connection(self, (url.scheme, url.host, url.port), proxy)
        try:
            async with self.clock.timeout(CONNECT_SECONDS):
                if proxy is None:
                    await self._connect_directly(connection, url)
                else:
                    await self._connect_through(proxy, connection, url)
        except ssl.SSLError as error:
            raise TlsError(getattr(error, "verify_message", "") or error.reason or str(error)) from error
        except TimeoutError as error:
            message = f"no connection within {CONNECT_SECONDS:g} seconds"
            raise (ProxyError(message) if proxy else ConnectError(message, ConnectFailure.SILENT)) from error
        except (OSError, UnicodeError) as error:
            message = getattr(error, "strerror", None) or str(error)
            raise (ProxyError(message) if proxy else ConnectError(message, classify_connect_error(error))) from error
        self._connections.add(connection)
        return connection

    async def _connect_directly(self, connection: "_Connection", url: Url) -> None:
        tls = await self._load_tls() if url.scheme == "https" else None
        await asyncio.get_running_loop().create_connection(lambda: connection, url.host, url.port, ssl=tls)

    async def _connect_through(self, proxy: Proxy, connection: "_Connection", url: Url) -> None:
        """Connect by a proxy: through a tunnel for https, else with whole addresses in the requests."""
        loop = asyncio.get_running_loop()
        login = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        if url.scheme == "http":
            connection.target_prefix, connection.proxy_headers = f"http://{url.authority}", login
            await loop.create_connection(lambda: connection, proxy.host, proxy.port)
            return
        tls = await self._load_tls()
        transport, tunnel = await loop.create_connection(Tunnel, proxy.host, proxy.port)
        try:
            await tunnel.open(url, login)
            secured = await loop.start_tls(transport, connection, tls, server_hostname=url.host)
        except BaseException:
            transport.abort()
            raise
        assert secured is not None
        connection.connection_made(secured)

    async def _load_tls(self) -> ssl.SSLContext:
        if self._tls is None:
            # Loads the system's certificates.
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return self._tls

    def _sweep(self) -> None:
        """Close connections that were not used for a while."""
        self._sweeper = None
        now = self.clock.monotonic()
        left = False
        for idle in self._idle.values():
            for connection in tuple(idle):
                if connection.idle_since <= now - _KEEP_SECONDS:
                    connection.abort()
                else:
                    left = True
        if left:
            self._sweeper = self.clock.call_later(_KEEP_SECONDS, self._sweep)


class _Connection(asyncio.Protocol):
    """A connection with at most one request on it."""

    __slots__ = (
        "_client",
        "_parser",
        "_response",
        "_transport",
        "idle_since",
        "place",
        "proxy",
        "proxy_headers",
        "target_prefix",
    )

    def __init__(self, client: HttpClient, place: tuple[str, str, int], proxy: Proxy | None) -> None:
        self._client = client
        self.place = place
        self.proxy = proxy
        self.idle_since = 0.0
        # What requests through a proxy without a tunnel carry in addition.
        self.target_prefix = ""
        self.proxy_headers = ""
        self._transport: asyncio.Transport | None = None
        self._response: Response | None = None
        self._parser: httptools.HttpResponseParser | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, head: bytes, body: bytes, idle_seconds: float) -> "Response":
        response = self._response = Response(self, idle_seconds, self._client.clock)
        self._parser = response.parser = httptools.HttpResponseParser(response)
        if self._transport is None:
            response.fail(UnansweredError("the server closed the connection"))
        else:
            self._transport.writelines((head, body) if body else (head,))
        return response

    def abort(self) -> None:
        self._response = None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def finish(self, *, keep: bool) -> None:
        """Release the connection after a complete response."""
        self._response = self._parser = None
        if keep and self.is_open:
            self.idle_since = self._client.clock.monotonic()
            self._client.keep(self)
        else:
            self.abort()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        response, parser = self._response, self._parser
        if response is None or parser is None:
            # Data that no request asked for.
            self.abort()
            return
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            response.fail(LostError("its answer is not valid HTTP"))
            self.abort()
        response.on_received(len(data))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._client.forget(self)
        response, self._response, self._parser = self._response, None, None
        if response is not None:
            response.end_with_connection(exc)
