"""The response to one request of `http_client`: headers, a streamed body, limits and the idle timeout."""

import asyncio
import zlib
from typing import Protocol

import httptools

from moot.domain.ports.clock import Clock, Timer
from moot.models.http_errors import HttpError, LostError, UnansweredError

# The maximum unread body, and the maximum size of headers.
_MAX_UNREAD = 1024 * 1024
_MAX_HEADERS = 64 * 1024
_MAX_INFLATED = 64 * 1024 * 1024


class Connection(Protocol):
    """The connection a response arrives on."""

    def abort(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def finish(self, *, keep: bool) -> None: ...


class Response:
    """The response to one request, filled by its connection."""

    __slots__ = (
        "_chunks",
        "_clock",
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

    def __init__(self, connection: Connection, idle_seconds: float, clock: Clock) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.parser: httptools.HttpResponseParser | None = None
        self._connection = connection
        self._idle_seconds = idle_seconds
        self._clock = clock
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
        self._timer: Timer | None = None

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

    async def drain(self, seconds: float) -> None:
        """Read the rest of an answer that is already complete, so that its connection can be reused."""
        try:
            async with self._clock.timeout(seconds):
                while await self.read():
                    pass
        except (HttpError, OSError):
            return

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
            kind = LostError if self._unread or self.received else UnansweredError
            self.fail(kind(str(error) if error is not None else "the server closed the connection"))

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        self._waits_since = self._clock.monotonic()
        if self._timer is None:
            self._timer = self._clock.call_later(self._idle_seconds, self._expire)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _expire(self) -> None:
        """Check the duration of the current wait. One timer serves the whole response and is rescheduled."""
        self._timer = None
        if self._waiter is None:
            return
        left = self._waits_since + self._idle_seconds - self._clock.monotonic()
        if left > 0:
            self._timer = self._clock.call_later(left, self._expire)
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
