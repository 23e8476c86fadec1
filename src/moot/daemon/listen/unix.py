"""The Unix socket listener, accessible to the owner only."""

import asyncio
import logging
import os
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import Any, Self

from moot.daemon.listen.frame_connection import Connection
from moot.daemon.paths import socket_address
from moot.daemon.principal import OWNER
from moot.daemon.requests.exchange import Serving
from moot.domain.errors import Busy, ConfigError, Conflict, Forbidden

logger = logging.getLogger(__name__)

_PEER = struct.Struct("3i")


class OwnerConnection(Connection):
    """A connection that is refused unless, according to the kernel, the peer is the same user or root."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        try:
            self._serving.admission.open_owner(self)
        except Busy as error:
            self.refuse(error)
            return
        uid = _peer_uid(transport.get_extra_info("socket"))
        if uid not in (None, 0, os.geteuid()):
            logger.warning("refused a connection from uid %s", uid)
            self.refuse(Forbidden(f"this daemon belongs to another user, not to uid {uid}", fix="Run your own."))


# From Python 3.13 on a server looks up its socket, to remove it when it is closed. We do that, by a path that is valid.
_OPTIONS: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


class OwnerSocket:
    """A socket at `path` that accepts no connections yet. Without a listener it is removed when the `with` ends."""

    def __init__(self, path: Path, bound: socket.socket, inode: tuple[int, int]) -> None:
        self.path = path
        self.bound = bound
        self.inode = inode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.bound.close()
        self.remove()

    def remove(self) -> None:
        # Do not remove the socket of another daemon that may have replaced it.
        if _inode(self.path) == self.inode:
            self.path.unlink(missing_ok=True)


class UnixListener:
    def __init__(self, opened: OwnerSocket, server: asyncio.Server) -> None:
        self._opened = opened
        self._server = server

    @property
    def address(self) -> str:
        return str(self._opened.path)

    def stop_accepting(self) -> None:
        self._server.close()

    async def close(self) -> None:
        self._server.close()
        self._opened.remove()


def open_socket(path: Path) -> OwnerSocket:
    """Take `path`, in a folder accessible to the owner only. Raise Conflict if another process listens there."""
    try:
        bound = _bind(path)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {path}: {error.strerror or error}",
            fix="Make the folder writable, or set MOOT_HOME to one that is.",
        ) from error
    inode = _inode(path)
    if inode is None:
        bound.close()
        raise ConfigError(f"the socket was removed: {path}", fix="Start again, and leave the run folder alone.")
    return OwnerSocket(path, bound, inode)


async def listen(opened: OwnerSocket, serving: Serving) -> UnixListener:
    """Accept the connections of an open socket."""
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(
        lambda: OwnerConnection(serving, principal=OWNER, name="unix"), sock=opened.bound, backlog=512, **_OPTIONS
    )
    return UnixListener(opened, server)


def _bind(path: Path) -> socket.socket:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    with socket_address(path) as address:
        _clear_stale(path, address)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            bound.bind(address)
            # The folder is already private, so no other user can connect before this line.
            path.chmod(0o600)
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
    return bound


def _clear_stale(path: Path, address: str) -> None:
    """Remove a socket without a listener. Anything else at the path is not touched."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{path} is not a socket", fix="Move it away; Moot needs this path for its socket.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            # A listener exists, but it is busy.
            pass
    raise Conflict(f"another daemon listens on {path}", fix="Use it, or stop it first with `moot down`.")


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _peer_uid(peer: socket.socket) -> int | None:
    """Return the user id of the peer, or None if the system does not support it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    _pid, uid, _gid = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, option, _PEER.size))
    return int(uid)
