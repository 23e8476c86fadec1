"""The TCP listener: frames on loopback, with a token."""

import asyncio
import socket

from moot.daemon.address import TCP_PORT, bind, format_address, get_bound_address, parse_listen
from moot.daemon.listen.frame_connection import Connection
from moot.daemon.requests.exchange import Serving


class TcpListener:
    def __init__(self, address: str, server: asyncio.Server) -> None:
        self._address = address
        self._server = server

    @property
    def address(self) -> str:
        return self._address

    def stop_accepting(self) -> None:
        self._server.close()

    async def close(self) -> None:
        self._server.close()


def open_port(configured: str) -> socket.socket:
    """Take the configured host:port, or the default port. Raise ConfigError if that fails."""
    return bind(parse_listen(configured, default_port=TCP_PORT, setting="listen.tcp"), setting="listen.tcp")


async def listen(bound: socket.socket, serving: Serving) -> TcpListener:
    """Accept the connections of an open port."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(serving, principal=None, name="tcp"), sock=bound, backlog=512)
    return TcpListener(format_address(*get_bound_address(bound)), server)
