"""Knowledge in versions: saved entries and results of tools, by owner, with full-text search."""

from collections.abc import Sequence

import apsw
import msgspec

from moot.domain.conversation import ConversationKey
from moot.domain.knowledge import (
    MOST_ENTRIES,
    MOST_VERSIONS,
    Knowledge,
    KnowledgeCategory,
    KnowledgeReader,
    SavedKnowledge,
    SourceClass,
    make_full_error,
)
from moot.store import dialect, knowledge_rows, owned_search, rows
from moot.store.ranking import fragments, is_unspaced, terms
from moot.store.sqlite import SqliteStore

INDEX = "knowledge_index"
_COLUMNS = (
    "number, owner, key, version, category, content, tags, source, source_class, asset_label, taint, created_at,"
    " agent, origin_agent, origin_sender"
)
# What a reader may see: ?1 is the owner, ?2 the agent, NULL for a person.
_VISIBLE = "owner = ?1 AND (?2 IS NULL OR agent IN ('', ?2))"

_decode_tags = msgspec.json.Decoder(tuple[str, ...]).decode


class SqliteKnowledge:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def save(self, item: Knowledge) -> SavedKnowledge:
        return await self._store.write(lambda db: _save(db, item, MOST_VERSIONS), "knowledge")

    async def keep_results(self, items: Sequence[Knowledge], *, versions: int) -> None:
        await self._store.write(lambda db: _keep_results(db, items, versions), "knowledge")

    async def search(
        self, reader: KnowledgeReader, query: str, *, category: KnowledgeCategory | None = None, limit: int
    ) -> list[Knowledge]:
        return await self._store.read(lambda db: _search(db, reader, query, category, limit))

    async def list_versions(self, reader: KnowledgeReader, key: str) -> list[Knowledge]:
        return await self._store.read(lambda db: _list_versions(db, reader, key))

    async def list_newest(
        self, reader: KnowledgeReader, *, category: KnowledgeCategory | None = None, after: str = "", limit: int
    ) -> list[Knowledge]:
        return await self._store.read(lambda db: _list_newest(db, reader, category, after, limit))

    async def forget(self, owner: str, key: str) -> int:
        count = await self._store.write(lambda db: _forget(db, owner, key), "knowledge")
        if count:
            await self._store.purge()
        return count


# ---- writing --------------------------------------------------------------------------------------


def _save(db: apsw.Connection, item: Knowledge, versions: int) -> SavedKnowledge:
    newest = db.execute(
        "SELECT version, content, category, tags, source, source_class, asset_label, taint FROM knowledge"
        " WHERE owner = ? AND key = ? ORDER BY version DESC LIMIT 1",
        (item.owner, item.key),
    ).fetchone()
    columns = (
        item.content,
        item.category.value,
        msgspec.json.encode(item.tags).decode(),
        item.source,
        item.source_class.value,
        item.asset_label,
        # The same text with another taint counts as different knowledge.
        rows.encode_taint(item.taint),
    )
    if newest is not None and tuple(newest[1:]) == columns:
        return SavedKnowledge(newest[0], is_new=False)
    if newest is None and not item.agent:
        _check_room(db, item.owner)
    version = (newest[0] if newest is not None else 0) + 1
    if not item.agent:
        _retire(db, item)
    _insert(db, item, version)
    knowledge_rows.drop(
        db, "knowledge", "owner = ? AND key = ? AND version <= ?", (item.owner, item.key, version - versions)
    )
    return SavedKnowledge(version, is_new=True)


def _check_room(db: apsw.Connection, owner: str) -> None:
    count = db.execute("SELECT count(*) FROM knowledge WHERE owner = ? AND agent = '' AND current", (owner,)).get
    if count >= MOST_ENTRIES:
        raise make_full_error(count)


def _retire(db: apsw.Connection, item: Knowledge) -> None:
    """Take earlier versions out of the search."""
    found = db.execute("SELECT number FROM knowledge WHERE owner = ? AND key = ? AND current", (item.owner, item.key))
    dialect.unindex_owned(db, INDEX, [number for (number,) in found])
    db.execute("UPDATE knowledge SET current = 0 WHERE owner = ? AND key = ? AND current", (item.owner, item.key))


def _insert(db: apsw.Connection, item: Knowledge, version: int) -> None:
    origin = item.origin or ConversationKey("", "")
    db.execute(
        "INSERT INTO knowledge (owner, key, version, category, content, tags, source, source_class, asset_label, taint,"
        " created_at, agent, current, origin_agent, origin_sender)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
        (
            item.owner,
            item.key,
            version,
            item.category.value,
            item.content,
            msgspec.json.encode(item.tags).decode(),
            item.source,
            item.source_class.value,
            item.asset_label,
            rows.encode_taint(item.taint),
            item.created_at,
            item.agent,
            *origin,
        ),
    )
    words = (owned_search.owner_word(item.owner, item.agent), item.key, item.content, " ".join(item.tags))
    dialect.index_owned(db, INDEX, db.last_insert_rowid(), words)


def _keep_results(db: apsw.Connection, items: Sequence[Knowledge], versions: int) -> None:
    for item in items:
        # The conversation may have been deleted before a hook wrote.
        if item.origin is not None and rows.conversation_id(db, item.origin) is not None:
            _save(db, item, versions)


def _forget(db: apsw.Connection, owner: str, key: str) -> int:
    return knowledge_rows.drop(db, "knowledge", "owner = ? AND key = ?", (owner, key))


# ---- reading --------------------------------------------------------------------------------------


def _search(
    db: apsw.Connection, reader: KnowledgeReader, query: str, category: KnowledgeCategory | None, limit: int
) -> list[Knowledge]:
    scores = {} if is_unspaced(query) else _score_by_words(db, reader, query)
    found = _list_current(db, reader, category, list(scores)) if scores else []
    parts = fragments(query)
    if not found and parts:
        found = _list_current(db, reader, category)
        texts = [(number, f"{item.key} {item.content} {' '.join(item.tags)}") for number, item in found]
        scores = owned_search.score_by_letters(texts, parts)
    ranked = sorted(((scores[number], number, item) for number, item in found if number in scores), reverse=True,
        key=lambda each: each[:2],
    )  # fmt: skip
    return [item for _, _, item in ranked[:limit]]


def _score_by_words(db: apsw.Connection, reader: KnowledgeReader, query: str) -> dict[int, float]:
    agents = [""] if reader.agent == "" else ["", reader.agent]
    if reader.agent is None:
        own = db.execute("SELECT DISTINCT agent FROM knowledge WHERE owner = ? AND current", (reader.owner,))
        agents = [agent for (agent,) in own] or [""]
    owners = [owned_search.owner_word(reader.owner, agent or "") for agent in agents]
    count = db.execute(f"SELECT count(*) FROM knowledge WHERE {_VISIBLE} AND current", (reader.owner, reader.agent)).get
    return owned_search.score_by_words(db, INDEX, owners, terms(query), count)


def _list_current(
    db: apsw.Connection,
    reader: KnowledgeReader,
    category: KnowledgeCategory | None,
    numbers: Sequence[int] | None = None,
) -> list[tuple[int, Knowledge]]:
    """Return the rows that search may find. The owner is checked here too, independently of the index."""
    among = "" if numbers is None else f" AND number IN {dialect.among('?4')}"
    found = db.execute(
        f"SELECT {_COLUMNS} FROM knowledge WHERE {_VISIBLE} AND current AND (?3 = '' OR category = ?3){among}",
        (
            reader.owner,
            reader.agent,
            category.value if category else "",
            *([msgspec.json.encode(numbers).decode()] if numbers is not None else []),
        ),
    )
    return [(row[0], _read_knowledge(row)) for row in found]


def _list_versions(db: apsw.Connection, reader: KnowledgeReader, key: str) -> list[Knowledge]:
    found = db.execute(
        f"SELECT {_COLUMNS} FROM knowledge WHERE {_VISIBLE} AND key = ?3 ORDER BY version DESC",
        (reader.owner, reader.agent, key),
    )
    return [_read_knowledge(row) for row in found]


def _list_newest(
    db: apsw.Connection, reader: KnowledgeReader, category: KnowledgeCategory | None, after: str, limit: int
) -> list[Knowledge]:
    found = db.execute(
        f"SELECT {_COLUMNS} FROM knowledge WHERE {_VISIBLE} AND key > ?3 AND (?4 = '' OR category = ?4)"
        " AND version = (SELECT max(version) FROM knowledge AS other"
        " WHERE other.owner = knowledge.owner AND other.key = knowledge.key) ORDER BY key LIMIT ?5",
        (reader.owner, reader.agent, after, category.value if category else "", limit),
    )
    return [_read_knowledge(row) for row in found]


def _read_knowledge(row: rows.Row) -> Knowledge:
    _, owner, key, version, category, content, tags, source, source_class, label, taint, at, agent, *origin = row
    return Knowledge(
        owner=owner,
        key=key,
        category=KnowledgeCategory(category),
        content=content,
        tags=_decode_tags(tags),
        source=source,
        source_class=SourceClass(source_class),
        asset_label=label,
        taint=rows.decode_taint(taint),
        version=version,
        created_at=at,
        agent=agent,
        origin=ConversationKey(*origin) if origin[0] else None,
    )
