"""Opens a tunnel through an HTTP proxy with CONNECT, for `http_client`."""

import asyncio
from typing import cast

from moot.models.http_errors import ProxyError
from moot.models.http_url import Url

_MAX_ANSWER = 64 * 1024


class Tunnel(asyncio.Protocol):
    """Asks a proxy for a connection to another host, before TLS begins on it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._data = b""
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def open(self, url: Url, login: str) -> None:
        assert self._transport is not None
        host = url.authority if ":" in url.authority.rpartition("]")[2] else f"{url.authority}:{url.port}"
        self._transport.write(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n{login}\r\n".encode("latin-1"))
        words = (await self._answer).split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        status = words[1] if len(words) > 1 else ""
        if status == "407":
            raise ProxyError("it requires a user and a password (407)", needs_login=True)
        if not status.startswith("2"):
            raise ProxyError(f"it refuses the connection ({' '.join(words[1:]) or 'no valid answer'})")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self._answer.done():
            return
        if b"\r\n\r\n" in self._data:
            self._answer.set_result(self._data)
        elif len(self._data) > _MAX_ANSWER:
            self._answer.set_exception(ProxyError("its answer is not valid HTTP"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(ProxyError(str(exc) if exc else "it closed the connection"))
