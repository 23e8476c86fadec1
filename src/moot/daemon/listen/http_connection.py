"""One HTTP connection of the web application: aiohttp's, counted by the admission. Used by web_app.py."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp import web
from aiohttp.http_websocket import WebSocketReader
from aiohttp.web_protocol import RequestHandler

from moot.daemon.address import get_peer_address
from moot.daemon.listen.websocket_frames import FrameScanner
from moot.daemon.requests.admission import Admission

# How long an authenticated connection may wait for its next request.
KEEPALIVE_SECONDS = 75.0
# How long the rest of a body is discarded after an error, so that the client can read the error.
LINGERING_SECONDS = 2.0


class HttpConnection(RequestHandler):
    __slots__ = ("_admission", "_connected", "_is_admitted", "_is_websocket", "frames", "queued")

    def __init__(self, server: web.Server, admission: Admission) -> None:
        # The arguments are those of the runner; aiohttp passes them on in the same way.
        arguments: dict[str, Any] = server._kwargs  # noqa: SLF001
        super().__init__(server, loop=asyncio.get_running_loop(), **arguments)
        self._admission = admission
        self._connected: asyncio.Transport | None = None
        self._is_admitted = False
        # Bytes that a WebSocket on this connection has not written yet.
        self.queued = 0
        # What a WebSocket on this connection has received.
        self.frames = FrameScanner()
        self._is_websocket = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connected = cast(asyncio.Transport, transport)
        self._is_admitted = self._admission.open(self, get_peer_address(transport), self._count_unread)
        if self._is_admitted:
            super().connection_made(transport)
        else:
            self._connected.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_admitted:
            if self._is_websocket:
                self.frames.feed(data)
                if self.frames.is_flooded:
                    self._admission.reject("too many small frames on a WebSocket")
                    self.abort()
                    return
            super().data_received(data)

    def set_parser(self, parser: WebSocketReader, data_received_cb: Callable[[], None] | None = None) -> None:
        """Start to read frames; the first may have arrived with the request."""
        self._is_websocket = True
        self.frames.feed(self._message_tail)
        super().set_parser(parser, data_received_cb)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connected = None
        self._admission.close(self)
        if self._is_admitted:
            super().connection_lost(exc)

    def _count_unread(self) -> int:
        return self.queued + (self._connected.get_write_buffer_size() if self._connected is not None else 0)

    def stop(self) -> None:
        self.close()

    def abort(self) -> None:
        if self._connected is not None:
            self._connected.abort()
