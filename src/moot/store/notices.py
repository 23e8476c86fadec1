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


def load_store_number(db: apsw.Connection) -> int:
    return int(db.execute("SELECT number FROM store_identity").get)


def add(db: apsw.Connection, mails: Sequence[Mail], state: NoticeState, reason: str) -> None:
    """Write notices about mail from other stores. Mail of this store needs none."""
    own = load_store_number(db) if mails else 0
    for mail in mails:
        sender = read_goal_id(mail.from_goal)
        if sender is not None and sender[0] != own:
            insert(db, make_notice_id(mail.id, state), mail, state, reason)


def insert(
    db: apsw.Connection, item_id: str, mail: Mail, notice: NoticeState | None = None, reason: str = ""
) -> int | None:
    """Write an item and return its number, or None if it is there already."""
    to, own = (mail.goal_id, mail.from_goal) if notice is None else (mail.from_goal, mail.goal_id)
    receiver, here = read_goal_id(to), read_goal_id(own)
    assert receiver is not None, "the receiver is a goal"
    db.execute(
        "INSERT INTO outbox (id, goal_id, store, conversation, content, notice, reason) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO NOTHING",
        (
            item_id,
            to,
            receiver[0],
            here[1] if here is not None else 0,
            msgspec.json.encode(mail).decode(),
            notice or "",
            reason,
        ),
    )
    return db.last_insert_rowid() if db.changes() else None
