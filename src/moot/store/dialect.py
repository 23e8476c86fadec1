"""All SQL that only SQLite understands: settings of the file, JSON, full text, row order. Used by the rest of store/.

Another engine needs a file of its own in place of this one; the SQL of the other files is the same for both.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

# ---- expressions --------------------------------------------------------------------------------

# The order in which rows of a table without a number of their own were written.
ROW = "rowid"
# As a LIMIT: no limit.
ALL_ROWS = -1
# Appended to a prefix, it gives an upper bound of all texts with that prefix.
_LAST_TEXT = "x'f48fbfbf'"


def each_value(values: str = "?") -> str:
    """Return a table with one column, `value`: the values of a JSON list."""
    return f"json_each({values})"


def among(values: str = "?") -> str:
    """Return a subquery for IN: the values of a JSON list."""
    return f"(SELECT value FROM {each_value(values)})"


def json_list(expression: str) -> str:
    """Return an aggregate: the values as a JSON list."""
    return f"json_group_array({expression})"


def json_text(column: str, field: str) -> str:
    """Return an expression: a field of a JSON object, as text."""
    return f"json_extract({column}, '$.{field}')"


def join_values(column: str) -> str:
    """Return an aggregate: the values joined with commas."""
    return f"group_concat({column})"


def greatest(*values: str) -> str:
    return f"max({', '.join(values)})"


def least(*values: str) -> str:
    return f"min({', '.join(values)})"


def position(text: str, part: str) -> str:
    """Return an expression: the position of a part in a text, from 1; 0 if it does not occur."""
    return f"instr({text}, {part})"


def begins_with(column: str, prefix: str) -> str:
    """Return a condition for a prefix, as a range, so that an index can be used."""
    return f"{column} >= {prefix} AND {column} < {prefix} || {_LAST_TEXT}"


# ---- the file -----------------------------------------------------------------------------------

BEGIN = "BEGIN IMMEDIATE"


def configure(db: apsw.Connection, *, synchronous: str, journal_bytes: int) -> None:
    """Apply the settings of every connection of the store."""
    # Make query plans independent of bound values; otherwise many statements are planned at every execution.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    db.execute("PRAGMA foreign_keys = ON")
    if db.execute("PRAGMA journal_mode = WAL").get != "wal":
        raise apsw.CantOpenError("this disk does not let a database keep a log beside it")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute(f"PRAGMA journal_size_limit = {journal_bytes}")
    # The schema of the file is not trusted to run code.
    db.execute("PRAGMA trusted_schema = OFF")
    # Deleted and replaced content is overwritten.
    db.execute("PRAGMA secure_delete = ON")
    # The writer checkpoints after it has answered, so that no commit waits for a checkpoint.
    db.wal_autocheckpoint(0)


def only_read(db: apsw.Connection) -> None:
    db.execute("PRAGMA query_only = ON")


def drop_log(db: apsw.Connection) -> None:
    """Switch the database to a single file without a write-ahead log."""
    db.execute("PRAGMA journal_mode = DELETE")


def fold_log(db: apsw.Connection) -> None:
    """Move the write-ahead log into the file. Raises BusyError if another connection uses it."""
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("BEGIN EXCLUSIVE")
    db.execute("COMMIT")
    db.execute("PRAGMA locking_mode = NORMAL")


def fix_moment(db: apsw.Connection) -> None:
    """Begin a read transaction on a fixed snapshot, which lasts until its COMMIT."""
    db.execute("BEGIN")
    count_tables(db)


def count_tables(db: apsw.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM sqlite_schema").get)


def damages(db: apsw.Connection, most: int) -> list[str]:
    """Run the integrity check of the file; return at most `most` findings."""
    return [str(answer) for (answer,) in db.execute(f"PRAGMA integrity_check({most})") if answer != "ok"]


def quick_damage(db: apsw.Connection) -> str:
    """Run the quick integrity check; return its first finding, empty if there is none."""
    answer = str(db.execute("PRAGMA quick_check(1)").get)
    return "" if answer == "ok" else answer


def orphans(db: apsw.Connection) -> list[tuple[str, int, str]]:
    """Return rows that violate a foreign key: the table, the row and the parent table."""
    return [(table, row, parent) for table, row, parent, _ in db.execute("PRAGMA foreign_key_check")]


def read_version(db: apsw.Connection) -> tuple[int, int]:
    """Return the schema version and the application id of the file."""
    return int(db.execute("PRAGMA user_version").get), int(db.execute("PRAGMA application_id").get)


def write_version(db: apsw.Connection, version: int, application: int) -> None:
    db.execute(f"PRAGMA application_id = {application}")
    db.execute(f"PRAGMA user_version = {version}")


def rewrite_file(db: apsw.Connection, most_bytes: int) -> None:
    """Rewrite the file (VACUUM), unless it is larger than `most_bytes`."""
    if db.execute("PRAGMA page_count").get * db.execute("PRAGMA page_size").get <= most_bytes:
        db.execute("VACUUM")


# ---- full text ----------------------------------------------------------------------------------

INDEXES = ("message_index", "summary_index", "memory_index", "knowledge_index", "learning_index", "passage_index")
# Tables with the ids of the indexed texts.
INDEXED_MESSAGES, INDEXED_SUMMARIES = "message_index_docsize", "summary_index_docsize"


def register_functions(db: apsw.Connection) -> None:
    """Register the SQL function that returns the length of a text and the count of each phrase in it."""
    db.register_fts5_function("phrase_counts", _phrase_counts)


def _phrase_counts(api: apsw.FTS5ExtensionApi, *_parameters: object) -> bytes:
    counts = [min(255, sum(map(len, api.phrase_locations(phrase)))) for phrase in range(api.phrase_count)]
    return api.column_size(-1).to_bytes(4, "little") + bytes(counts)


def index_messages(db: apsw.Connection, first: int, last: int) -> None:
    """Add the messages with the ids first..last to the full-text index."""
    db.execute(
        "INSERT INTO message_index (rowid, content) SELECT id, content FROM messages WHERE id BETWEEN ? AND ?",
        (first, last),
    )


def index_summary(db: apsw.Connection, number: int, title: str, summary: str) -> None:
    db.execute("INSERT INTO summary_index (rowid, title, summary) VALUES (?, ?, ?)", (number, title, summary))


def index_memory(db: apsw.Connection, number: int, words: Sequence[str]) -> None:
    """Add a memory to the full-text index: its owner, key, content and tags."""
    db.execute("INSERT INTO memory_index (rowid, owner, key, content, tags) VALUES (?, ?, ?, ?, ?)", (number, *words))


def unindex(db: apsw.Connection, index: str, first: int, last: int) -> None:
    db.execute(f"DELETE FROM {index} WHERE rowid BETWEEN ? AND ?", (first, last))


def unindex_memories(db: apsw.Connection, numbers: Sequence[int]) -> None:
    db.executemany("DELETE FROM memory_index WHERE rowid = ?", [(number,) for number in numbers])


def search(db: apsw.Connection, index: str, words: str, reach: tuple[int, int], limit: int) -> list[tuple[Any, ...]]:
    """Return the ids in `reach` of matching texts, newest first, each with its phrase counts."""
    return db.execute(
        f"SELECT rowid, phrase_counts({index}) FROM {index}"
        f" WHERE {index} MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?",
        (words, *reach, limit),
    ).fetchall()


def search_memories(db: apsw.Connection, words: str, limit: int) -> list[tuple[Any, ...]]:
    found = "SELECT rowid, phrase_counts(memory_index) FROM memory_index WHERE memory_index MATCH ? LIMIT ?"
    return db.execute(found, (words, limit)).fetchall()


def index_owned(db: apsw.Connection, index: str, number: int, words: Sequence[str]) -> None:
    """Add a row to an index of rows with an owner: the word of its owner, key, content and tags."""
    db.execute(f"INSERT INTO {index} (rowid, owner, key, content, tags) VALUES (?, ?, ?, ?, ?)", (number, *words))


def unindex_owned(db: apsw.Connection, index: str, numbers: Sequence[int]) -> None:
    db.executemany(f"DELETE FROM {index} WHERE rowid = ?", [(number,) for number in numbers])


def search_owned(db: apsw.Connection, index: str, words: str, limit: int) -> list[tuple[Any, ...]]:
    """Return the ids of matching rows, newest first, each with its phrase counts."""
    found = f"SELECT rowid, phrase_counts({index}) FROM {index} WHERE {index} MATCH ? ORDER BY rowid DESC LIMIT ?"
    return db.execute(found, (words, limit)).fetchall()


def count_messages(db: apsw.Connection, words: str, reach: tuple[int, int]) -> int:
    """Return the number of matching messages in `reach`."""
    found = "SELECT count(*) FROM message_index WHERE message_index MATCH ? AND rowid BETWEEN ? AND ?"
    return int(db.execute(found, (words, *reach)).get)


def index_passages(db: apsw.Connection, passages: Sequence[tuple[int, str]]) -> None:
    """Add passages to the full-text index: the number and the terms of each."""
    db.executemany("INSERT INTO passage_index (rowid, terms) VALUES (?, ?)", passages)


def unindex_passages(db: apsw.Connection, numbers: Sequence[int]) -> None:
    db.executemany("DELETE FROM passage_index WHERE rowid = ?", [(number,) for number in numbers])


class PassageReach(NamedTuple):
    """The passages that are searched: the first and last number, and a query of the numbers if not all are."""

    first: int
    last: int
    query: str = ""
    values: tuple[int, ...] = ()

    @property
    def matching(self) -> str:
        """The part of a query from FROM on; its values are the words, those of `bounds`, and a limit."""
        # Without the plus the words would be looked up once for each of the numbers.
        among = f" AND +rowid IN ({self.query})" if self.query else ""
        return f"FROM passage_index WHERE passage_index MATCH ? AND rowid BETWEEN ? AND ?{among} LIMIT ?"

    @property
    def bounds(self) -> tuple[int, ...]:
        return (self.first, self.last, *self.values)


def count_passages(db: apsw.Connection, words: str, reach: PassageReach, most: int) -> int:
    """Return the number of matching passages in `reach`, and no more than `most`."""
    found = f"SELECT 1 {reach.matching}"
    return int(db.execute(f"SELECT count(*) FROM ({found})", (words, *reach.bounds, most)).get)


def rank_passages(db: apsw.Connection, words: str, reach: PassageReach, most: int, limit: int) -> list[int]:
    """Return the numbers in `reach` of matching passages, best first by BM25; only `most` of them are ranked."""
    found = f"SELECT rowid AS number, bm25(passage_index) AS score {reach.matching}"
    ranked = db.execute(
        f"SELECT number FROM ({found}) ORDER BY score, number LIMIT ?", (words, *reach.bounds, most, limit)
    )
    return [number for (number,) in ranked]


def merge_index(db: apsw.Connection, index: str, pages: int, *, begin: bool) -> bool:
    """Rewrite some pages of an index without its deleted rows; return whether more is left."""
    before = db.total_changes()
    # A negative number starts a merge of everything into one segment; it is given once.
    db.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (-pages if begin else pages,))
    # The command itself counts as one change.
    return db.total_changes() - before > 1
