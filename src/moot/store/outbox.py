"""Mail on its way to other daemons, and what arrives from them: one transaction with its notices and the position."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile

import apsw
import msgspec
from msgspec.structs import replace

from moot.domain.bridge import is_bridge
from moot.domain.errors import Busy, NotFound
from moot.domain.goal import MailTarget
from moot.domain.inbox_message import NoticeState
from moot.domain.mail import DeadMail, Mail
from moot.domain.outbox import (
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
from moot.store import lost_mail, mail_rows, notices, rows, sent_bridges, tokens
from moot.store.mail import find_targets
from moot.store.sqlite import SqliteStore

_COLUMNS = "number, id, content, notice, reason, stream, sequence"
_IS_WAITING = "failed_at = 0 AND notice = ''"
_MOST_WAITING = "SELECT coalesce((SELECT max(number) FROM outbox) - (SELECT min(number) FROM outbox) + 1, 0)"
_mail = msgspec.json.Decoder(Mail)


class SqliteOutbox:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def load_store_number(self) -> int:
        return await self._store.read(notices.load_store_number)

    async def add(
        self,
        mails: Sequence[Mail],
        *,
        most: int,
        check: CheckTokens | None = None,
        note_written: NoteWritten | None = None,
    ) -> list[OutboxItem]:
        def work(db: apsw.Connection) -> list[OutboxItem]:
            items = _add(db, mails, most, check)
            if note_written is not None:
                note_written()
            return items

        return await self._store.post(work, "outbox")

    async def list_unpublished(self, stream: str, *, after: int, limit: int) -> list[OutboxItem]:
        return await self._store.read(
            lambda db: _list(db, "failed_at = 0 AND stream <> ? AND number > ?", stream, after, limit)
        )

    async def set_positions(self, positions: Mapping[str, Position]) -> None:
        given = dict(positions)
        await self._store.post(lambda db: _set_positions(db, given))

    async def settle(self, store: int, position: Position, numbers: Sequence[int] = ()) -> int:
        return await self._store.post(lambda db: _settle(db, store, position, numbers), "settled")

    async def receive(self, receipt: Receipt, *, now: float) -> ReceiptResult:
        return await self._store.post(lambda db: _receive(db, receipt, now), "receipt")

    async def receive_checked(
        self, goal_ids: Sequence[str], judge: JudgeMail, *, now: float
    ) -> tuple[ReceiptResult, Mapping[str, MailTarget], Sequence[Token]]:
        def work(db: apsw.Connection) -> tuple[ReceiptResult, Mapping[str, MailTarget], Sequence[Token]]:
            goals, known = find_targets(db, goal_ids), tokens.list_tokens(db)
            return _receive(db, judge(goals, known), now, goals), goals, known

        return await self._store.post(work, "receipt")

    async def load_position(self) -> Position | None:
        return await self._store.read(_load_position)

    async def list_waiting(self, *, limit: int) -> list[OutboxItem]:
        return await self._store.read(lambda db: _list(db, _IS_WAITING, limit))

    async def count_waiting(self) -> int:
        return await self._store.read(_count_waiting)

    async def list_failed(self, *, limit: int) -> list[DeadMail]:
        return await self._store.read(lambda db: _list_failed(db, limit))

    async def expire(self, *, before: float, reason: str, now: float, batch: int) -> list[ReturnedMail]:
        if not await self._store.read(lambda db: _list_old(db, before, 1)):
            return []
        return await self._store.write(lambda db: _expire(db, before, reason, now, batch), "outbox")

    async def resend(self, mail_id: str, *, now: float) -> Mail:
        return await self._store.write(lambda db: _resend(db, mail_id, now), "outbox")


def _list(db: apsw.Connection, where: str, *values: object) -> list[OutboxItem]:
    found = db.execute(f"SELECT {_COLUMNS} FROM outbox WHERE {where} ORDER BY number LIMIT ?", values)
    return [_item(row) for row in found]


def _item(row: rows.Row) -> OutboxItem:
    number, item_id, content, notice, reason, stream, sequence = row
    return OutboxItem(
        number=number,
        id=item_id,
        mail=_mail.decode(content),
        notice=NoticeState(notice) if notice else None,
        reason=reason,
        position=Position(stream, sequence) if stream else None,
    )


def _count_waiting(db: apsw.Connection) -> int:
    return int(db.execute(f"SELECT count(*) FROM outbox WHERE {_IS_WAITING}").get)


def _add(db: apsw.Connection, mails: Sequence[Mail], most: int, check: CheckTokens | None) -> list[OutboxItem]:
    if check is not None:
        check(tokens.list_tokens(db))
    # The numbers of the items tell how many wait at most, without a look at each of them.
    if db.execute(_MOST_WAITING).get + len(mails) > most and _count_waiting(db) + len(mails) > most:
        raise Busy(
            f"{most} messages wait for other daemons already",
            fix="See `moot peers outbox`; `max_outbox` under [broker] allows more.",
        )
    for mail in mails:
        if mail.correlation_id and is_bridge(mail.body):
            sent_bridges.insert(db, mail)
    numbers = notices.insert_all(db, mails)
    new = [(numbers.pop(mail.id, None), mail) for mail in mails]
    return [OutboxItem(number=number, id=mail.id, mail=mail) for number, mail in new if number is not None]


def _set_positions(db: apsw.Connection, positions: Mapping[str, Position]) -> None:
    given = [(position.stream, position.sequence, item_id) for item_id, position in positions.items()]
    db.executemany("UPDATE outbox SET stream = ?, sequence = ? WHERE id = ?", given)


def _settle(db: apsw.Connection, store: int, position: Position, numbers: Sequence[int]) -> int:
    db.execute(
        "DELETE FROM outbox WHERE store = ? AND stream = ? AND sequence <= ? AND failed_at = 0 AND stream <> ''",
        (store, position.stream, position.sequence),
    )
    removed = db.changes()
    for first, last in _list_ranges(numbers):
        db.execute("DELETE FROM outbox WHERE number BETWEEN ? AND ? AND failed_at = 0", (first, last))
        removed += db.changes()
    return removed


def _list_ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each range of numbers without a gap: one statement removes it."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges


def _load_position(db: apsw.Connection) -> Position | None:
    found = db.execute("SELECT stream, sequence FROM inbox_position").fetchone()
    return None if found is None else Position(*found)


def _receive(db: apsw.Connection, receipt: Receipt, now: float, goals: Collection[str] | None = None) -> ReceiptResult:
    """Write what arrived. `goals` are those of the receipt that exist, if that was read in this transaction."""
    before = _load_position(db)
    # What was received before may come again; its mail may be gone with its conversation by now.
    is_again = before is not None and before.stream == receipt.position.stream and before >= receipt.position
    stored, evicted, rejected = _store(db, receipt.mails, now, goals)
    refused = [] if is_again else [*receipt.refused, *rejected]
    for each in refused:
        notices.add(db, [each.mail], each.state, each.reason)
    given_back = [] if is_again else receipt.returned
    returned = [kept for each in given_back if (kept := _fail(db, each, now)) is not None]
    if not is_again:
        db.execute(
            "INSERT INTO inbox_position VALUES (1, ?1, ?2) ON CONFLICT (id) DO UPDATE SET stream = ?1, sequence = ?2",
            (receipt.position.stream, receipt.position.sequence),
        )
    return ReceiptResult(stored=stored, evicted=evicted, refused=refused, returned=returned)


def _store(
    db: apsw.Connection, mails: Sequence[Mail], now: float, goals: Collection[str] | None
) -> tuple[list[Mail], list[Mail], list[ReturnedMail]]:
    """Write mail that arrived. Return what was not there before, what it evicts, and what is given back."""
    if goals is None:
        known = mail_rows.find_conversations(db, {mail.goal_id for mail in mails})
    else:
        known = mail_rows.list_conversation_numbers(notices.load_store_number(db), goals)
    new = mail_rows.insert_all(db, [(known[mail.goal_id], mail) for mail in mails if mail.goal_id in known])
    stored: list[Mail] = []
    rejected: list[ReturnedMail] = []
    for mail in mails:
        if mail.goal_id not in known:
            reason = f"no live goal `{mail.goal_id}`"
            rejected.append(ReturnedMail(mail=mail, state=NoticeState.REFUSED, reason=reason))
        elif mail.id in new:
            new.discard(mail.id)
            stored.append(mail)
        elif mail_rows.has_other_sender(db, mail):
            reason = "another message has its id"
            rejected.append(ReturnedMail(mail=mail, state=NoticeState.REFUSED, reason=reason))
    evicted: list[Mail] = []
    counts = Counter([known[mail.goal_id] for mail in stored])
    for conversation in mail_rows.list_crowded(db, counts):
        evicted += mail_rows.evict_oldest(db, conversation, now, added=counts[conversation])
    return stored, evicted, rejected


def _fail(db: apsw.Connection, returned: ReturnedMail, now: float) -> ReturnedMail | None:
    """Keep a mail that was given back, as it was sent if that is still known; return it if that is new."""
    mail = returned.mail
    found = db.execute("SELECT content, goal_id, failed_at FROM outbox WHERE id = ?", (mail.id,)).fetchone()
    if found is not None:
        content, goal_id, failed_at = found
        # Only the daemon it was for can give it back.
        if failed_at or goal_id != mail.goal_id:
            return None
        mail = _mail.decode(content)
    lost_mail.keep_returned(db, mail, returned.reason, now)
    return replace(returned, mail=mail)


def _list_failed(db: apsw.Connection, limit: int) -> list[DeadMail]:
    found = db.execute(
        "SELECT content, failed_at, reason FROM outbox WHERE failed_at > 0"
        " ORDER BY failed_at DESC, number DESC LIMIT ?",
        (limit,),
    )
    return [DeadMail(mail=_mail.decode(content), evicted_at=at, reason=reason) for content, at, reason in found]


def _list_old(db: apsw.Connection, before: float, limit: int) -> list[OutboxItem]:
    """Return the oldest items, if they are of mail that was sent before this time; they are in the order of time."""
    return list(takewhile(lambda item: item.mail.sent_at < before, _list(db, "failed_at = 0", limit)))


def _expire(db: apsw.Connection, before: float, reason: str, now: float, batch: int) -> list[ReturnedMail]:
    returned: list[ReturnedMail] = []
    # Notices are short and few; they come back to nobody.
    while old := _list_old(db, before, batch):
        for item in old:
            if item.notice is not None:
                db.execute("DELETE FROM outbox WHERE number = ?", (item.number,))
            elif kept := _fail(db, ReturnedMail(mail=item.mail, state=NoticeState.REFUSED, reason=reason), now):
                returned.append(kept)
        if returned or all(item.notice is None for item in old):
            break
    return returned


def _resend(db: apsw.Connection, mail_id: str, now: float) -> Mail:
    found = db.execute("SELECT content, store FROM outbox WHERE id = ? AND failed_at > 0", (mail_id,)).fetchone()
    if found is None:
        raise NotFound(f"there is no mail {mail_id} that was given back", fix="List it with `moot peers dead`.")
    content, store = found
    if store == notices.load_store_number(db):
        raise make_gone_error(mail_id)
    mail = _mail.decode(content)
    again = replace(mail, id=make_resent_id(mail), sent_at=now)
    lost_mail.forget_told(db, "outbox WHERE id = ?", mail_id)
    db.execute("DELETE FROM outbox WHERE id = ?", (mail_id,))
    notices.insert(db, again.id, again)
    return again
