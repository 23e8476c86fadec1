"""Mail between daemons in memory: the outbox, what arrives, and the daemons that are known.

Mirrors store/outbox.py and store/known_daemons.py.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from msgspec.structs import replace

from moot.domain.bridge import is_bridge
from moot.domain.errors import Busy, NotFound
from moot.domain.goal import MailTarget
from moot.domain.inbox_message import NoticeState
from moot.domain.mail import DeadMail, Mail
from moot.domain.outbox import (
    KnownDaemon,
    OutboxItem,
    Position,
    Receipt,
    ReceiptResult,
    ReturnedMail,
    make_gone_error,
    make_resent_id,
)
from moot.domain.ports.outbox import CheckTokens, JudgeMail, NoteWritten
from moot.domain.token import Token
from moot.store.memory import accounts, lost_mail, notices
from moot.store.memory import mail as mail_rows
from moot.store.memory.database import Database, OutboxRow
from moot.store.memory.transactions import Transactions


class MemoryOutbox:
    def __init__(self, transactions: Transactions) -> None:
        self._read, self._write = transactions.read, transactions.write

    async def load_store_number(self) -> int:
        return await self._read(lambda db: db.identity)

    async def add(
        self,
        mails: Sequence[Mail],
        *,
        most: int,
        check: CheckTokens | None = None,
        note_written: NoteWritten | None = None,
    ) -> list[OutboxItem]:
        added = tuple(mails)

        def work(db: Database) -> list[OutboxItem]:
            items = _add(db, added, most, check)
            if note_written is not None:
                note_written()
            return items

        return await self._write(work)

    async def list_unpublished(self, stream: str, *, after: int, limit: int) -> list[OutboxItem]:
        def is_wanted(row: OutboxRow) -> bool:
            position = row.item.position
            return row.item.number > after and (position is None or position.stream != stream)

        return await self._read(lambda db: [row.item for row in _list(db, is_wanted)][:limit])

    async def set_positions(self, positions: Mapping[str, Position]) -> None:
        given = dict(positions)
        await self._write(lambda db: _set_positions(db, given))

    async def settle(self, store: int, position: Position, numbers: Sequence[int] = ()) -> int:
        return await self._write(lambda db: _settle(db, store, position, frozenset(numbers)))

    async def receive(self, receipt: Receipt, *, now: float) -> ReceiptResult:
        return await self._write(lambda db: _receive(db, receipt, now))

    async def receive_checked(
        self, goal_ids: Sequence[str], judge: JudgeMail, *, now: float
    ) -> tuple[ReceiptResult, Mapping[str, MailTarget], Sequence[Token]]:
        def work(db: Database) -> tuple[ReceiptResult, Mapping[str, MailTarget], Sequence[Token]]:
            goals, tokens = mail_rows.find_targets(db, goal_ids), accounts.list_tokens(db)
            return _receive(db, judge(goals, tokens), now), goals, tokens

        return await self._write(work)

    async def load_position(self) -> Position | None:
        return await self._read(lambda db: db.inbox_position.get(1))

    async def list_waiting(self, *, limit: int) -> list[OutboxItem]:
        return await self._read(lambda db: [row.item for row in _list(db, _is_mail)][:limit])

    async def count_waiting(self) -> int:
        return await self._read(_count_waiting)

    async def list_failed(self, *, limit: int) -> list[DeadMail]:
        return await self._read(lambda db: [_read_dead(row) for row in lost_mail.list_failed(db)[:limit]])

    async def expire(self, *, before: float, reason: str, now: float, batch: int) -> list[ReturnedMail]:
        return await self._write(lambda db: _expire(db, before, reason, now, batch))

    async def resend(self, mail_id: str, *, now: float) -> Mail:
        return await self._write(lambda db: _resend(db, mail_id, now))


class MemoryKnownDaemons:
    def __init__(self, transactions: Transactions) -> None:
        self._read, self._write = transactions.read, transactions.write

    async def list_all(self) -> list[KnownDaemon]:
        return await self._read(lambda db: sorted(db.known_daemons, key=lambda daemon: daemon.name))

    async def save(self, daemon: KnownDaemon) -> KnownDaemon:
        return await self._write(lambda db: _save_daemon(db, daemon))

    async def forget(self, name: str) -> bool:
        return await self._write(lambda db: db.known_daemons.remove(name))


def _list(db: Database, is_wanted: Callable[[OutboxRow], bool]) -> list[OutboxRow]:
    found = [row for row in db.outbox if not row.failed_at and is_wanted(row)]
    return sorted(found, key=lambda row: row.item.number)


def _is_mail(row: OutboxRow) -> bool:
    return row.item.notice is None


def _count_waiting(db: Database) -> int:
    return len(_list(db, _is_mail))


def _add(db: Database, mails: Sequence[Mail], most: int, check: CheckTokens | None) -> list[OutboxItem]:
    if check is not None:
        check(accounts.list_tokens(db))
    if _count_waiting(db) + len(mails) > most:
        raise Busy(
            f"{most} messages wait for other daemons already",
            fix="See `moot peers outbox`; `max_outbox` under [broker] allows more.",
        )
    items = [_add_one(db, mail) for mail in mails]
    return [item for item in items if item is not None]


def _add_one(db: Database, mail: Mail) -> OutboxItem | None:
    item = notices.insert(db, mail.id, mail)
    has_conversation = mail_rows.find_conversation(db, mail.from_goal) is not None
    if mail.correlation_id and is_bridge(mail.body) and has_conversation and mail.id not in db.sent_bridges:
        db.sent_bridges.put(mail.id, mail)
    return item


def _set_positions(db: Database, positions: Mapping[str, Position]) -> None:
    for item_id, position in positions.items():
        if (row := db.outbox.get(item_id)) is not None:
            db.outbox.put(item_id, replace(row, item=replace(row.item, position=position)))


def _settle(db: Database, store: int, position: Position, numbers: frozenset[int]) -> int:
    def is_received(row: OutboxRow) -> bool:
        at = row.item.position
        is_stored = row.store == store and at is not None and at.stream == position.stream and at <= position
        return is_stored or row.item.number in numbers

    received = _list(db, is_received)
    for row in received:
        db.outbox.remove(row.item.id)
    return len(received)


def _receive(db: Database, receipt: Receipt, now: float) -> ReceiptResult:
    before = db.inbox_position.get(1)
    # What was received before may come again; its mail may be gone with its conversation by now.
    is_again = before is not None and before.stream == receipt.position.stream and before >= receipt.position
    stored: list[Mail] = []
    evicted: list[Mail] = []
    refused = list(receipt.refused)
    for mail in receipt.mails:
        conversation = mail_rows.find_conversation(db, mail.goal_id)
        if conversation is None:
            refused.append(ReturnedMail(mail=mail, state=NoticeState.REFUSED, reason=f"no live goal `{mail.goal_id}`"))
        elif mail_rows.insert(db, conversation, mail):
            stored.append(mail)
            evicted += mail_rows.evict_oldest(db, conversation, now)
        elif mail_rows.has_other_sender(db, mail):
            refused.append(ReturnedMail(mail=mail, state=NoticeState.REFUSED, reason="another message has its id"))
    if is_again:
        refused = []
    for each in refused:
        notices.add(db, [each.mail], each.state, each.reason)
    given_back = [] if is_again else receipt.returned
    returned = [kept for each in given_back if (kept := _fail(db, each, now)) is not None]
    if not is_again:
        db.inbox_position.put(1, receipt.position)
    return ReceiptResult(stored=stored, evicted=evicted, refused=refused, returned=returned)


def _fail(db: Database, returned: ReturnedMail, now: float) -> ReturnedMail | None:
    """Keep a mail that was given back, as it was sent if that is still known; return it if that is new."""
    mail = returned.mail
    before = db.outbox.get(mail.id)
    # Only the daemon it was for can give it back.
    if before is not None and (before.failed_at or before.item.goal_id != mail.goal_id):
        return None
    row = lost_mail.keep_returned(db, mail, returned.reason, now)
    return replace(returned, mail=row.item.mail)


def _read_dead(row: OutboxRow) -> DeadMail:
    return DeadMail(mail=row.item.mail, evicted_at=row.failed_at, reason=row.item.reason)


def _expire(db: Database, before: float, reason: str, now: float, batch: int) -> list[ReturnedMail]:
    old = list(takewhile(lambda row: row.item.mail.sent_at < before, _list(db, lambda _: True)))
    returned: list[ReturnedMail] = []
    for row in old:
        if not _is_mail(row):
            db.outbox.remove(row.item.id)
        elif len(returned) < batch:
            given = ReturnedMail(mail=row.item.mail, state=NoticeState.REFUSED, reason=reason)
            kept = _fail(db, given, now)
            returned += [kept] if kept is not None else []
    return returned


def _resend(db: Database, mail_id: str, now: float) -> Mail:
    row = db.outbox.get(mail_id)
    if row is None or not row.failed_at:
        raise NotFound(f"there is no mail {mail_id} that was given back", fix="List it with `moot peers dead`.")
    if row.store == db.identity:
        raise make_gone_error(mail_id)
    mail = replace(row.item.mail, id=make_resent_id(row.item.mail), sent_at=now)
    lost_mail.forget_told(db, [mail_id])
    db.outbox.remove(mail_id)
    notices.insert(db, mail.id, mail)
    return mail


def _save_daemon(db: Database, daemon: KnownDaemon) -> KnownDaemon:
    known = db.known_daemons.get(daemon.name)
    if known is None:
        return db.known_daemons.put(daemon.name, daemon)
    if known.key != daemon.key:
        return known
    return db.known_daemons.put(daemon.name, replace(known, store=daemon.store, last_seen=daemon.last_seen))
