"""Deliberate defects of mail between daemons. A simulation that does not find them checks too little."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from moot.domain.lost_mail import TOLD_RECEIVER, TOLD_SENDER
from moot.engine.mailboxes import Mailboxes
from moot.multiagent.peers.transport.confirmations import Confirmations
from moot.multiagent.peers.transport.receiver import Receiver
from moot.multiagent.peers.transport.relay import Relay
from moot.multiagent.peers.wakes import Wakes
from moot.store.memory import mail, notices, runs
from moot.store.memory.outbox import MemoryOutbox
from tests.simulation.mutants import Patch


def _store_twice() -> list[Patch]:
    """Mail that arrives again is stored again."""
    insert = mail.insert

    def insert_again(db: Any, conversation: Any, each: Any) -> bool:
        is_known = each.id in db.mail
        return insert(db, conversation, replace(each, id=f"{each.id}-{len(db.mail)}") if is_known else each)

    return [(mail, "insert", insert_again)]


def _acknowledge_early() -> list[Patch]:
    """The broker is told that a batch was received before it is stored."""
    receive = Receiver._receive

    async def receive_later(self: Any, batch: Any) -> None:
        self._d.supervisor.start("store later", receive(self, batch))

    return [(Receiver, "_receive", receive_later)]


def _forget_on_reconnect() -> list[Patch]:
    """What was published before the broker lost its data is not published again."""
    list_unpublished = MemoryOutbox.list_unpublished

    async def list_new(self: Any, stream: str, *, after: int, limit: int) -> Any:
        found = await list_unpublished(self, stream, after=after, limit=limit)
        return [item for item in found if item.position is None]

    def is_published(self: Any, number: int, _stream: str) -> bool:
        return number in self._published

    return [(MemoryOutbox, "list_unpublished", list_new), (Confirmations, "is_published", is_published)]


def _publish_at_once() -> list[Patch]:
    """Several messages for a goal are published at the same time."""
    choose_next = Relay._choose_next

    def choose_all(self: Any) -> Any:
        return [(goal_id, store, item) for goal_id, store, _ in choose_next(self) for item in self._queues[goal_id]]

    return [(Relay, "_choose_next", choose_all)]


def _wake_twice() -> list[Patch]:
    """Mail starts a run although another one was given it."""
    insert = runs._insert

    async def collect_all(self: Any, key: Any, _run_id: str, *, correlation_id: str = "") -> Any:
        return await self._store.list_unread(key)

    def start(self: Any, key: Any, _agent: Any) -> None:
        self._supervisor.start(f"wake {key}", self._wake(key))

    def insert_anyway(db: Any, conversation: Any, request: Any, started: Any, now: float) -> None:
        for item in request.delivers:
            db.deliveries.remove(item)
        insert(db, conversation, request, started, now)

    return [(Mailboxes, "collect", collect_all), (Wakes, "_start", start), (runs, "_insert", insert_anyway)]


def _tell_again() -> list[Patch]:
    """That an agent was told of lost mail is not stored."""
    deliver = runs._deliver

    def deliver_mail(db: Any, item: str, *where: Any) -> None:
        if not item.startswith((TOLD_SENDER, TOLD_RECEIVER)):
            deliver(db, item, *where)

    return [(runs, "_deliver", deliver_mail)]


def _report_held() -> list[Patch]:
    """That mail was evicted is said although a run may still show it."""
    return [(Mailboxes, "is_held", lambda *_given: False)]


def _report_collected() -> list[Patch]:
    """That mail was evicted is said while it is being read for a run."""

    def is_taken(self: Any, mail_id: str, _agent: str) -> bool:
        is_held = any(mail_id in taken for taken in self._taken.values())
        self._is_awaited |= is_held
        return is_held

    return [(Mailboxes, "is_held", is_taken)]


def _keep_notice() -> list[Patch]:
    """The notice that mail was evicted is kept although it was shown after that."""
    return [(notices, "remove_unpublished", lambda *_given: False)]


MAIL_MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "store mail twice": _store_twice,
    "acknowledge mail before the commit": _acknowledge_early,
    "forget mail on reconnect": _forget_on_reconnect,
    "publish mail at once": _publish_at_once,
    "wake twice": _wake_twice,
    "tell of lost mail again": _tell_again,
    "report mail that is held": _report_held,
    "report mail that is being collected": _report_collected,
    "keep the notice of mail that was shown": _keep_notice,
}
