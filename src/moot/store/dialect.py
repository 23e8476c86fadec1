"""All SQL that only SQLite understands: settings of the file, JSON, full text, row order. Used by the rest of store/.

Another engine needs a file of its own in place of this one; the SQL of the other files is the same for both.
"""

from collections.abc import Sequence
from typing import Any

import apsw

# ---- expressions --------------------------------------------------------------------------------

# The order in which rows of a table without a number of their own were written.
ROW = "rowid"
# As a LIMIT: no limit.
ALL_ROWS = -1
# The last of all texts that begin with a text is before that text and this.
_LAST_TEXT = "x'f48fbfbf'"


def among(values: str = "?") -> str:
    """The rows of a JSON list, for IN."""
    return f"(SELECT value FROM json_each({values}))"


def json_list(expression: str) -> str:
    """An aggregate: the values as a JSON list."""
    return f"json_group_array({expression})"


def json_text(column: str, field: str) -> str:
    """A field of a JSON object, as text."""
    return f"json_extract({column}, '$.{field}')"


def join_values(column: str) -> str:
    """An aggregate: the values in one text, with commas between them."""
    return f"group_concat({column})"


def greatest(*values: str) -> str:
    return f"max({', '.join(values)})"


def least(*values: str) -> str:
    return f"min({', '.join(values)})"


def position(text: str, part: str) -> str:
    """Where a text has a part, from 1; 0 where it has not."""
    return f"instr({text}, {part})"


def begins_with(column: str, prefix: str) -> str:
    """As a range, so that an index can be used."""
    return f"{column} >= {prefix} AND {column} < {prefix} || {_LAST_TEXT}"


# ---- the file -----------------------------------------------------------------------------------

BEGIN = "BEGIN IMMEDIATE"


def configure(db: apsw.Connection, *, synchronous: str, journal_bytes: int) -> None:
    """Settings of every connection of the store."""
    # Plan a statement once, whatever its values are: else many are planned anew each time they are run.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    db.execute("PRAGMA foreign_keys = ON")
    if db.execute("PRAGMA journal_mode = WAL").get != "wal":
        raise apsw.CantOpenError("this disk does not let a database keep a log beside it")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute(f"PRAGMA journal_size_limit = {journal_bytes}")
    # Nothing a file on disk says is run as code: no schema from outside is trusted.
    db.execute("PRAGMA trusted_schema = OFF")
    # What is deleted or replaced is overwritten, not only let go of.
    db.execute("PRAGMA secure_delete = ON")
    # The writer checkpoints after it has answered, so that no commit waits for it.
    db.wal_autocheckpoint(0)


def only_read(db: apsw.Connection) -> None:
    db.execute("PRAGMA query_only = ON")


def drop_log(db: apsw.Connection) -> None:
    """Make it one file, with no log beside it."""
    db.execute("PRAGMA journal_mode = DELETE")


def fold_log(db: apsw.Connection) -> None:
    """Move the log into the file; a BusyError where somebody else uses it."""
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("BEGIN EXCLUSIVE")
    db.execute("COMMIT")
    db.execute("PRAGMA locking_mode = NORMAL")


def fix_moment(db: apsw.Connection) -> None:
    """Begin a read that keeps one moment of the store until its COMMIT."""
    db.execute("BEGIN")
    count_tables(db)


def count_tables(db: apsw.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM sqlite_schema").get)


def damages(db: apsw.Connection, most: int) -> list[str]:
    """What is wrong with the file itself, at most so many findings."""
    return [str(answer) for (answer,) in db.execute(f"PRAGMA integrity_check({most})") if answer != "ok"]


def quick_damage(db: apsw.Connection) -> str:
    """The first thing found wrong with the file by a quick look; empty where it is sound."""
    answer = str(db.execute("PRAGMA quick_check(1)").get)
    return "" if answer == "ok" else answer


def orphans(db: apsw.Connection) -> list[tuple[str, int, str]]:
    """Rows whose parents are not there: the table, the row and the parent table."""
    return [(table, row, parent) for table, row, parent, _ in db.execute("PRAGMA foreign_key_check")]


def read_version(db: apsw.Connection) -> tuple[int, int]:
    """The version of the schema, and the number of the application that the file belongs to."""
    return int(db.execute("PRAGMA user_version").get), int(db.execute("PRAGMA application_id").get)


def write_version(db: apsw.Connection, version: int, application: int) -> None:
    db.execute(f"PRAGMA application_id = {application}")
    db.execute(f"PRAGMA user_version = {version}")


def rewrite_file(db: apsw.Connection, most_bytes: int) -> None:
    """Write the file anew, unless it is larger than that."""
    if db.execute("PRAGMA page_count").get * db.execute("PRAGMA page_size").get <= most_bytes:
        db.execute("VACUUM")


# ---- full text ----------------------------------------------------------------------------------

INDEXES = ("message_index", "summary_index", "memory_index")
# The ids of the texts that an index has.
INDEXED_MESSAGES, INDEXED_SUMMARIES = "message_index_docsize", "summary_index_docsize"


def register_functions(db: apsw.Connection) -> None:
    """Give a connection the function that tells how long a text is and how often each phrase is in it."""
    db.register_fts5_function("phrase_counts", _phrase_counts)


def _phrase_counts(api: apsw.FTS5ExtensionApi, *_parameters: object) -> bytes:
    counts = [min(255, sum(map(len, api.phrase_locations(phrase)))) for phrase in range(api.phrase_count)]
    return api.column_size(-1).to_bytes(4, "little") + bytes(counts)


def index_messages(db: apsw.Connection, first: int, last: int) -> None:
    """Let the messages with the ids first..last be found by their words."""
    db.execute(
        "INSERT INTO message_index (rowid, content) SELECT id, content FROM messages WHERE id BETWEEN ? AND ?",
        (first, last),
    )


def index_summary(db: apsw.Connection, number: int, title: str, summary: str) -> None:
    db.execute("INSERT INTO summary_index (rowid, title, summary) VALUES (?, ?, ?)", (number, title, summary))


def index_memory(db: apsw.Connection, number: int, words: Sequence[str]) -> None:
    """Its owner, key, content and tags."""
    db.execute("INSERT INTO memory_index (rowid, owner, key, content, tags) VALUES (?, ?, ?, ?, ?)", (number, *words))


def unindex(db: apsw.Connection, index: str, first: int, last: int) -> None:
    db.execute(f"DELETE FROM {index} WHERE rowid BETWEEN ? AND ?", (first, last))


def unindex_memories(db: apsw.Connection, numbers: Sequence[int]) -> None:
    db.executemany("DELETE FROM memory_index WHERE rowid = ?", [(number,) for number in numbers])


def search(db: apsw.Connection, index: str, words: str, reach: tuple[int, int], limit: int) -> list[tuple[Any, ...]]:
    """The ids in reach of texts that match, the newest first, each with its phrase counts."""
    return db.execute(
        f"SELECT rowid, phrase_counts({index}) FROM {index}"
        f" WHERE {index} MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?",
        (words, *reach, limit),
    ).fetchall()


def search_memories(db: apsw.Connection, words: str, limit: int) -> list[tuple[Any, ...]]:
    found = "SELECT rowid, phrase_counts(memory_index) FROM memory_index WHERE memory_index MATCH ? LIMIT ?"
    return db.execute(found, (words, limit)).fetchall()


def count_messages(db: apsw.Connection, words: str, reach: tuple[int, int]) -> int:
    """How many messages in reach match."""
    found = "SELECT count(*) FROM message_index WHERE message_index MATCH ? AND rowid BETWEEN ? AND ?"
    return int(db.execute(found, (words, *reach)).get)


def merge_index(db: apsw.Connection, index: str, pages: int, *, begin: bool) -> bool:
    """Write some pages of an index anew, without what was deleted from it; whether there is more to do."""
    before = db.total_changes()
    # A negative number asks for everything to become one part; it is asked for once.
    db.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (-pages if begin else pages,))
    # The question itself counts as one change.
    return db.total_changes() - before > 1
