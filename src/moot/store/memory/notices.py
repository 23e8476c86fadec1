"""Rows of the outbox in memory: mail for other daemons, and notices to them about mail that is not read.

Mirrors store/notices.py.
"""

from collections.abc import Sequence

from moot.domain.goal import read_goal_id
from moot.domain.inbox_message import NoticeState
from moot.domain.mail import Mail
from moot.domain.outbox import OutboxItem, make_notice_id
from moot.store.memory.database import Database, OutboxRow, check_text


def add(db: Database, mails: Sequence[Mail], state: NoticeState, reason: str) -> None:
    """Write notices about mail from other stores. Mail of this store needs none."""
    for mail in mails:
        sender = read_goal_id(mail.from_goal)
        if sender is not None and sender[0] != db.identity:
            insert(db, make_notice_id(mail.id, state), mail, state, reason)


def remove_unpublished(db: Database, mail_id: str, state: NoticeState) -> bool:
    """Remove the notice about a mail if no broker is known to have it; return whether there was one."""
    item_id = make_notice_id(mail_id, state)
    row = db.outbox.get(item_id)
    return row is not None and row.item.position is None and not row.failed_at and db.outbox.remove(item_id)


def insert(
    db: Database, item_id: str, mail: Mail, notice: NoticeState | None = None, reason: str = ""
) -> OutboxItem | None:
    """Write an item and return it, or None if it is there already."""
    check_text(mail.body, mail.from_agent)
    if item_id in db.outbox:
        return None
    item = OutboxItem(number=db.count_up("outbox"), id=item_id, mail=mail, notice=notice, reason=reason)
    receiver = read_goal_id(item.goal_id)
    own = read_goal_id(mail.from_goal if notice is None else mail.goal_id)
    assert receiver is not None, "the receiver is a goal"
    db.outbox.put(item_id, OutboxRow(item=item, store=receiver[0], conversation=own[1] if own is not None else 0))
    return item
