"""Integrity check of the store for `moot doctor`: verifies the invariants of its contents."""

from collections.abc import Iterator

import apsw

from moot.store import dialect, rows

_MAX_EACH = 10


def check(db: apsw.Connection) -> list[str]:
    """Check all rows and return one sentence for each violation."""
    findings = [*_file(db)]
    if findings:
        # Further checks of a damaged file would not be reliable.
        return findings
    for look in (_foreign_keys, _messages, _runs, _archives, _message_index, _summary_index):
        findings += look(db)
    return findings


def _file(db: apsw.Connection) -> Iterator[str]:
    for damage in dialect.damages(db, _MAX_EACH):
        yield f"the file is damaged: {damage}"


def _foreign_keys(db: apsw.Connection) -> Iterator[str]:
    for table, row, parent in dialect.orphans(db):
        yield f"row {row} of {table} has no {parent}"


def _messages(db: apsw.Connection) -> Iterator[str]:
    for agent, sender, count, least, most, last in db.execute(
        "SELECT conversations.agent, sender, count(messages.id), coalesce(min(seq), 1), coalesce(max(seq), 0), last_seq"
        " FROM conversations LEFT JOIN messages"
        " ON messages.id BETWEEN (conversations.id << 32) AND (conversations.id << 32) + 0xffffffff"
        " GROUP BY conversations.id"
    ):
        if (count, least, most) != (last, 1, last):
            yield f"{agent} as {sender} should have messages 1..{last}, it has {count} in {least}..{most}"
    for (conversation,) in db.execute(
        "SELECT DISTINCT conversation FROM messages WHERE conversation NOT IN (SELECT id FROM conversations)"
    ):
        yield f"messages of conversation {conversation} belong to nobody"


def _runs(db: apsw.Connection) -> Iterator[str]:
    for (run_id,) in db.execute(
        "SELECT runs.id FROM runs JOIN conversations ON conversations.id = runs.conversation"
        " WHERE user_seq > last_seq OR reply_seq > last_seq OR (status = 'running' AND user_seq = 0)"
        " OR (status = 'queued' AND content IS NULL) OR (status = 'ended' AND outcome = '')"
    ):
        yield f"run {run_id} points at a message that is not there, or has lost its own"


def _archives(db: apsw.Connection) -> Iterator[str]:
    for agent, sender, number in db.execute(
        "SELECT agent, sender, number FROM (SELECT conversation, number, first_seq, last_seq, closed, resumed,"
        " row_number() OVER inside AS place, lag(last_seq, 1, 0) OVER inside AS before"
        " FROM archives WINDOW inside AS (PARTITION BY conversation ORDER BY number)) AS archived"
        " JOIN conversations ON conversations.id = archived.conversation"
        " WHERE number <> place OR first_seq <> before + 1 OR archived.last_seq < first_seq"
        " OR archived.last_seq > archived_seq OR resumed NOT BETWEEN 0 AND number OR (resumed > 0 AND NOT closed)"
    ):
        yield f"archive {number} of {agent} as {sender} does not follow the one before"
    for agent, sender in db.execute(
        "SELECT agent, sender FROM conversations WHERE archives <>"
        " (SELECT count(*) FROM archives WHERE conversation = conversations.id) OR archived_seq <>"
        " (SELECT coalesce(max(last_seq), 0) FROM archives WHERE conversation = conversations.id)"
    ):
        yield f"{agent} as {sender} miscounts its archives"


def _message_index(db: apsw.Connection) -> Iterator[str]:
    indexed = dialect.INDEXED_MESSAGES
    missing, extra = rows.one(
        db.execute(
            "SELECT (SELECT count(*) FROM messages JOIN conversations ON conversations.id = conversation"
            f" WHERE seq <= archived_seq AND messages.id NOT IN (SELECT id FROM {indexed})),"
            f" (SELECT count(*) FROM {indexed} LEFT JOIN conversations"
            f" ON conversations.id = {indexed}.id >> 32"
            # During an import the messages are written before the archives that contain them.
            f" WHERE archived_seq IS NULL OR agent <> '' AND ({indexed}.id & 0xffffffff) > archived_seq)"
        )
    )
    if missing or extra:
        yield f"the search index misses {missing} archived messages and has {extra} too many"


def _summary_index(db: apsw.Connection) -> Iterator[str]:
    indexed = dialect.INDEXED_SUMMARIES
    missing, extra = rows.one(
        db.execute(
            "SELECT (SELECT count(*) FROM archives"
            f" WHERE (conversation << 32) + number NOT IN (SELECT id FROM {indexed})),"
            f" (SELECT count(*) FROM {indexed} WHERE id NOT IN"
            " (SELECT (conversation << 32) + number FROM archives))"
        )
    )
    if missing or extra:
        yield f"the search index misses {missing} summaries and has {extra} too many"
