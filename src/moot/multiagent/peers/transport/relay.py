"""Relay: publishes the outbox to the broker. confirmations.py removes from it what other daemons have received.

At most one item of each goal is being published, so that its mail stays in order; goals are published together.
That mail was evicted is not said while a run may still show it, which removes the notice (store/deliveries.py).
Works with remote_directory.py and batch_signatures.py; remote_sender.py gives it what was stored.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from moot.domain.errors import MootError
from moot.domain.goal import read_goal_id
from moot.domain.inbox_message import (
    INBOX_SUBJECT,
    NOTICE_SUBJECT,
    NoticeState,
    encode_message,
    encode_notice,
    list_signed_bytes,
    make_subject,
    write_about,
    write_headers,
)
from moot.domain.mail import Mail
from moot.domain.outbox import OutboxItem, Position
from moot.domain.peer_address import split_address
from moot.domain.ports.broker import BrokerMessage, BrokerUnavailable
from moot.domain.ports.clock import Clock
from moot.domain.ports.outbox import Outbox
from moot.engine.mailboxes import Mailboxes
from moot.engine.supervisor import Supervisor
from moot.failpoint import reach
from moot.multiagent.peers.daemons.batch_signatures import sign_all
from moot.multiagent.peers.daemons.link import DaemonLink
from moot.multiagent.peers.daemons.remote_directory import RemoteDirectory
from moot.multiagent.peers.transport.confirmations import Confirmations

logger = logging.getLogger(__name__)

# How many items are in memory, and for how many goals items are published at the same time.
_MOST_LOADED = 2_000
_MOST_AT_ONCE = 512
# After this time an item that the broker did not accept is tried again.
_RETRY_SECONDS = 1.0

# The subject, the id, the header and the payload of a message.
_Unsigned = tuple[str, str, str, bytes]
# A goal, the number of its store, and the item that is published next.
_Chosen = tuple[str, int, OutboxItem]


class Relay:
    def __init__(  # noqa: PLR0913 - all that publishing takes
        self,
        *,
        link: DaemonLink,
        directory: RemoteDirectory,
        outbox: Outbox,
        mailboxes: Mailboxes,
        confirmations: Confirmations,
        supervisor: Supervisor,
        clock: Clock,
    ) -> None:
        self._link = link
        self._confirmations = confirmations
        self._directory = directory
        self._outbox = outbox
        self._mailboxes = mailboxes
        self._supervisor = supervisor
        self._clock = clock
        self._woken = asyncio.Event()
        # Whether the store may have items that are not loaded, and whether they are being loaded.
        self._must_load = True
        self._is_loading = False
        # The stream that is published to, and the number of the last item that was loaded for it.
        self._stream = ""
        self._last_loaded = 0
        self._loaded = 0
        # Items that are not published, in their order, by goal; and the goals of which one is being published.
        self._queues: dict[str, deque[OutboxItem]] = {}
        self._publishing: set[str] = set()
        # Evicted mail that a run may still show, by the numbers of the notices about it.
        self._held: dict[int, Mail] = {}
        # Goals whose next item was not accepted, for a short time.
        self._paused: set[str] = set()
        # Why the broker did not accept the last item; empty if it did.
        self._refusal = ""
        # The messages of mail that is being stored, with the mail, by id; and the name of this daemon in them.
        self._prepared: dict[str, tuple[Mail, BrokerMessage]] = {}
        self._prepared_for = ""
        # Who is told that the broker has accepted an item.
        self._waiting: dict[str, Callable[[str], None]] = {}
        mailboxes.observe_release(self._on_release)

    def start(self) -> None:
        self._supervisor.start("relay", self._run())
        self.wake()

    def wake(self) -> None:
        """Look for items to publish: there are new ones, or the broker or another daemon has returned."""
        self._must_load = True
        self._woken.set()

    def prepare(self, mails: Sequence[Mail]) -> None:
        """Sign the messages of mail that is about to be stored, so that it is published sooner once it is."""
        if self._link.is_up:
            name = self._link.name
            unsigned = [_write_mail(mail, name) for mail in mails[:_MOST_AT_ONCE]]
            messages = self._sign(unsigned)
            self._prepared_for = name
            self._prepared = {mail.id: (mail, messages[mail.id]) for mail in mails[:_MOST_AT_ONCE]}

    def add(self, items: Sequence[OutboxItem]) -> None:
        """Publish items that were just stored; if some precede them that were not loaded, those first."""
        if items and self._can_append(items):
            self._append(items)
            self._publish_next()
        else:
            self.wake()

    def _can_append(self, items: Sequence[OutboxItem]) -> bool:
        return (
            not self._must_load
            and not self._is_loading
            and self._link.is_up
            and self._stream == self._link.broker.stream
            and self._loaded + len(items) <= _MOST_LOADED
            and all(item.number == number for number, item in enumerate(items, start=self._last_loaded + 1))
        )

    @property
    def refusal(self) -> str:
        """Why the broker does not accept mail although there is a connection; empty if it does."""
        return self._refusal if self._queues and self._link.is_up else ""

    def explain_delay(self) -> str:
        """Return why an item is still in the outbox, for its sender."""
        if not self._link.is_up:
            return "the broker is unavailable; it is sent when it returns"
        return f"{self._refusal or 'the broker has not accepted it yet'}; it is tried again"

    def expect(self, mails: Iterable[Mail], accept: Callable[[str], None]) -> None:
        """Call `accept` once for each of these mails that the broker has accepted, until `forget_expected`."""
        for mail in mails:
            self._waiting[mail.id] = accept

    def forget_expected(self, mails: Iterable[Mail]) -> None:
        for mail in mails:
            self._waiting.pop(mail.id, None)

    # ---- publishing -------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if not self._link.is_up:
                continue
            if self._must_load or self._stream != self._link.broker.stream:
                await self._try_to_load()
            self._publish_next()

    async def _try_to_load(self) -> None:
        self._must_load, self._is_loading = False, True
        try:
            await self._load()
        except MootError as error:
            logger.warning("mail for other daemons cannot be read: %s", error.message)
            self._must_load = True
            self._clock.call_later(_RETRY_SECONDS, self.wake)
        finally:
            self._is_loading = False

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
            self._held.clear()
            self._stream, self._last_loaded, self._loaded = stream, 0, 0
        while (room := _MOST_LOADED - self._loaded) > 0:
            items = await self._outbox.list_unpublished(stream, after=self._last_loaded, limit=room)
            if stream != self._stream or stream != self._link.broker.stream:
                self._must_load = True
                return
            new = [item for item in items if not self._confirmations.is_published(item.number, stream)]
            self._held |= {item.number: item.mail for item in new if item.notice is NoticeState.EVICTED}
            self._append([item for item in new if item.number not in self._held])
            if items:
                self._last_loaded = items[-1].number
            if len(items) < room:
                break
        else:
            # There may be more.
            self._must_load = True
        await self._load_released(stream)

    async def _load_released(self, stream: str) -> None:
        """Load the notices again whose mail no run can show any more. If it was shown, the notice is gone."""
        released = {n for n, mail in self._held.items() if not self._mailboxes.is_held(mail.id, mail.to_agent)}
        last = max(released, default=0)
        after = min(released, default=1) - 1
        while after < last:
            items = await self._outbox.list_unpublished(stream, after=after, limit=min(_MOST_LOADED, last - after))
            if stream != self._link.broker.stream:
                self._must_load = True
                return
            after = items[-1].number if items else last
            self._append([item for item in items if item.number in released])
        for number in released:
            del self._held[number]

    def _on_release(self) -> None:
        if self._held:
            self.wake()

    def _append(self, items: Sequence[OutboxItem]) -> None:
        queues = self._queues
        for item in items:
            goal_id = item.goal_id
            if (queue := queues.get(goal_id)) is None:
                queues[goal_id] = deque((item,))
            else:
                queue.append(item)
        if items:
            self._last_loaded = max(self._last_loaded, items[-1].number)
        self._loaded += len(items)

    def _publish_next(self) -> None:
        if not self._link.is_up or self._stream != self._link.broker.stream:
            return
        chosen = self._choose_next()
        if chosen:
            self._publishing.update([goal_id for goal_id, _, _ in chosen])
            self._supervisor.start("publish mail", self._publish(chosen))

    def _choose_next(self) -> list[_Chosen]:
        """Return the first item of each goal of which nothing is being published."""
        chosen: list[_Chosen] = []
        most = _MOST_AT_ONCE - len(self._publishing)
        may_publish: dict[int, bool] = {}
        publishing, paused = self._publishing, self._paused
        for goal_id, queue in self._queues.items():
            if len(chosen) >= most:
                break
            if goal_id in publishing or goal_id in paused:
                continue
            numbers = read_goal_id(goal_id)
            assert numbers is not None, "items are for goals"
            store = numbers[0]
            if store not in may_publish:
                may_publish[store] = self._directory.may_publish_to(store)
            if may_publish[store]:
                chosen.append((goal_id, store, queue[0]))
        return chosen

    async def _publish(self, chosen: Sequence[_Chosen]) -> None:
        """Publish items, each for another goal. What is not accepted is tried again."""
        try:
            messages = self._make_messages([item for _, _, item in chosen])
            results = await self._link.broker.publish_all(messages)
            reach("relay.published")
            accepted: list[tuple[OutboxItem, int, Position]] = []
            for goal_id, store, item in chosen:
                result = results[item.id]
                if isinstance(result, BrokerUnavailable):
                    self._note_refused(goal_id, result)
                elif self._remove(goal_id, item):
                    accepted.append((item, store, result))
            self._note_accepted(accepted)
        finally:
            self._publishing.difference_update([goal_id for goal_id, _, _ in chosen])
            self._woken.set()

    def _remove(self, goal_id: str, item: OutboxItem) -> bool:
        """Remove an item from its queue; return False if that was dropped, because the broker has another stream."""
        queue = self._queues.get(goal_id)
        if queue is None:
            return False
        if queue[0] is item:
            queue.popleft()
        else:
            queue.remove(item)
        if not queue:
            del self._queues[goal_id]
        return True

    def _note_accepted(self, accepted: Sequence[tuple[OutboxItem, int, Position]]) -> None:
        if not accepted:
            return
        self._refusal = ""
        self._loaded -= len(accepted)
        self._confirmations.note_published(accepted)
        waiting = self._waiting
        for item, _, _ in accepted:
            if (accept := waiting.pop(item.id, None)) is not None:
                accept(item.id)

    def _note_refused(self, goal_id: str, error: BrokerUnavailable) -> None:
        self._refusal = error.message
        logger.info("the broker did not accept mail for goal %s: %s", goal_id, error.message)
        if self._link.is_up:
            self._paused.add(goal_id)
            self._clock.call_later(_RETRY_SECONDS, lambda: self._end_rest(goal_id))

    def _end_rest(self, goal_id: str) -> None:
        self._paused.discard(goal_id)
        self._woken.set()

    def _make_messages(self, items: Sequence[OutboxItem]) -> dict[str, BrokerMessage]:
        name, prepared = self._link.name, self._prepared
        messages: dict[str, BrokerMessage] = {}
        missing: list[OutboxItem] = []
        for item in items:
            found = prepared.pop(item.id, None)
            # The mail is another one if a call that could not store it was repeated.
            if found is not None and found[0] is item.mail and self._prepared_for == name:
                messages[item.id] = found[1]
            else:
                missing.append(item)
        return messages | self._sign([_write(item, name) for item in missing]) if missing else messages

    def _sign(self, unsigned: Sequence[_Unsigned]) -> dict[str, BrokerMessage]:
        signed = sign_all(self._link.identity, [list_signed_bytes(*parts) for parts in unsigned])
        return {
            item_id: BrokerMessage(subject=subject, payload=payload, headers=write_headers(about, signature, proof))
            for (subject, item_id, about, payload), (signature, proof) in zip(unsigned, signed, strict=True)
        }


def _write(item: OutboxItem, daemon: str) -> _Unsigned:
    mail = item.mail
    if item.notice is None:
        return _write_mail(mail, daemon)
    # The sender is known by its own daemon without the name of that.
    payload = encode_notice(mail, item.notice, item.reason, from_agent=split_address(mail.from_agent)[0])
    about = write_about(daemon, mail.thread, mail.hops, mail.taint)
    return make_subject(NOTICE_SUBJECT, mail.from_goal), item.id, about, payload


def _write_mail(mail: Mail, daemon: str) -> _Unsigned:
    payload = encode_message(mail, to_agent=split_address(mail.to_agent)[0])
    about = write_about(daemon, mail.thread, mail.hops, mail.taint)
    return make_subject(INBOX_SUBJECT, mail.goal_id), mail.id, about, payload
