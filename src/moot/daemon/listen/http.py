"""The HTTP listener. Loopback only. What answers is in web_app.py, which is loaded with the first connection."""

import asyncio
import importlib
import socket
from typing import TYPE_CHECKING, cast

from moot.daemon.address import HTTP_PORT, bind, format_address, get_bound_address, get_peer_address, parse_listen
from moot.daemon.requests.admission import Admission
from moot.daemon.requests.exchange import Serving

if TYPE_CHECKING:
    from aiohttp import web

# What the kernel keeps for a connection until it is read. It doubles the number.
_RECEIVE_BYTES = 32 * 1024


class HttpListener:
    def __init__(self, host: str, port: int, serving: Serving) -> None:
        self._address = format_address(host, port)
        self._port = port
        self._serving = serving
        self._server: asyncio.Server | None = None
        self._runner: web.AppRunner | None = None
        self._loading: asyncio.Task[web.AppRunner] | None = None

    @property
    def address(self) -> str:
        return self._address

    @property
    def admission(self) -> Admission:
        return self._serving.admission

    def serve(self, server: asyncio.Server) -> None:
        self._server = server

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        self.stop_accepting()
        if self._loading is not None:
            # A connection that waits for the application is closed like the others.
            await asyncio.wait({self._loading})
        if self._runner is not None:
            from moot.daemon.listen import web_app  # noqa: PLC0415 - loaded already

            await web_app.stop_app(self._runner, self._serving)

    def accept(self) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection."""
        return _FirstConnection(self) if self._runner is None else self.make_protocol()

    def make_protocol(self) -> asyncio.BaseProtocol:
        if self._runner is None:
            raise RuntimeError("the web application is not loaded")
        from moot.daemon.listen import web_app  # noqa: PLC0415 - loaded already

        return web_app.make_connection(self._runner, self.admission)

    def load(self) -> "asyncio.Task[web.AppRunner]":
        if self._loading is None:
            self._loading = self._serving.tasks.start("load the web application", self._load())
        return self._loading

    async def _load(self) -> "web.AppRunner":
        # In a thread, so that active turns are not blocked.
        web_app = await asyncio.to_thread(importlib.import_module, "moot.daemon.listen.web_app")
        self._runner = await web_app.start_app(self._serving, port=self._port)
        return self._runner


class _FirstConnection(asyncio.Protocol):
    """A connection before the web application is loaded. Buffers its input until then."""

    def __init__(self, listener: HttpListener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._received: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._listener.admission.open(self, get_peer_address(transport)):
            self.abort()
            return
        self._listener.load().add_done_callback(self._hand_over)

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        if self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._listener.admission.close(self)

    def stop(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _hand_over(self, loading: "asyncio.Task[web.AppRunner]") -> None:
        transport, self._transport = self._transport, None
        # The connection that takes over is counted instead.
        self._listener.admission.close(self)
        if transport is None or transport.is_closing():
            return
        if loading.cancelled() or loading.exception() is not None:
            transport.abort()
            return
        protocol = cast(asyncio.Protocol, self._listener.make_protocol())
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in self._received:
            protocol.data_received(data)
        if not transport.is_closing():
            transport.resume_reading()


def open_port(configured: str) -> socket.socket:
    """Take the configured host:port, or the default port. Raise ConfigError if that fails."""
    return bind(parse_listen(configured, default_port=HTTP_PORT, setting="listen.http"), setting="listen.http")


async def listen(bound: socket.socket, serving: Serving) -> HttpListener:
    """Accept the connections of an open port."""
    host, port = get_bound_address(bound)
    listener = HttpListener(host, port, serving)
    # What has arrived is parsed at once: thousands of tiny chunks or frames of a client would hold the loop.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
    listener.serve(await asyncio.get_running_loop().create_server(listener.accept, sock=bound, backlog=512))
    return listener
