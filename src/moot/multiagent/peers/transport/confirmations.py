"""Confirmations: removes from the outbox what other daemons have received, and notes where the rest was published.

relay.py reports what the broker has accepted, presence.py what the store of another daemon has received. That usually
follows within a second, so that the position of an item is stored only if it does not: an item whose position is lost
in a crash is published again, and its receiver ignores it.
"""

import logging
from collections.abc import Collection, Sequence

from msgspec import Struct

from moot.domain.errors import MootError
from moot.domain.outbox import OutboxItem, Position
from moot.domain.ports.clock import Clock
from moot.domain.ports.outbox import Outbox
from moot.engine.supervisor import Supervisor

logger = logging.getLogger(__name__)

# After this time the position of an item is stored.
_KEEP_SECONDS = 2.0


class _Published(Struct, frozen=True, gc=False):
    """An item that the broker has accepted, and when."""

    item_id: str
    store: int
    position: Position
    at: float


class Confirmations:
    def __init__(self, *, outbox: Outbox, supervisor: Supervisor, clock: Clock) -> None:
        self._outbox = outbox
        self._supervisor = supervisor
        self._clock = clock
        # Items whose position is not stored, by their number, oldest first; and how far each store has received.
        self._published: dict[int, _Published] = {}
        self._received: dict[int, Position] = {}
        # Stores that may have received items which are still in the outbox.
        self._unsettled: set[int] = set()
        self._is_settling = False
        self._is_keeping = False

    async def stop(self) -> None:
        """Store where the rest was published, so that it is not published again after the next start."""
        await self._store_positions(latest=self._clock.monotonic())

    def note_published(self, accepted: Sequence[tuple[OutboxItem, int, Position]]) -> None:
        """Note that the broker has accepted items, each for a store."""
        now = self._clock.monotonic()
        published, received = self._published, self._received
        for item, store, position in accepted:
            # At the end, also if it was published before, to another stream.
            published.pop(item.number, None)
            published[item.number] = _Published(item.id, store, position, now)
            if store in received and _includes(received[store], position):
                # It may have been received before the broker's answer came.
                self._settle_soon(store)
        if published and not self._is_keeping:
            self._is_keeping = True
            self._supervisor.start("store positions", self._store_late_positions())

    def note_received(self, store: int, position: Position) -> None:
        """Note that a store has received everything up to this position."""
        if self._received.get(store) != position:
            self._received[store] = position
            self._settle_soon(store)

    def is_published(self, number: int, stream: str) -> bool:
        """Whether an item without a stored position was published to this stream."""
        published = self._published.get(number)
        return published is not None and published.position.stream == stream

    def _settle_soon(self, store: int) -> None:
        self._unsettled.add(store)
        if not self._is_settling:
            self._is_settling = True
            self._supervisor.start("settle the outbox", self._settle())

    async def _settle(self) -> None:
        """Remove what was received. If that fails, it is tried again with what is received next."""
        try:
            while self._unsettled:
                store = min(self._unsettled)
                position = self._received[store]
                numbers = self._list_received(store, position)
                self._unsettled.discard(store)
                await self._outbox.settle(store, position, numbers)
                self._forget(numbers)
        except MootError as error:
            logger.warning("the outbox cannot be written: %s", error.message)
        finally:
            self._is_settling = False

    def _list_received(self, store: int, received: Position) -> list[int]:
        stream, last = received.stream, received.sequence
        found: list[int] = []
        for number, published in self._published.items():
            position = published.position
            if published.store == store and position.stream == stream and position.sequence <= last:
                found.append(number)
        return found

    def _forget(self, numbers: Collection[int]) -> None:
        published = self._published
        for number in numbers:
            published.pop(number, None)

    async def _store_late_positions(self) -> None:
        """Store the positions of items that are not received for some time, while there are any."""
        try:
            while self._published:
                await self._clock.sleep(_KEEP_SECONDS)
                await self._store_positions(latest=self._clock.monotonic() - _KEEP_SECONDS)
        finally:
            self._is_keeping = False

    async def _store_positions(self, *, latest: float) -> None:
        """Store the positions of items that were published until then."""
        late = {number: each for number, each in self._published.items() if each.at <= latest}
        if not late:
            return
        try:
            await self._outbox.set_positions({each.item_id: each.position for each in late.values()})
        except MootError as error:
            logger.warning("the outbox cannot be written: %s", error.message)
            return
        self._forget([number for number, each in late.items() if self._published.get(number) is each])
        for store in {each.store for each in late.values()} & self._received.keys():
            # They may have been received meanwhile.
            self._settle_soon(store)


def _includes(received: Position, position: Position) -> bool:
    return received.stream == position.stream and position.sequence <= received.sequence
