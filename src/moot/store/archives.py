"""Archives: rows that mark a range of messages as compacted, and their full-text index."""

import apsw
from msgspec.structs import replace

from moot.domain.conversation import Archive, ConversationKey
from moot.domain.errors import Conflict
from moot.store import dialect, nodes, rows


def add(db: apsw.Connection, key: ConversationKey, archive: Archive, node: int, epoch: int) -> Archive:
    """Archive the active messages up to archive.last_seq. The messages are not moved."""
    conversation = nodes.require_held(db, key, node, epoch).id
    added = insert(db, conversation, archive)
    index_messages(db, conversation, added.first_seq, added.last_seq)
    # The remaining messages were counted together with those that are archived now.
    db.execute(
        "UPDATE messages SET context_tokens = 0 WHERE id BETWEEN ? AND ? AND context_tokens > 0",
        (rows.message_id(conversation, added.last_seq + 1), rows.message_id(conversation, rows.MAX_SEQ)),
    )
    return added


def get(db: apsw.Connection, conversation: int, number: int) -> Archive | None:
    row = db.execute(
        f"SELECT {rows.ARCHIVE_COLUMNS} FROM archives WHERE conversation = ? AND number = ?", (conversation, number)
    ).fetchone()
    return None if row is None else rows.archive(row)


def insert(db: apsw.Connection, conversation: int, archive: Archive) -> Archive:
    """Insert the row of an archive, without adding its messages to the full-text index."""
    last_seq, archived_seq, count = rows.one(
        db.execute("SELECT last_seq, archived_seq, archives FROM conversations WHERE id = ?", (conversation,))
    )
    first = archived_seq + 1
    if archive.first_seq not in (0, first) or not first <= archive.last_seq <= last_seq:
        raise Conflict(
            f"messages {archive.first_seq}..{archive.last_seq} are not the active ones ({first}..{last_seq})",
            fix="Load the conversation again and compact what is there now.",
        )
    added = replace(archive, number=count + 1, first_seq=first)
    db.execute(
        f"INSERT INTO archives (conversation, {rows.ARCHIVE_COLUMNS})"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            conversation,
            added.number,
            first,
            added.last_seq,
            added.title,
            added.summary,
            added.archived_at,
            added.model,
            *rows.usage_values(added.usage),
            added.cost,
            rows.encode_taint(added.taint),
        ),
    )
    db.execute(
        "UPDATE conversations SET archived_seq = ?, archives = ? WHERE id = ?",
        (added.last_seq, added.number, conversation),
    )
    dialect.index_summary(db, rows.message_id(conversation, added.number), added.title, added.summary)
    return added


def index_messages(db: apsw.Connection, conversation: int, first: int, last: int) -> None:
    dialect.index_messages(db, rows.message_id(conversation, first), rows.message_id(conversation, last))


def list_archives(db: apsw.Connection, key: ConversationKey) -> list[Archive]:
    conversation = rows.conversation_id(db, key)
    return [] if conversation is None else of_conversation(db, conversation)


def of_conversation(db: apsw.Connection, conversation: int) -> list[Archive]:
    found = db.execute(
        f"SELECT {rows.ARCHIVE_COLUMNS} FROM archives WHERE conversation = ? ORDER BY number", (conversation,)
    )
    return [rows.archive(row) for row in found]


def newest(db: apsw.Connection, conversation: int) -> Archive | None:
    row = db.execute(
        f"SELECT {rows.ARCHIVE_COLUMNS} FROM archives WHERE conversation = ? ORDER BY number DESC LIMIT 1",
        (conversation,),
    ).fetchone()
    return None if row is None else rows.archive(row)
