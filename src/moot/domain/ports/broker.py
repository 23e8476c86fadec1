"""The Broker port: carries mail and presence between daemons. Implemented in moot/broker/ (memory.py, nats.py).

The broker is transport only: what it was given is also in the outbox of the sending store until the receiving daemon
reports that it has stored it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from moot.domain.errors import MootError


class BrokerUnavailable(MootError):
    """The broker cannot be reached, or did not accept a message. The message stays in the outbox."""


class Position(Struct, frozen=True, order=True):
    """The place of a message in the broker's stream. A broker that lost its data begins a stream with another id."""

    stream: str
    sequence: int


class Parcel(Struct, frozen=True, kw_only=True):
    """A message as the broker carries it."""

    subject: str
    payload: bytes
    headers: Mapping[str, str]


class Arrival(Struct, frozen=True, kw_only=True):
    """A message that came from the broker. It may come again: after a crash, or because it was published twice."""

    parcel: Parcel
    position: Position


ArrivalHandler = Callable[[Sequence[Arrival]], Awaitable[None]]
PresenceHandler = Callable[[str, bytes], None]
StateHandler = Callable[[bool], None]


class Broker(Protocol):
    """A connection to the broker. It reconnects by itself until it is closed."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def problem(self) -> str:
        """Why there is no connection, in words a person can act on; empty if there is one."""
        ...

    async def publish(self, parcel: Parcel, *, message_id: str) -> Position:
        """Store a message in the broker's stream and return its place.

        Messages are stored in the order of the calls only if each call is made after the previous one returned. A call
        that failed may have stored its message nevertheless. Raise BrokerUnavailable if the broker did not accept it.
        """
        ...

    def consume(self, store: int, handle: ArrivalHandler) -> AbstractAsyncContextManager[None]:
        """Give the messages for the goals of a store to a handler, in the order of the stream, in batches.

        A batch counts as received when the handler returns. If it raises, or if the connection or the process ends
        first, the batch and all after it are given again.
        """
        ...

    async def announce(self, payload: bytes) -> None:
        """Tell all daemons on the broker about this one. Best effort: not stored, and dropped without a connection."""
        ...

    def observe_presence(self, handle: PresenceHandler) -> None:
        """Give what other daemons announce to a handler, with the name of the daemon."""
        ...

    def observe_state(self, handle: StateHandler) -> None:
        """Tell a handler when the connection comes and goes."""
        ...

    async def start(self) -> None:
        """Begin to connect. It returns without waiting for the connection."""
        ...

    async def close(self) -> None: ...
