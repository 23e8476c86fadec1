"""Deletes conversations with everything that belongs to them, also from indexes and pages; counts it before."""

import apsw
from msgspec.structs import fields

from moot.domain.conversation import ConversationKey
from moot.domain.deletion import DELETED_UNREAD, Deletion, DeletionCounts
from moot.domain.inbox_message import NoticeState
from moot.domain.outbox import ReturnedMail
from moot.store import (
    dialect,
    document_rows,
    knowledge_rows,
    lost_mail,
    mail_rows,
    nodes,
    notices,
    rows,
    workflow_rows,
)

# Pages of an index merged per transaction, so that other transactions can run in between.
_MERGE_PAGES = 256


def count_deletion(db: apsw.Connection, key: ConversationKey) -> DeletionCounts:
    """Return the counts of what a deletion would remove, including the conversations of its teammates."""
    each = [_count(db, one) for one in (key, *_list_teammate_conversations(db, key))]
    return DeletionCounts(
        **{field.name: sum(getattr(counts, field.name) for counts in each) for field in fields(DeletionCounts)}
    )


def _list_teammate_conversations(db: apsw.Connection, key: ConversationKey) -> list[ConversationKey]:
    """Return the conversations of ended runs that were spawned for this one."""
    found = db.execute(
        "SELECT DISTINCT agent, sender FROM runs JOIN conversations ON conversations.id = runs.conversation"
        " WHERE root_agent = ? AND root_sender = ? AND root_agent <> '' AND status = 'ended' AND NOT EXISTS (SELECT 1"
        " FROM runs AS live WHERE live.conversation = runs.conversation AND live.status <> 'ended')"
        f" AND NOT {workflow_rows.IS_NEEDED}",
        key,
    )
    return [ConversationKey(agent, sender) for agent, sender in found]


def _count(db: apsw.Connection, key: ConversationKey) -> DeletionCounts:
    number = rows.require_conversation(db, key)
    messages, archived = rows.one(db.execute("SELECT last_seq, archives FROM conversations WHERE id = ?", (number,)))

    def of_conversation(table: str) -> int:
        return int(db.execute(f"SELECT count(*) FROM {table} WHERE conversation = ?", (number,)).get)

    def of_pair(table: str) -> int:
        return int(db.execute(f"SELECT count(*) FROM {table} WHERE agent = ? AND sender = ?", key).get)

    return DeletionCounts(
        messages=messages,
        archives=archived,
        runs=of_conversation("runs"),
        memories=of_pair("memories"),
        tasks=of_pair("tasks"),
        schedules=of_pair("cron_jobs"),
        documents=document_rows.count_of_pair(db, key),
        notes=of_conversation("notes"),
        outputs=of_conversation("outputs"),
        lessons=knowledge_rows.count_of_conversation(db, key) + of_pair("inquiries"),
        rules=of_pair("rules"),
        mail=of_conversation("mail"),
    )


def delete(db: apsw.Connection, key: ConversationKey, node: int, now: float) -> Deletion:
    counts = count_deletion(db, key)
    returned: list[ReturnedMail] = []
    for one in (*_list_teammate_conversations(db, key), key):
        returned += remove(db, one, node, now).returned
        db.execute("DELETE FROM other_spend WHERE agent = ? AND sender = ?", one)
    db.execute("DELETE FROM past_spend WHERE root_agent = ? AND root_sender = ?", key)
    sweep_parts(db)
    return Deletion(counts=counts, returned=returned)


def remove(db: apsw.Connection, key: ConversationKey, node: int, now: float) -> Deletion:
    """Delete one conversation, without those of its teammates."""
    counts = _count(db, key)
    number = nodes.require_held(db, key, node).id
    # First: without its deliveries, mail that was read would count as unread.
    returned = _return_unread(db, key, now)
    reach = (rows.message_id(number, 0), rows.message_id(number, rows.MAX_SEQ))
    dialect.unindex(db, "message_index", *reach)
    dialect.unindex(db, "summary_index", *reach)
    db.execute("DELETE FROM messages WHERE id BETWEEN ? AND ?", reach)
    _delete_of_pair(db, key)
    # The asks of a teammate are in the conversation of its root.
    of_runs = (
        ("tool_audit", "run"),
        ("asks", "run"),
        ("deliveries", "item_id"),
        ("past_runs", "parent_id"),
        ("cron_firings", "run_id"),
    )
    for table, column in of_runs:
        db.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT id FROM runs WHERE conversation = ?)", (number,))
    db.execute("DELETE FROM deliveries WHERE item_id IN (SELECT id FROM mail WHERE conversation = ?)", (number,))
    lost_mail.forget_of_conversation(db, number)
    workflow_rows.remove_of_conversation(db, key)
    db.execute("DELETE FROM outbox WHERE conversation = ? AND failed_at > 0", (number,))
    # Foreign keys delete runs, archives, asks, notes, outputs, mail and stopped turns.
    db.execute("DELETE FROM conversations WHERE id = ?", (number,))
    return Deletion(counts=counts, returned=returned)


def _return_unread(db: apsw.Connection, key: ConversationKey, now: float) -> list[ReturnedMail]:
    """Give back the unread mail of a conversation; return what was sent by another one of this store."""
    unread = mail_rows.list_unread(db, key)
    notices.add(db, unread, NoticeState.EVICTED, DELETED_UNREAD)
    senders = mail_rows.find_conversations(db, {mail.from_goal for mail in unread})
    own = [mail for mail in unread if mail.from_goal in senders]
    for mail in own:
        lost_mail.keep_returned(db, mail, DELETED_UNREAD, now)
    return [ReturnedMail(mail=mail, state=NoticeState.EVICTED, reason=DELETED_UNREAD) for mail in own]


def sweep_parts(db: apsw.Connection) -> None:
    """Delete the parts of model requests that no record references, directly or through another part."""
    db.execute(
        "WITH RECURSIVE used (id) AS ("
        " SELECT head FROM steps UNION SELECT extra FROM steps WHERE extra IS NOT NULL"
        " UNION SELECT changes FROM steps WHERE changes IS NOT NULL"
        " UNION SELECT parent FROM parts JOIN used ON parts.id = used.id WHERE parent IS NOT NULL)"
        " DELETE FROM parts WHERE id NOT IN (SELECT id FROM used)"
    )


def _delete_of_pair(db: apsw.Connection, key: ConversationKey) -> None:
    memories = [number for (number,) in db.execute("SELECT number FROM memories WHERE agent = ? AND sender = ?", key)]
    dialect.unindex_memories(db, memories)
    document_rows.remove_of_pair(db, key)
    for table in ("memories", "tasks", "rules", "cron_jobs", "inquiries"):
        db.execute(f"DELETE FROM {table} WHERE agent = ? AND sender = ?", key)
    knowledge_rows.remove_of_conversation(db, key)


def purge(db: apsw.Connection, *, begin: bool) -> bool:
    """Remove the text of deleted rows from the indexes, a few pages at a time; return whether more is left.

    An index only marks a row as deleted; its text is removed when the segments that contain it are merged.
    """
    unfinished = [index for index in dialect.INDEXES if dialect.merge_index(db, index, _MERGE_PAGES, begin=begin)]
    return bool(unfinished)
