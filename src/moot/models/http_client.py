"""An HTTP/1.1 client for model servers: keep-alive connections with one request each, and streamed answers.

Used by transport.py and server_window.py. httptools parses responses; docs/adr/0006 says why it is not aiohttp.
"""

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from typing import cast

import httptools

from moot import __version__
from moot.models.http_url import Url

CONNECT_SECONDS = 10.0
# How long an unused connection stays open.
_KEEP_SECONDS = 30.0
# The maximum unread body, and the maximum size of headers.
_MAX_UNREAD = 1024 * 1024
_MAX_HEADERS = 64 * 1024
_MAX_INFLATED = 64 * 1024 * 1024
_COMMON = f"User-Agent: moot/{__version__}\r\nAccept-Encoding: identity\r\n"


class HttpError(Exception):
    """A request that failed. The text says what happened."""


class ConnectError(HttpError):
    """No connection could be made."""


class TlsError(HttpError):
    """The server's certificate is invalid, or it does not support TLS."""


class LostError(HttpError):
    """The connection broke, or the response was not valid HTTP."""


class HttpClient:
    """The connections shared by all models of one event loop. Proxies from the environment are not used."""

    def __init__(self) -> None:
        self.closed = False
        self._idle: dict[tuple[str, str, int], list[_Connection]] = {}
        self._connections: set[_Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLContext | None = None

    async def send(
        self, method: str, url: Url, *, headers: Mapping[str, str], body: bytes = b"", idle_seconds: float
    ) -> "Response":
        """Send a request and wait for the response headers. No wait may take longer than `idle_seconds`."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if lines.count("\n") != len(headers):
            raise ValueError("a header has more than one line")
        length = f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""
        head = f"{method} {url.target} HTTP/1.1\r\nHost: {url.authority}\r\n{_COMMON}{length}{lines}\r\n"
        connection = self._take(url) or await self._connect(url)
        response = connection.send(head.encode("latin-1"), body, idle_seconds)
        try:
            await response.wait_head()
        except BaseException:
            response.close()
            raise
        return response

    async def get(self, url: Url, *, headers: Mapping[str, str], seconds: float, max_bytes: int) -> tuple[int, bytes]:
        """Return the status and body of a short response. Raises TimeoutError if it takes longer."""
        async with asyncio.timeout(seconds):
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
            self._sweeper = asyncio.get_running_loop().call_later(_KEEP_SECONDS, self._sweep)

    def forget(self, connection: "_Connection") -> None:
        self._connections.discard(connection)
        idle = self._idle.get(connection.place)
        if idle is not None and connection in idle:
            idle.remove(connection)

    def _take(self, url: Url) -> "_Connection | None":
        idle = self._idle.get((url.scheme, url.host, url.port))
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        return None

    async def _connect(self, url: Url) -> "_Connection":
        loop = asyncio.get_running_loop()
        connection = _Connection(self, (url.scheme, url.host, url.port))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                tls = await self._load_tls() if url.scheme == "https" else None
                await loop.create_connection(lambda: connection, url.host, url.port, ssl=tls)
        except ssl.SSLError as error:
            raise TlsError(getattr(error, "verify_message", "") or error.reason or str(error)) from error
        except TimeoutError as error:
            raise ConnectError(f"no connection within {CONNECT_SECONDS:g} seconds") from error
        except (OSError, UnicodeError) as error:
            raise ConnectError(getattr(error, "strerror", None) or str(error)) from error
        self._connections.add(connection)
        return connection

    async def _load_tls(self) -> ssl.SSLContext:
        if self._tls is None:
            # Loads the system's certificates.
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return self._tls

    def _sweep(self) -> None:
        """Close connections that were not used for a while."""
        self._sweeper = None
        now = asyncio.get_running_loop().time()
        left = False
        for idle in self._idle.values():
            for connection in tuple(idle):
                if connection.idle_since <= now - _KEEP_SECONDS:
                    connection.abort()
                else:
                    left = True
        if left:
            self._sweeper = asyncio.get_running_loop().call_later(_KEEP_SECONDS, self._sweep)


class _Connection(asyncio.Protocol):
    """A connection with at most one request on it."""

    __slots__ = ("_client", "_parser", "_response", "_transport", "idle_since", "place")

    def __init__(self, client: HttpClient, place: tuple[str, str, int]) -> None:
        self._client = client
        self.place = place
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._response: Response | None = None
        self._parser: httptools.HttpResponseParser | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, head: bytes, body: bytes, idle_seconds: float) -> "Response":
        response = self._response = Response(self, idle_seconds)
        self._parser = response.parser = httptools.HttpResponseParser(response)
        if self._transport is None:
            response.fail(LostError("the server closed the connection"))
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
            self.idle_since = asyncio.get_running_loop().time()
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


class Response:
    """The response to one request, filled by its connection."""

    __slots__ = (
        "_chunks",
        "_connection",
        "_ends_with_connection",
        "_error",
        "_has_head",
        "_header_bytes",
        "_idle_seconds",
        "_inflate",
        "_is_complete",
        "_is_paused",
        "_timer",
        "_unread",
        "_waiter",
        "_waits_since",
        "headers",
        "on_body",
        "parser",
        "received",
        "status",
    )

    def __init__(self, connection: _Connection, idle_seconds: float) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.parser: httptools.HttpResponseParser | None = None
        self._connection = connection
        self._idle_seconds = idle_seconds
        self._chunks: list[bytes] = []
        # Called by the parser for each part of the body. A stream has one for every token, so nothing else is done.
        self.on_body = self._chunks.append
        # The number of body bytes read so far.
        self.received = 0
        self._unread = 0
        self._header_bytes = 0
        self._has_head = False
        self._is_complete = False
        self._is_paused = False
        self._ends_with_connection = False
        self._inflate: zlib._Decompress | None = None
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waits_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_complete(self) -> bool:
        """Whether the whole response has arrived, read or not."""
        return self._is_complete

    async def wait_head(self) -> None:
        while not self._has_head:
            await self._wait()

    async def read(self) -> bytes:
        """Return the body bytes since the last read; b"" once the response is complete."""
        data = b""
        while not data:
            while not self._chunks:
                if self._is_complete:
                    return b""
                await self._wait()
            data = b"".join(self._chunks)
            self._chunks.clear()
            if self._inflate is not None:
                data = _inflate(self._inflate, data)
        self.received += len(data)
        self._unread = 0
        if self._is_paused:
            self._is_paused = False
            self._connection.resume()
        return data

    def close(self) -> None:
        """Stop reading. A connection with an incomplete response is aborted, since it cannot be reused."""
        self._stop_timer()
        if not self._is_complete:
            self._is_complete = True
            self._connection.abort()

    def fail(self, error: Exception) -> None:
        if not self._is_complete and self._error is None:
            self._error = error
        self.wake()

    def on_received(self, size: int) -> None:
        """Wake the reader after bytes were parsed. Stop reading from the server if too much of its answer is unread."""
        self._unread += size
        if self._unread > _MAX_UNREAD and not self._is_paused and not self._is_complete:
            self._is_paused = True
            self._connection.pause()
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end_with_connection(self, error: Exception | None) -> None:
        if self._ends_with_connection and error is None:
            self._is_complete = True
            self.wake()
        else:
            self.fail(LostError(str(error) if error is not None else "the server closed the connection"))

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._waits_since = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._idle_seconds, self._expire)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _expire(self) -> None:
        """Check the duration of the current wait. One timer serves the whole response and is rescheduled."""
        self._timer = None
        if self._waiter is None:
            return
        loop = asyncio.get_running_loop()
        left = self._waits_since + self._idle_seconds - loop.time()
        if left > 0:
            self._timer = loop.call_later(left, self._expire)
        else:
            self.fail(TimeoutError())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ---- called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > _MAX_HEADERS:
            raise ValueError("the headers are too long")
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self.parser is not None
        self.status = self.parser.get_status_code()
        headers = self.headers
        self._has_head = self.status >= 200
        self._ends_with_connection = "content-length" not in headers and "transfer-encoding" not in headers
        if headers.get("content-encoding") in ("gzip", "deflate"):
            # Not requested, but some servers send it anyway.
            self._inflate = zlib.decompressobj(wbits=47)

    def on_message_complete(self) -> None:
        parser = self.parser
        if not self._has_head or parser is None:
            # An interim response; the final one follows.
            self.headers = {}
            return
        self._is_complete = True
        self._stop_timer()
        self.parser = None
        if self._is_paused:
            self._connection.resume()
        self._connection.finish(keep=parser.should_keep_alive())


def _inflate(inflate: "zlib._Decompress", data: bytes) -> bytes:
    try:
        return inflate.decompress(data, _MAX_INFLATED)
    except zlib.error as error:
        raise LostError("its answer is not valid HTTP") from error
