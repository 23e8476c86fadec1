"""Archives: rows that mark a range of messages as archived, their full-text index, and what follows them."""

import apsw
from msgspec.structs import replace

from moot.domain.conversation import Archive, ConversationKey, Opening, find_opening
from moot.domain.errors import Conflict, NotFound
from moot.store import dialect, nodes, rows, rules


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


def open_stretch(
    db: apsw.Connection, key: ConversationKey, closing: Archive | None, resumed: int, node: int, epoch: int
) -> Archive:
    """Archive the active messages as `closing`, if there are any, and let what follows begin with archive `resumed`."""
    conversation = nodes.require_held(db, key, node, epoch).id
    continued = get(db, conversation, resumed) if resumed else None
    if resumed and continued is None:
        raise NotFound(f"there is no archive {resumed}", fix="`moot archives AGENT` lists them.")
    if closing is not None:
        own_title = str(db.execute("SELECT title FROM conversations WHERE id = ?", (conversation,)).get)
        closing = replace(closing, title=own_title or closing.title, is_closed=True, resumed=resumed)
        closed = insert(db, conversation, closing)
        index_messages(db, conversation, closed.first_seq, closed.last_seq)
    else:
        closed = _reopen_after(db, conversation, resumed)
    title = continued.title if continued is not None else ""
    db.execute("UPDATE conversations SET title = ? WHERE id = ?", (title, conversation))
    rules.delete_for_stretch(db, key)
    return closed


def _reopen_after(db: apsw.Connection, conversation: int, resumed: int) -> Archive:
    """Change what follows the newest archive. No message does yet, so no run has seen what followed it before."""
    found = newest(db, conversation)
    last_seq = int(db.execute("SELECT last_seq FROM conversations WHERE id = ?", (conversation,)).get)
    if found is None or last_seq > found.last_seq:
        raise Conflict("messages were added to the conversation", fix="Try again.")
    db.execute(
        "UPDATE archives SET closed = 1, resumed = ? WHERE conversation = ? AND number = ?",
        (resumed, conversation, found.number),
    )
    return replace(found, is_closed=True, resumed=resumed)


def opening_after(db: apsw.Connection, conversation: int, archive: Archive | None) -> Opening:
    """Return what the messages after this archive begin with."""

    def require(number: int) -> Archive:
        found = get(db, conversation, number)
        assert found is not None
        return found

    return find_opening(archive, require)


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
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
            added.root_id,
            rows.encode_taint(added.taint),
            added.is_closed,
            added.resumed,
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
