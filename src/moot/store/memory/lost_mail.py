"""Lost mail in memory, of which its sender or its receiver was not told. Mirrors store/lost_mail.py."""

from collections.abc import Iterable

from msgspec.structs import replace

from moot.domain.goal import make_goal_id
from moot.domain.lost_mail import (
    MOST_LOST,
    TOLD_RECEIVER,
    TOLD_SENDER,
    LostMail,
    make_evicted,
    make_missed,
    make_returned,
)
from moot.domain.mail import Mail
from moot.domain.outbox import MOST_FAILED
from moot.store.memory import notices
from moot.store.memory.database import ConversationRow, Database, MailRow, OutboxRow


def list_untold(db: Database, conversation: ConversationRow | None) -> list[LostMail]:
    if conversation is None:
        return []
    goal_id = make_goal_id(db.identity, conversation.id)
    missed = [
        make_missed(row.mail, row.evicted_at) for row in _newest(db, db.mail.find("conversation", conversation.id))
    ]
    sent = [
        make_evicted(row.mail, db.conversations[row.conversation].key.sender, row.evicted_at)
        for row in _newest(db, db.mail.find("from_goal", goal_id))
    ]
    returned = _list_returned(db, conversation.id)
    return [lost for lost in (*missed, *sent, *returned) if lost.told_id not in db.deliveries]


def is_dead(db: Database, row: MailRow) -> bool:
    return bool(row.evicted_at) and db.deliveries.get(row.mail.id) is None


def _newest(db: Database, rows: Iterable[MailRow]) -> list[MailRow]:
    evicted = sorted((row for row in rows if row.evicted_at), key=lambda row: row.number)
    return [row for row in evicted[-MOST_LOST:] if is_dead(db, row)]


def _list_returned(db: Database, conversation: int) -> list[LostMail]:
    rows = [row for row in db.outbox.find("conversation", conversation) if row.failed_at]
    rows = [row for row in rows if TOLD_SENDER + row.item.id not in db.deliveries]
    rows.sort(key=lambda row: row.item.number)
    made = (make_returned(row.item.mail, row.item.reason, row.failed_at) for row in rows[-MOST_LOST:])
    return [lost for lost in made if lost is not None]


def list_failed(db: Database) -> list[OutboxRow]:
    """Return the mail that was given back, newest first."""
    found = [row for row in db.outbox if row.failed_at]
    return sorted(found, key=lambda row: (row.failed_at, row.item.number), reverse=True)


def keep_returned(db: Database, mail: Mail, reason: str, now: float) -> OutboxRow:
    """Keep a mail of this store that was given back, so that its sender is told; the oldest of too many is removed."""
    notices.insert(db, mail.id, mail)
    row = db.outbox[mail.id]
    db.outbox.put(mail.id, replace(row, item=replace(row.item, reason=reason), failed_at=now))
    for old in list_failed(db)[MOST_FAILED:]:
        forget_told(db, [old.item.id])
        db.outbox.remove(old.item.id)
    return row


def forget_told(db: Database, mail_ids: Iterable[str]) -> None:
    """Remove what was told of some mail, which is gone or no longer lost."""
    for mail_id in mail_ids:
        for told in (TOLD_SENDER, TOLD_RECEIVER):
            db.deliveries.remove(told + mail_id)


def forget_of_conversation(db: Database, number: int) -> None:
    """Remove what was told of the mail of a conversation, and what it was told of its own."""
    goal_id = make_goal_id(db.identity, number)
    forget_told(db, [row.mail.id for row in db.mail.find("conversation", number)])
    forget_told(db, [row.mail.id for row in db.mail.find("from_goal", goal_id)])
    forget_told(db, [row.item.id for row in db.outbox.find("conversation", number)])
