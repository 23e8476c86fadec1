"""Mail that was evicted or given back, and of which its sender or its receiver was not told.

They are told once the table of deliveries has the id of that (domain/lost_mail.py). Used by mail.py, outbox.py and
deletion.py.
"""

import apsw
import msgspec

from moot.domain.conversation import ConversationKey
from moot.domain.goal import make_goal_id
from moot.domain.lost_mail import (
    EXCERPT_CHARS,
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
from moot.store import dialect, notices, rows
from moot.store.mail_rows import COLUMNS, FROM, IS_DEAD, make_mail

_mail = msgspec.json.Decoder(Mail)
# Messages may be long, and only their beginning is told.
_SHORT = COLUMNS.replace(" body,", f" substr(body, 1, {EXCERPT_CHARS}),")
_IS_UNTOLD = "NOT EXISTS (SELECT 1 FROM deliveries WHERE deliveries.item_id = '{told}' || {table}.id)"
_EVICTED = (
    f"SELECT {_SHORT}, conversations.sender, evicted_at {FROM} WHERE number IN (SELECT number FROM mail AS newest"
    f" WHERE newest.{{whose}} = ? AND newest.evicted_at > 0 ORDER BY number DESC LIMIT {MOST_LOST})"
    f" AND {IS_DEAD} AND {{is_untold}} ORDER BY number"
)
_MISSED = _EVICTED.format(whose="conversation", is_untold=_IS_UNTOLD.format(told=TOLD_RECEIVER, table="mail"))
_SENT = _EVICTED.format(whose="from_goal", is_untold=_IS_UNTOLD.format(told=TOLD_SENDER, table="mail"))
_RETURNED = (
    "SELECT content, reason, failed_at FROM outbox WHERE failed_at > 0 AND conversation = ?"
    f" AND {_IS_UNTOLD.format(told=TOLD_SENDER, table='outbox')} ORDER BY number DESC LIMIT {MOST_LOST}"
)
_TOO_MANY_FAILED = (
    "outbox WHERE number IN (SELECT number FROM outbox WHERE failed_at > 0"
    " ORDER BY failed_at DESC, number DESC LIMIT ? OFFSET ?)"
)


def list_untold(db: apsw.Connection, key: ConversationKey) -> list[LostMail]:
    """Return the lost mail that a conversation has to be told of: what it missed, and what it has sent."""
    number = rows.conversation_id(db, key)
    if number is None:
        return []
    store = notices.load_store_number(db)
    missed = [make_missed(make_mail(store, row), row[-1]) for row in db.execute(_MISSED, (number,))]
    evicted = db.execute(_SENT, (make_goal_id(store, number),))
    sent = [make_evicted(make_mail(store, row), row[-2], row[-1]) for row in evicted]
    given_back = [make_returned(_mail.decode(content), *why) for content, *why in db.execute(_RETURNED, (number,))]
    return missed + sent + [each for each in given_back[::-1] if each is not None]


def keep_returned(db: apsw.Connection, mail: Mail, reason: str, now: float) -> None:
    """Keep a mail of this store that was given back, so that its sender is told; the oldest of too many is removed."""
    notices.insert(db, mail.id, mail)
    db.execute("UPDATE outbox SET failed_at = ?, reason = ? WHERE id = ?", (now, reason, mail.id))
    forget_told(db, _TOO_MANY_FAILED, dialect.ALL_ROWS, MOST_FAILED)
    db.execute(f"DELETE FROM {_TOO_MANY_FAILED}", (dialect.ALL_ROWS, MOST_FAILED))


def forget_told(db: apsw.Connection, rest: str, *values: object) -> None:
    """Remove what was told of some rows; `rest` is what follows FROM. They are gone, or no longer lost."""
    for told in (TOLD_SENDER, TOLD_RECEIVER):
        db.execute(f"DELETE FROM deliveries WHERE item_id IN (SELECT '{told}' || id FROM {rest})", values)


def forget_of_conversation(db: apsw.Connection, number: int) -> None:
    """Remove what was told of the mail of a conversation, and what it was told of its own."""
    forget_told(db, "mail WHERE conversation = ?", number)
    goal_id = make_goal_id(notices.load_store_number(db), number)
    forget_told(db, "mail WHERE from_goal = ? AND evicted_at > 0", goal_id)
    forget_told(db, "outbox WHERE conversation = ? AND failed_at > 0", number)
