"""Parses and checks listen addresses. Only loopback is allowed."""

import asyncio
import ipaddress
import socket

from msgspec import Struct

from moot.domain.errors import ConfigError

TCP_PORT = 7787
HTTP_PORT = 7788


class ListenAddress(Struct, frozen=True, kw_only=True):
    """A loopback address to listen on. A `fixed` one was configured."""

    host: str
    port: int
    fixed: bool


def parse_listen(text: str, *, default_port: int, setting: str) -> ListenAddress:
    """Parse a configured host:port; an empty text gives the default."""
    if not text:
        return ListenAddress(host="127.0.0.1", port=default_port, fixed=False)
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(
            f"{setting} = {text!r} is not an address",
            fix=f'Write it as host:port, such as "127.0.0.1:{default_port}", or "off".',
        )
    if not is_loopback(host):
        raise ConfigError(
            f"{setting} = {text!r} would be open to other machines",
            fix=f'Listen on 127.0.0.1, ::1 or localhost, such as "127.0.0.1:{default_port}", and use a tunnel.',
        )
    return ListenAddress(host="127.0.0.1" if host == "localhost" else host, port=int(port), fixed=True)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # A name could resolve to another address after this check.
        return False


class PortTaken(ConfigError):
    """A port cannot be listened on. Not fatal for a default port, which nobody may rely on."""


def bind(wanted: ListenAddress, *, setting: str) -> socket.socket:
    """Return a bound, listening socket. Raise PortTaken for a default port, ConfigError for a configured one."""
    try:
        return _bind(wanted.host, wanted.port)
    except OSError as error:
        kind = ConfigError if wanted.fixed else PortTaken
        raise kind(
            f"{setting}: cannot listen on {format_address(wanted.host, wanted.port)}: {error.strerror or error}",
            fix=f'Stop what listens there, or set {setting} to another address, such as "127.0.0.1:0", or to "off".',
        ) from error


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        # With SO_REUSEADDR two daemons can bind as long as neither listens, so listen now to detect a conflict.
        bound.listen(512)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound


def get_bound_address(bound: socket.socket) -> tuple[str, int]:
    host, port = bound.getsockname()[:2]
    return str(host), int(port)


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def get_peer_address(transport: asyncio.BaseTransport) -> str:
    """Return the host that a connection comes from, without its port; empty if it is not known."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""
