"""Admission: limits the open connections and counts the rejected ones. Used by the listeners and by exchange.py."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Protocol

from msgspec import Struct

from moot.daemon.principal import Principal
from moot.domain.errors import Busy
from moot.domain.ports.clock import Clock

logger = logging.getLogger(__name__)

# How long a connection may stay open before it has authenticated, whatever it sends. The listeners answer with an error
# a little earlier where their protocol has one.
HELLO_SECONDS = 30.0
_UNAUTHENTICATED_SECONDS = HELLO_SECONDS + 5.0
# How long one message or request body may take from its first byte to its last.
MESSAGE_SECONDS = 60.0
_LOG_SECONDS = 60.0
# Less unread data on a connection is not worth counting.
LARGE_UNREAD = 1024 * 1024


class Stoppable(Protocol):
    def stop(self) -> None:
        """Close after sending what was written."""
        ...

    def abort(self) -> None:
        """Close now."""
        ...


class OpenConnections:
    """The connections of all listeners, which add and remove them."""

    def __init__(self) -> None:
        self._open: set[Stoppable] = set()
        self._has_none = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Stoppable]:
        return iter(tuple(self._open))

    def add(self, connection: Stoppable) -> None:
        self._open.add(connection)
        self._has_none.clear()

    def discard(self, connection: Stoppable) -> None:
        self._open.discard(connection)
        if not self._open:
            self._has_none.set()

    async def wait_until_none(self) -> None:
        if self._open:
            await self._has_none.wait()


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """The most connections of each kind at a time. TCP, HTTP and WebSocket share the limits of the network."""

    network: int = 448
    unauthenticated: int = 64
    # Of those without authentication, from one address.
    per_address: int = 48
    per_principal: int = 224
    # On the owner's Unix socket.
    owner: int = 256
    # Requests of one principal other than the owner that are being answered.
    requests: int = 1024
    # Of those, requests whose answers may be large and are prepared in memory; the others wait.
    large_reads: int = 4
    # Bytes that one principal other than the owner has not read, on all its connections.
    unread: int = 64 * 1024 * 1024

    @classmethod
    def from_descriptors(cls, descriptors: int) -> "ConnectionLimits":
        """Return limits that leave half of the file descriptors to the owner's socket, files, models and tools."""
        network = max(16, min(4096, descriptors // 2 - 64))
        unauthenticated = min(64, network // 2)
        return cls(
            network=network,
            unauthenticated=unauthenticated,
            per_address=unauthenticated * 3 // 4,
            per_principal=max(8, min(256, network // 2)),
            owner=max(16, min(1024, descriptors // 4)),
        )


class _Unauthenticated(Struct, frozen=True):
    """A connection that has not authenticated."""

    address: str
    since: float


class Admission:
    """Counts the open connections. Over a limit, the oldest connection without authentication is closed first."""

    def __init__(self, clock: Clock, limits: ConnectionLimits | None = None) -> None:
        self.clock = clock
        self.limits = limits or ConnectionLimits()
        # Why connections were rejected, and how often.
        self.rejected: Counter[str] = Counter()
        # Connections without authentication, oldest first.
        self._unauthenticated: dict[Stoppable, _Unauthenticated] = {}
        self._principals: dict[Stoppable, str] = {}
        # How to count the bytes that the client of a connection has not read yet.
        self._unread: dict[Stoppable, Callable[[], int]] = {}
        self._by_address: Counter[str] = Counter()
        self._by_principal: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()
        # One for each token that has read something; there are few, since the owner makes them.
        self._large_reads: dict[str, asyncio.Semaphore] = {}
        self._owners: set[Stoppable] = set()
        self._logged_at = float("-inf")
        self._logged = 0

    @property
    def unauthenticated(self) -> int:
        return len(self._unauthenticated)

    @property
    def network(self) -> int:
        return len(self._unauthenticated) + len(self._principals)

    @property
    def owners(self) -> int:
        return len(self._owners)

    # ---- the network -------------------------------------------------------------------------

    def open(self, connection: Stoppable, address: str, count_unread: Callable[[], int] = int) -> bool:
        """Register a new connection of the network. Return False if there is no room; it must be closed then."""
        if self._by_address[address] >= self.limits.per_address:
            self._evict(f"more than {self.limits.per_address} unauthenticated connections from one address", address)
        if len(self._unauthenticated) >= self.limits.unauthenticated:
            self._evict(f"more than {self.limits.unauthenticated} unauthenticated connections")
        full = f"more than {self.limits.network} connections"
        if self.network >= self.limits.network and not self._evict(full):
            self.reject(full)
            return False
        self._unauthenticated[connection] = _Unauthenticated(address, self.clock.monotonic())
        self._unread[connection] = count_unread
        self._by_address[address] += 1
        return True

    def authenticate(self, connection: Stoppable, principal: Principal) -> None:
        """Assign a connection to a principal. Raise Busy if the principal has too many."""
        if principal.is_owner or self._principals.get(connection) == principal.name:
            return
        if self._by_principal[principal.name] >= self.limits.per_principal:
            self.reject(f"more than {self.limits.per_principal} connections of one token")
            raise Busy(
                f"the token '{principal.name}' has {self.limits.per_principal} connections open",
                fix="Close some, or send several requests on one connection.",
            )
        if not self._remove(connection):
            return
        self._principals[connection] = principal.name
        self._by_principal[principal.name] += 1

    def has_unread_room(self, connection: Stoppable) -> bool:
        """Whether more may be buffered for the principal of a connection, given what it has not read anywhere."""
        name = self._principals.get(connection)
        if name is None:
            return True
        unread = sum(self._unread[each]() for each, holder in self._principals.items() if holder == name)
        if unread <= self.limits.unread:
            return True
        self.reject(f"more than {self.limits.unread >> 20} MiB were not read by one token")
        return False

    def close(self, connection: Stoppable) -> None:
        self._remove(connection)
        self._unread.pop(connection, None)
        self._owners.discard(connection)

    async def expire(self) -> None:
        """Close connections that took too long to authenticate."""
        before = self.clock.monotonic() - _UNAUTHENTICATED_SECONDS
        for connection in [each for each, opened in self._unauthenticated.items() if opened.since < before]:
            self.reject(f"no authentication within {_UNAUTHENTICATED_SECONDS:.0f} seconds")
            self.close(connection)
            connection.abort()

    # ---- the owner's socket ------------------------------------------------------------------

    def open_owner(self, connection: Stoppable) -> None:
        """Register a connection of the owner. Raise Busy if there are too many."""
        if len(self._owners) >= self.limits.owner:
            self.reject(f"more than {self.limits.owner} connections of the owner")
            raise Busy(
                f"the daemon is overloaded: {self.limits.owner} connections of its owner are open",
                fix="Close some clients (`moot status` counts the connections), or restart it: moot down, moot up.",
            )
        self._owners.add(connection)

    # ---- requests ----------------------------------------------------------------------------

    def begin_request(self, principal: Principal) -> None:
        """Count a request that is being answered. Raise Busy if the principal has too many."""
        if not principal.is_owner and self._requests[principal.name] >= self.limits.requests:
            raise Busy(
                f"{self.limits.requests} requests of the token '{principal.name}' are in flight",
                fix="Wait for some answers.",
            )
        self._requests[principal.name] += 1

    def end_request(self, principal: Principal) -> None:
        _decrement(self._requests, principal.name)

    @asynccontextmanager
    async def read_large(self, principal: Principal) -> AsyncIterator[None]:
        """Wait until the principal may have another large answer prepared. The owner need not wait."""
        if principal.is_owner:
            yield
            return
        turns = self._large_reads.setdefault(principal.name, asyncio.Semaphore(self.limits.large_reads))
        async with turns:
            yield

    # ------------------------------------------------------------------------------------------

    def _remove(self, connection: Stoppable) -> bool:
        opened = self._unauthenticated.pop(connection, None)
        if opened is not None:
            _decrement(self._by_address, opened.address)
            return True
        name = self._principals.pop(connection, None)
        if name is not None:
            _decrement(self._by_principal, name)
        return name is not None

    def _evict(self, reason: str, address: str = "") -> bool:
        """Close the oldest connection without authentication, of this address if one is given."""
        found = (each for each, opened in self._unauthenticated.items() if address in ("", opened.address))
        oldest = next(found, None)
        if oldest is None:
            return False
        self.reject(reason)
        self.close(oldest)
        oldest.abort()
        return True

    def reject(self, reason: str) -> None:
        """Count a connection that was rejected, and log it."""
        self.rejected[reason] += 1
        now = self.clock.monotonic()
        # At most one line a minute, because anybody on this machine can cause it.
        if now - self._logged_at >= _LOG_SECONDS:
            total = self.rejected.total()
            logger.warning("rejected %d connections: %s", total - self._logged, reason)
            self._logged_at, self._logged = now, total


def _decrement(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]
