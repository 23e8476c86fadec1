"""The Broker port: carries mail and presence between daemons. Implemented in moot/broker/ (memory.py, nats.py).

The broker is transport only: what it was given is also in the outbox of the sending store until the receiving daemon
reports that it has stored it.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from moot.domain.errors import Unavailable
from moot.domain.inbox_message import INBOX_SUBJECT as INBOX_SUBJECT  # noqa: PLC0414 - part of the port
from moot.domain.inbox_message import NOTICE_SUBJECT as NOTICE_SUBJECT  # noqa: PLC0414
from moot.domain.outbox import Position as Position  # noqa: PLC0414

# The subject of presence ends with the name of a daemon.
PRESENCE_SUBJECT = "moot.presence."


class BrokerUnavailable(Unavailable):
    """The broker cannot be reached, or did not accept a message. The message stays in the outbox."""


class BrokerMessage(Struct, frozen=True, kw_only=True, gc=False):
    """A message as the broker carries it. Its subject ends with the id of the goal it is for."""

    subject: str
    payload: bytes
    headers: Mapping[str, str]


class Arrival(Struct, frozen=True, kw_only=True, gc=False):
    """A message that came from the broker. It may come again: after a crash, or because it was published twice."""

    message: BrokerMessage
    position: Position
    # The id it was published with; another program may have given it none.
    message_id: str


class Batch(Struct, frozen=True, kw_only=True):
    """Messages in the order of the stream. Every message for the store up to the position is in it or came before.

    The first batch after the start of consuming may be empty: then nothing is left in the stream for the store.
    """

    arrivals: tuple[Arrival, ...]
    position: Position


BatchHandler = Callable[[Batch], Awaitable[None]]
PresenceHandler = Callable[[str, bytes], None]
StateHandler = Callable[[bool], None]
# Is given the subject of a message that is for no goal.
MalformedHandler = Callable[[str], None]


class Broker(Protocol):
    """A connection to the broker. It reconnects by itself until it is closed."""

    @property
    def is_shared(self) -> bool:
        """Whether other daemons can be on this broker. If not, there is nothing to announce and nobody to send to."""
        ...

    @property
    def name(self) -> str:
        """The name under which this daemon announces itself: a-z, 0-9 and -."""
        ...

    @property
    def is_connected(self) -> bool: ...

    @property
    def problem(self) -> str:
        """What is wrong, in words a person can act on: why there is no connection, or why messages do not arrive."""
        ...

    @property
    def stream(self) -> str:
        """The id of the broker's stream, as of the last connection; empty before the first.

        Messages that were published to a stream with another id may be lost: they are published again.
        """
        ...

    async def publish_all(self, messages: Mapping[str, BrokerMessage]) -> dict[str, Position | BrokerUnavailable]:
        """Store messages in the broker's stream; return for each the place, or why the broker did not accept it.

        They are given by their ids. They may be stored in any order: for a certain one, call this after the previous
        call has returned. A message that was not accepted may be stored nevertheless.
        """
        ...

    def consume(self, store: int, handle: BatchHandler) -> AbstractAsyncContextManager[None]:
        """Give the messages for the goals of a store to a handler, in the order of the stream, in batches.

        A batch counts as received when the handler returns. If it raises, or if the connection or the process ends
        first, the batch and all after it are given again.
        """
        ...

    async def announce(self, payload: bytes) -> None:
        """Tell all daemons on the broker about this one. Best effort: not stored, and dropped without a connection."""
        ...

    def observe_presence(self, handle: PresenceHandler) -> None:
        """Give what other connections announce to a handler, with the name under which they announce it."""
        ...

    def observe_state(self, handle: StateHandler) -> None:
        """Tell a handler when the connection comes and goes."""
        ...

    def observe_malformed(self, handle: MalformedHandler) -> None:
        """Give a handler the subjects of messages for no goal at all. They are removed from the stream, in time."""
        ...

    async def start(self) -> None:
        """Begin to connect. It returns without waiting for the connection."""
        ...

    async def close(self) -> None: ...
