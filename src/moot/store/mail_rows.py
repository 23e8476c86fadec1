"""Rows of mail: how a transaction reads, writes and evicts them. Used by mail.py, outbox.py and deletion.py.

A mail is read once the table of deliveries has its id.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.goal import make_goal_id, read_goal_id
from moot.domain.inbox_message import NoticeState
from moot.domain.mail import INBOX_CAPACITY, Mail
from moot.store import dialect, notices, rows

COLUMNS = (
    "mail.id, mail.conversation, conversations.agent, from_agent, from_goal, body, sent_at, correlation_id, thread,"
    " hops, mail.taint"
)
FROM = "FROM mail JOIN conversations ON conversations.id = mail.conversation"
_IS_NOT_SHOWN = "NOT EXISTS (SELECT 1 FROM deliveries WHERE deliveries.item_id = mail.id)"
IS_UNREAD = f"evicted_at = 0 AND {_IS_NOT_SHOWN}"
# Mail that a run was given just before it was evicted may have been shown after all.
IS_DEAD = f"evicted_at > 0 AND {_IS_NOT_SHOWN}"
# Unread mail is among the newest of a conversation, since a reader is shown all there is; so only a few rows are read.
# Who waits for an answer reads it before older mail; `_keep_in_reach` numbers that anew before it is too old.
_REACH = INBOX_CAPACITY + 1
_LAST = (
    "SELECT number FROM mail AS newest WHERE newest.conversation = {conversation} AND newest.evicted_at = 0"
    " ORDER BY number DESC LIMIT "
)
NEWEST = f"{_LAST}{_REACH}"
_UNREAD = f"{FROM} WHERE number IN ({NEWEST.format(conversation='?')}) AND {IS_UNREAD} ORDER BY number"
_LAST_UNREAD = (
    f"SELECT {COLUMNS}, number {FROM} WHERE number IN ({_LAST.format(conversation='?')}?)"
    f" AND {IS_UNREAD} ORDER BY number"
)
# Whether there is more than a goal keeps, read or not. Most goals have less.
_HAS_MANY = (
    "SELECT 1 FROM mail WHERE conversation = {conversation} AND evicted_at = 0"
    f" ORDER BY number LIMIT 1 OFFSET {INBOX_CAPACITY}"
)
_HAS_MANY_MAILS = _HAS_MANY.format(conversation="?")
_WHICH_HAVE_MANY = f"SELECT value FROM {dialect.each_value()} WHERE EXISTS ({_HAS_MANY.format(conversation='value')})"
_OLDEST_IN_REACH = f"SELECT min(number) FROM ({NEWEST.format(conversation='?')})"
_HAS_LIVE_RUN = (
    "SELECT 1 FROM runs JOIN conversations ON conversations.id = runs.conversation"
    " WHERE agent = ? AND sender = ? AND status <> 'ended' LIMIT 1"
)
_INSERT = (
    "INSERT INTO mail (id, conversation, from_agent, from_goal, body, sent_at, correlation_id, thread, hops, taint)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
_CONVERSATION = "SELECT id FROM conversations WHERE id = ? AND agent <> '' AND (SELECT number FROM store_identity) = ?"
_CONVERSATIONS = f"SELECT id FROM conversations WHERE id IN {dialect.among()} AND agent <> ''"


def read(db: apsw.Connection, rest: str, *values: object) -> list[Mail]:
    store = notices.load_store_number(db)
    return [make_mail(store, row) for row in db.execute(f"SELECT {COLUMNS} {rest}", values)]


def make_mail(store: int, row: rows.Row) -> Mail:
    mail_id, conversation, to_agent, from_agent, from_goal, body, sent_at, correlation, thread, hops, taint = row[:11]
    return Mail(
        id=mail_id,
        goal_id=make_goal_id(store, conversation),
        from_agent=from_agent,
        from_goal=from_goal,
        to_agent=to_agent,
        body=body,
        sent_at=sent_at,
        correlation_id=correlation,
        thread=thread,
        hops=hops,
        taint=rows.decode_taint(taint),
    )


def find_conversation(db: apsw.Connection, goal_id: str) -> int | None:
    """Return the number of the conversation of a goal of this store."""
    numbers = read_goal_id(goal_id)
    if numbers is None:
        return None
    store, conversation = numbers
    found = db.execute(_CONVERSATION, (conversation, store)).get
    return None if found is None else int(found)


def find_conversations(db: apsw.Connection, goal_ids: Iterable[str]) -> dict[str, int]:
    """Return the numbers of the conversations of those goals that are of this store and exist."""
    numbers = list_conversation_numbers(notices.load_store_number(db), goal_ids)
    found = {number for (number,) in db.execute(_CONVERSATIONS, (rows.encode_numbers(numbers.values()),))}
    return {goal_id: number for goal_id, number in numbers.items() if number in found}


def list_conversation_numbers(store: int, goal_ids: Iterable[str]) -> dict[str, int]:
    """Return the numbers of conversations in the ids of goals of a store."""
    found = [(goal_id, read_goal_id(goal_id)) for goal_id in goal_ids]
    return {goal_id: numbers[1] for goal_id, numbers in found if numbers is not None and numbers[0] == store}


def insert(db: apsw.Connection, conversation: int, mail: Mail) -> bool:
    """Write a mail, unless it is there already; return whether it was not."""
    db.execute(_INSERT, _make_row(conversation, mail))
    return db.changes() > 0


def insert_all(db: apsw.Connection, mails: Sequence[tuple[int, Mail]]) -> set[str]:
    """Write mails, each for a conversation, unless they are there already; return the ids of those that were not."""
    newest, before = db.execute("SELECT coalesce(max(number), 0) FROM mail").get, db.total_changes()
    db.executemany(_INSERT, [_make_row(conversation, mail) for conversation, mail in mails])
    if db.total_changes() - before == len(mails):
        return {mail.id for _, mail in mails}
    return {mail_id for (mail_id,) in db.execute("SELECT id FROM mail WHERE number > ?", (newest,))}


def _make_row(conversation: int, mail: Mail) -> rows.Row:
    return (
        mail.id,
        conversation,
        mail.from_agent,
        mail.from_goal,
        mail.body,
        mail.sent_at,
        mail.correlation_id,
        mail.thread,
        mail.hops,
        rows.encode_taint(mail.taint) if mail.taint else "",
    )


def has_other_sender(db: apsw.Connection, mail: Mail) -> bool:
    """Whether the mail that is stored under this id was sent by another goal."""
    return bool(db.execute("SELECT 1 FROM mail WHERE id = ? AND from_goal <> ?", (mail.id, mail.from_goal)).get)


def list_unread(db: apsw.Connection, key: ConversationKey) -> list[Mail]:
    number = rows.conversation_id(db, key)
    return [] if number is None else read(db, _UNREAD, number)


def list_crowded(db: apsw.Connection, conversations: Iterable[int]) -> list[int]:
    """Return those of the conversations that have more mail than a goal keeps, read or not."""
    return [number for (number,) in db.execute(_WHICH_HAVE_MANY, (rows.encode_numbers(conversations),))]


def evict_oldest(db: apsw.Connection, conversation: int, now: float, *, added: int = 1) -> list[Mail]:
    """Evict the oldest unread mail of a conversation that has more than it may keep; return it.

    `added` is how many were written since this was last called.
    """
    if db.execute(_HAS_MANY_MAILS, (conversation,)).get is None:
        return []
    store = notices.load_store_number(db)
    found: list[Any] = db.execute(_LAST_UNREAD, (conversation, _REACH + added)).fetchall()
    surplus = max(0, len(found) - INBOX_CAPACITY)
    _keep_in_reach(db, conversation, [row[-1] for row in found[surplus:]])
    return _evict(db, [make_mail(store, row) for row in found[:surplus]], now, "too many unread messages")


def _keep_in_reach(db: apsw.Connection, conversation: int, unread: Sequence[int]) -> None:
    """Make the unread mails with these numbers the newest ones, if read mail would hide the oldest of them."""
    # Few numbers apart are fewer mails apart.
    if not unread or unread[-1] - unread[0] < _REACH:
        return
    if unread[0] < db.execute(_OLDEST_IN_REACH, (conversation,)).get:
        newest = db.execute("SELECT max(number) FROM mail").get
        db.executemany(
            "UPDATE mail SET number = ? WHERE number = ?",
            [(newest + place, number) for place, number in enumerate(unread, start=1)],
        )


def evict_all(db: apsw.Connection, key: ConversationKey, now: float) -> list[Mail]:
    if db.execute(_HAS_LIVE_RUN, key).get is not None:
        return []
    return _evict(db, list_unread(db, key), now, "its run has ended")


def _evict(db: apsw.Connection, mails: list[Mail], now: float, reason: str) -> list[Mail]:
    notices.add(db, mails, NoticeState.EVICTED, reason)
    db.executemany("UPDATE mail SET evicted_at = ? WHERE id = ?", [(now, mail.id) for mail in mails])
    return mails
