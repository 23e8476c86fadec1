"""Relay: publishes the outbox to the broker, and removes from it what other daemons have received.

At most one item of each goal is being published, so that its mail stays in order; goals are published in parallel.
Works with remote_directory.py; mail_sender.py wakes it, presence.py reports what others have received.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from moot.domain.errors import MootError
from moot.domain.goal import read_goal_id
from moot.domain.inbox_message import (
    INBOX_SUBJECT,
    NOTICE_SUBJECT,
    MailHeaders,
    encode_message,
    encode_notice,
    list_signed_bytes,
    make_subject,
    write_headers,
)
from moot.domain.outbox import OutboxItem, Position
from moot.domain.peer_address import split_address
from moot.domain.ports.broker import BrokerUnavailable, Parcel
from moot.domain.ports.clock import Clock
from moot.domain.ports.outbox import Outbox
from moot.engine.supervisor import Supervisor
from moot.failpoint import reach
from moot.multiagent.peers.link import DaemonLink
from moot.multiagent.peers.remote_directory import RemoteDirectory

logger = logging.getLogger(__name__)

# How many items are in memory, and for how many goals items are published at the same time.
_MOST_LOADED = 1_000
_MOST_AT_ONCE = 64
# After this time an item that the broker did not accept is tried again.
_RETRY_SECONDS = 1.0


class Relay:
    def __init__(
        self, *, link: DaemonLink, directory: RemoteDirectory, outbox: Outbox, supervisor: Supervisor, clock: Clock
    ) -> None:
        self._link = link
        self._directory = directory
        self._outbox = outbox
        self._supervisor = supervisor
        self._clock = clock
        self._woken = asyncio.Event()
        # The stream that is published to, and the number of the last item that was loaded for it.
        self._stream = ""
        self._last_loaded = 0
        self._loaded = 0
        # Items that are not published, in their order, by goal; and the goals of which one is being published.
        self._queues: dict[str, deque[OutboxItem]] = {}
        self._publishing: set[str] = set()
        # Goals whose next item was not accepted, for a short time.
        self._resting: set[str] = set()
        # Those who wait for the broker to accept an item.
        self._waiting: dict[str, asyncio.Future[None]] = {}
        # Positions that are to be stored, and how far each store has received.
        self._published: dict[str, tuple[int, Position]] = {}
        self._received: dict[int, Position] = {}
        self._unsettled: set[int] = set()
        self._is_tidying = False

    def start(self) -> None:
        self._supervisor.start("relay", self._run())
        self.wake()

    def wake(self) -> None:
        """Look for items to publish: there are new ones, or the broker or another daemon has returned."""
        self._woken.set()

    async def wait_accepted(self, item_ids: Iterable[str], seconds: float) -> set[str]:
        """Wait until the broker has accepted these items, but not longer than this; return those it has."""
        wanted = list(item_ids)
        futures = [self._waiting[item_id] for item_id in wanted if item_id in self._waiting]
        if futures:
            try:
                async with self._clock.timeout(seconds):
                    await asyncio.wait(futures)
            except TimeoutError:
                pass
        return {item_id for item_id in wanted if item_id in self._waiting and self._waiting[item_id].done()}

    def expect(self, item_ids: Iterable[str]) -> None:
        """Remember whether the broker accepts these items, until `forget_expected`."""
        loop = asyncio.get_running_loop()
        self._waiting.update({item_id: loop.create_future() for item_id in item_ids})

    def forget_expected(self, item_ids: Iterable[str]) -> None:
        for item_id in item_ids:
            if (future := self._waiting.pop(item_id, None)) is not None:
                future.cancel()

    def note_received(self, store: int, position: Position) -> None:
        """Note that a store has received everything up to this position."""
        if self._received.get(store) != position:
            self._received[store] = position
            self._unsettled.add(store)
            self._tidy_soon()

    # ---- publishing -------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if self._published or self._unsettled:
                self._tidy_soon()
            if not self._link.is_up:
                continue
            try:
                await self._load()
            except MootError as error:
                logger.warning("mail for other daemons cannot be read: %s", error.message)
                self._clock.call_later(_RETRY_SECONDS, self.wake)
            self._publish_next()

    async def _load(self) -> None:
        """Load items that follow the loaded ones; all of them from the first if the broker has another stream."""
        stream = self._link.broker.stream
        if stream != self._stream:
            if self._publishing:
                # What is being published belongs to the other stream. Its end wakes this again.
                self._queues.clear()
                self._loaded = 0
                return
            self._queues.clear()
            self._stream, self._last_loaded, self._loaded = stream, 0, 0
        while (room := _MOST_LOADED - self._loaded) > 0:
            items = await self._outbox.list_unpublished(stream, after=self._last_loaded, limit=room)
            if stream != self._stream or stream != self._link.broker.stream:
                return
            for item in items:
                self._queues.setdefault(item.goal_id, deque()).append(item)
                self._last_loaded = item.number
            self._loaded += len(items)
            if len(items) < room:
                return

    def _publish_next(self) -> None:
        if not self._link.is_up or self._stream != self._link.broker.stream:
            return
        for goal_id in [each for each in self._queues if each not in self._publishing and each not in self._resting]:
            if len(self._publishing) >= _MOST_AT_ONCE:
                return
            if self._may_publish(goal_id):
                self._publishing.add(goal_id)
                self._supervisor.start(f"publish mail for {goal_id}", self._publish_queue(goal_id, self._stream))

    def _may_publish(self, goal_id: str) -> bool:
        numbers = read_goal_id(goal_id)
        return numbers is not None and self._directory.may_publish_to(numbers[0])

    async def _publish_queue(self, goal_id: str, stream: str) -> None:
        """Publish the items of a goal one after the other, until none is left or one is not accepted."""
        try:
            while (queue := self._queues.get(goal_id)) and stream == self._stream and self._may_publish(goal_id):
                item = queue[0]
                position = await self._publish(item)
                if self._queues.get(goal_id) is not queue:
                    # They were dropped, because the broker has another stream.
                    return
                queue.popleft()
                self._loaded -= 1
                self._note_published(item, position)
                if not queue:
                    del self._queues[goal_id]
        except BrokerUnavailable as error:
            logger.info("the broker did not accept mail for goal %s: %s", goal_id, error.message)
            if self._link.is_up:
                self._resting.add(goal_id)
                self._clock.call_later(_RETRY_SECONDS, lambda: self._end_rest(goal_id))
        finally:
            self._publishing.discard(goal_id)
            self.wake()

    def _end_rest(self, goal_id: str) -> None:
        self._resting.discard(goal_id)
        self.wake()

    async def _publish(self, item: OutboxItem) -> Position:
        parcel = self._make_parcel(item)
        position = await self._link.broker.publish(parcel, message_id=item.id)
        reach("relay.published")
        return position

    def _make_parcel(self, item: OutboxItem) -> Parcel:
        mail = item.mail
        if item.notice is None:
            sent = replace(mail, to_agent=split_address(mail.to_agent)[0])
            subject, payload = make_subject(INBOX_SUBJECT, mail.goal_id), encode_message(sent)
        else:
            # The sender is known by its own daemon without the name of that.
            sent = replace(mail, from_agent=split_address(mail.from_agent)[0])
            subject = make_subject(NOTICE_SUBJECT, mail.from_goal)
            payload = encode_notice(sent, item.notice, item.reason)
        headers = MailHeaders(id=item.id, daemon=self._link.name, thread=mail.thread, hops=mail.hops, taint=mail.taint)
        signature = self._link.identity.sign(list_signed_bytes(subject, headers, payload))
        return Parcel(subject=subject, payload=payload, headers=write_headers(replace(headers, signature=signature)))

    # ---- bookkeeping ------------------------------------------------------------------------------

    def _note_published(self, item: OutboxItem, position: Position) -> None:
        if (future := self._waiting.get(item.id)) is not None and not future.done():
            future.set_result(None)
        numbers = read_goal_id(item.goal_id)
        assert numbers is not None, "items are for goals"
        self._published[item.id] = numbers[0], position
        self._tidy_soon()

    def _tidy_soon(self) -> None:
        if not self._is_tidying:
            self._is_tidying = True
            self._supervisor.start("tidy the outbox", self._tidy())

    async def _tidy(self) -> None:
        """Store positions, and remove what was received. After a failure it is tried again: nothing is forgotten."""
        published: dict[str, tuple[int, Position]] = {}
        unsettled: set[int] = set()
        try:
            while self._published or self._unsettled:
                published, self._published = self._published, {}
                # An item may have been received before its position was stored.
                unsettled, self._unsettled = self._unsettled | {store for store, _ in published.values()}, set()
                if published:
                    await self._outbox.set_positions({item_id: at for item_id, (_, at) in published.items()})
                for store in sorted(unsettled & self._received.keys()):
                    await self._outbox.settle(store, self._received[store])
        except MootError as error:
            logger.warning("the outbox cannot be written: %s", error.message)
            self._published = published | self._published
            self._unsettled |= unsettled
            self._clock.call_later(_RETRY_SECONDS, self.wake)
        finally:
            self._is_tidying = False
