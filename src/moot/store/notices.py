"""Rows of the outbox: mail for other daemons, and notices to them about mail that is not read.

Used by outbox.py, and by mail.py and deletion.py, which evict mail.
"""

from collections.abc import Sequence

import apsw
import msgspec

from moot.domain.goal import read_goal_id
from moot.domain.inbox_message import NoticeState
from moot.domain.mail import Mail
from moot.domain.outbox import make_notice_id
from moot.store import rows


def load_store_number(db: apsw.Connection) -> int:
    return int(db.execute("SELECT number FROM store_identity").get)


def add(db: apsw.Connection, mails: Sequence[Mail], state: NoticeState, reason: str) -> None:
    """Write notices about mail from other stores. Mail of this store needs none."""
    own = load_store_number(db) if mails else 0
    for mail in mails:
        sender = read_goal_id(mail.from_goal)
        if sender is not None and sender[0] != own:
            insert(db, make_notice_id(mail.id, state), mail, state, reason)


def remove_unpublished(db: apsw.Connection, mail_id: str, state: NoticeState) -> bool:
    """Remove the notice about a mail if no broker is known to have it; return whether there was one."""
    db.execute("DELETE FROM outbox WHERE id = ? AND stream = '' AND failed_at = 0", (make_notice_id(mail_id, state),))
    return db.changes() > 0


_INSERT = (
    "INSERT INTO outbox (id, goal_id, store, conversation, content, notice, reason) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO NOTHING"
)


def insert(
    db: apsw.Connection, item_id: str, mail: Mail, notice: NoticeState | None = None, reason: str = ""
) -> int | None:
    """Write an item and return its number, or None if it is there already."""
    db.execute(_INSERT, _make_row(item_id, mail, notice, reason))
    return db.last_insert_rowid() if db.changes() else None


def insert_all(db: apsw.Connection, mails: Sequence[Mail]) -> dict[str, int]:
    """Write mail for other daemons; return the numbers of the items that are new, by their ids."""
    newest, before = db.execute("SELECT coalesce(max(number), 0) FROM outbox").get, db.total_changes()
    db.executemany(_INSERT, [_make_row(mail.id, mail) for mail in mails])
    if db.total_changes() - before == len(mails):
        # Each has the number after that of the one before it.
        first = db.last_insert_rowid() - len(mails) + 1
        return {mail.id: number for number, mail in enumerate(mails, start=first)}
    return dict(db.execute("SELECT id, number FROM outbox WHERE number > ?", (newest,)))


def _make_row(item_id: str, mail: Mail, notice: NoticeState | None = None, reason: str = "") -> rows.Row:
    to, own = (mail.goal_id, mail.from_goal) if notice is None else (mail.from_goal, mail.goal_id)
    receiver, here = read_goal_id(to), read_goal_id(own)
    assert receiver is not None, "the receiver is a goal"
    conversation = here[1] if here is not None else 0
    return item_id, to, receiver[0], conversation, msgspec.json.encode(mail).decode(), notice or "", reason
