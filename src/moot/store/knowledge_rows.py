"""Deletes rows of knowledge and learnings with their index entries. Used by knowledge.py, learnings.py, deletion.py."""

from collections.abc import Sequence

import apsw

from moot.domain.conversation import ConversationKey
from moot.store import dialect

# The tables, each with its index.
_INDEXES = {"knowledge": "knowledge_index", "learnings": "learning_index"}
_FROM_CONVERSATION = "origin_agent = ? AND origin_sender = ? AND origin_agent <> ''"


def drop(db: apsw.Connection, table: str, condition: str, values: Sequence[str | int]) -> int:
    """Delete the rows of a table that meet the condition; return how many."""
    numbers = [number for (number,) in db.execute(f"SELECT number FROM {table} WHERE {condition}", values)]
    dialect.unindex_owned(db, _INDEXES[table], numbers)
    db.executemany(f"DELETE FROM {table} WHERE number = ?", [(number,) for number in numbers])
    return len(numbers)


def count_of_conversation(db: apsw.Connection, key: ConversationKey) -> int:
    """Return how much was learned in a conversation: learnings and results of tools."""
    return sum(
        int(db.execute(f"SELECT count(*) FROM {table} WHERE {_FROM_CONVERSATION}", key).get) for table in _INDEXES
    )


def remove_of_conversation(db: apsw.Connection, key: ConversationKey) -> None:
    for table in _INDEXES:
        drop(db, table, _FROM_CONVERSATION, key)
