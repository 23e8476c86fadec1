"""Memories of an agent with a sender: upsert, search by words with what is useful first, forget and prune."""

from collections.abc import Sequence
from hashlib import sha256

import apsw
import msgspec

from moot.domain.conversation import ConversationKey
from moot.domain.memory import Memory, MemoryKind, choose_helpful, usefulness
from moot.domain.ports.agent_data import MemoryPlace
from moot.store import dialect, ranking, rows
from moot.store.ranking import Hit, fragments, terms, topics
from moot.store.sqlite import SqliteStore

_COLUMNS = "number, key, content, kind, tags, confidence, taint, uses, created_at, updated_at, used_at"
_OWN = "agent = ? AND sender = ?"
# Rows of one search that are scored; an owner keeps fewer than this unless the configuration says otherwise.
_MOST_ROWS = 10_000

_decode_tags = msgspec.json.Decoder(tuple[str, ...]).decode


class SqliteMemories:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def save(self, owner: ConversationKey, memory: Memory, *, max_entries: int, now: float) -> bool:
        return await self._store.write(lambda db: _save(db, owner, memory, max_entries, now), "memory")

    async def recall(
        self, owner: ConversationKey, query: str, *, limit: int, kind: MemoryKind | None = None, now: float
    ) -> list[Memory]:
        found = await self._store.read(lambda db: _search(db, owner, query, kind, limit, now))
        if found:
            await self._store.write(lambda db: _record_use(db, [number for number, _ in found], now), "memory")
        return [memory for _, memory in found]

    async def suggest(self, owner: ConversationKey, text: str, *, limit: int, now: float) -> list[Memory]:
        return await self._store.read(lambda db: _suggest(db, owner, text, limit, now))

    async def list_everywhere(
        self, *, agent: str = "", sender: str = "", after: MemoryPlace | None = None, limit: int
    ) -> list[tuple[ConversationKey, Memory]]:
        return await self._store.read(lambda db: _list_everywhere(db, agent, sender, after or ("", "", ""), limit))

    async def forget(self, owner: ConversationKey, key: str) -> bool:
        return await self._store.write(lambda db: _forget(db, owner, key), "memory")

    async def prune(self, owner: ConversationKey, *, max_entries: int, now: float) -> int:
        return await self._store.write(lambda db: _prune(db, owner, max_entries, now), "memory")


# ---- writing --------------------------------------------------------------------------------------


def _save(db: apsw.Connection, owner: ConversationKey, memory: Memory, max_entries: int, now: float) -> bool:
    """Insert or replace a memory. A replaced one keeps its age and uses; its taint is that of the new content."""
    before = _number(db, owner, memory.key)
    db.execute(
        "INSERT INTO memories (agent, sender, key, content, kind, tags, confidence, taint, created_at, updated_at)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9) ON CONFLICT (agent, sender, key) DO UPDATE SET"
        " content = ?4, kind = ?5, tags = ?6, confidence = ?7, taint = ?8, updated_at = ?9",
        (
            *owner,
            memory.key,
            memory.content,
            memory.kind.value,
            msgspec.json.encode(memory.tags).decode(),
            memory.confidence,
            rows.encode_taint(memory.taint),
            now,
        ),
    )
    if before is not None:
        dialect.unindex_memories(db, [before])
    number = before or db.last_insert_rowid()
    dialect.index_memory(db, number, (_owner_word(owner), memory.key, memory.content, " ".join(memory.tags)))
    if before is None:
        _make_room(db, owner, max_entries, now, keep=number)
    return before is None


def _number(db: apsw.Connection, owner: ConversationKey, key: str) -> int | None:
    found = db.execute(f"SELECT number FROM memories WHERE {_OWN} AND key = ?", (*owner, key)).get
    return None if found is None else int(found)


def _record_use(db: apsw.Connection, numbers: Sequence[int], now: float) -> None:
    db.executemany(
        "UPDATE memories SET uses = uses + 1, used_at = ? WHERE number = ?", [(now, number) for number in numbers]
    )


def _forget(db: apsw.Connection, owner: ConversationKey, key: str) -> bool:
    number = _number(db, owner, key)
    if number is not None:
        _delete(db, [number])
    return number is not None


def _make_room(db: apsw.Connection, owner: ConversationKey, max_entries: int, now: float, *, keep: int) -> None:
    """Prune 1 % at once if there are too many: scoring all takes milliseconds, and the next saves need none."""
    if _count(db, owner) > max_entries:
        _prune(db, owner, max_entries - max_entries // 100, now, keep=keep)


def _count(db: apsw.Connection, owner: ConversationKey) -> int:
    return int(db.execute(f"SELECT count(*) FROM memories WHERE {_OWN}", owner).get)


def _prune(db: apsw.Connection, owner: ConversationKey, max_entries: int, now: float, *, keep: int = 0) -> int:
    """Delete the least useful memories beyond the limit, except `keep`, which was just saved."""
    over = _count(db, owner) - max(0, max_entries)
    if over <= 0:
        return 0
    measured = db.execute(f"SELECT number, confidence, uses, updated_at, used_at FROM memories WHERE {_OWN}", owner)
    candidates = [
        (usefulness(Memory(key="", content="", confidence=sure, uses=uses, updated_at=at, used_at=used), now), number)
        for number, sure, uses, at, used in measured
        if number != keep
    ]
    removed = [number for _, number in sorted(candidates)[:over]]
    _delete(db, removed)
    return len(removed)


def _delete(db: apsw.Connection, numbers: Sequence[int]) -> None:
    dialect.unindex_memories(db, numbers)
    db.executemany("DELETE FROM memories WHERE number = ?", [(number,) for number in numbers])


# ---- searching ------------------------------------------------------------------------------------


def _search(
    db: apsw.Connection, owner: ConversationKey, query: str, kind: MemoryKind | None, limit: int, now: float
) -> list[tuple[int, Memory]]:
    found, scores = _match(db, owner, kind, terms(query), fragments(query))
    ranked = sorted(
        ((scores[number] * usefulness(memory, now), number, memory) for number, memory in found), reverse=True,
        key=lambda item: item[:2],
    )  # fmt: skip
    return [(number, memory) for _, number, memory in ranked[:limit]]


def _suggest(db: apsw.Connection, owner: ConversationKey, text: str, limit: int, now: float) -> list[Memory]:
    # Parts of words would match any long message; they are for scripts without spaces.
    found, scores = _match(db, owner, None, topics(text), fragments(text) if ranking.is_unspaced(text) else ())
    preferences = [memory for _, memory in _memories(db, owner, MemoryKind.PREFERENCE)]
    matches = [(scores[number], memory) for number, memory in found]
    return choose_helpful(matches, preferences, limit=limit, now=now)


def _match(
    db: apsw.Connection, owner: ConversationKey, kind: MemoryKind | None, words: Sequence[str], parts: Sequence[str]
) -> tuple[list[tuple[int, Memory]], dict[int, float]]:
    """Return the memories that have some of the words, and their scores."""
    scores = _by_words(db, owner, words) if words else {}
    found = _memories(db, owner, kind, list(scores)) if scores else []
    # No match by whole words: search for parts, for scripts without spaces and for parts of words.
    return (found, scores) if found else _by_letters(db, owner, kind, parts)


def _by_words(db: apsw.Connection, owner: ConversationKey, words: Sequence[str]) -> dict[int, float]:
    """Return BM25 scores over this owner's memories only, so that other owners do not affect them."""
    any_word = " OR ".join(f'"{word}"' for word in words)
    owned = f'owner : "{_owner_word(owner)}" AND {{key content tags}} : ({any_word})'
    hits = dialect.search_memories(db, owned, _MOST_ROWS)
    if not hits:
        return {}
    # The counts follow four bytes of length; the first count is that of the owner's term.
    found = [Hit(number, int.from_bytes(counts[:4], "little"), counts[5:]) for number, counts in hits]
    having = [ranking.count_having(found, place) for place in range(len(words))]
    return dict(ranking.bm25(found, having, _count(db, owner)))


def _by_letters(
    db: apsw.Connection, owner: ConversationKey, kind: MemoryKind | None, parts: Sequence[str]
) -> tuple[list[tuple[int, Memory]], dict[int, float]]:
    scores: dict[int, float] = {}
    found: list[tuple[int, Memory]] = []
    for number, memory in _memories(db, owner, kind) if parts else ():
        text = f"{memory.key} {memory.content} {' '.join(memory.tags)}".lower()
        hits = sum(1 for part in parts if part in text)
        if hits:
            scores[number] = hits / len(parts)
            found.append((number, memory))
    return found, scores


def _memories(
    db: apsw.Connection, owner: ConversationKey, kind: MemoryKind | None, numbers: Sequence[int] | None = None
) -> list[tuple[int, Memory]]:
    """Return memories of this owner. The owner is checked here too, independently of the index."""
    among = "" if numbers is None else f" AND number IN {dialect.among('?4')}"
    found = db.execute(
        f"SELECT {_COLUMNS} FROM memories WHERE agent = ?1 AND sender = ?2 AND (?3 = '' OR kind = ?3){among}",
        (*owner, kind.value if kind else "", *([msgspec.json.encode(numbers).decode()] if numbers is not None else [])),
    )
    return [_memory(row) for row in found]


def _list_everywhere(
    db: apsw.Connection, agent: str, sender: str, after: MemoryPlace, limit: int
) -> list[tuple[ConversationKey, Memory]]:
    found = db.execute(
        f"SELECT agent, sender, {_COLUMNS} FROM memories WHERE (agent, sender, key) > (?3, ?4, ?5)"
        " AND (?1 = '' OR agent = ?1) AND (?2 = '' OR sender = ?2) ORDER BY agent, sender, key LIMIT ?6",
        (agent, sender, *after, limit),
    )
    return [(ConversationKey(row[0], row[1]), _memory(row[2:])[1]) for row in found]


def _owner_word(owner: ConversationKey) -> str:
    return "o" + sha256("\x00".join(owner).encode()).hexdigest()


def _memory(row: rows.Row) -> tuple[int, Memory]:
    number, key, content, kind, tags, confidence, taint, uses, created_at, updated_at, used_at = row
    memory = Memory(
        key=key,
        content=content,
        kind=MemoryKind(kind),
        tags=_decode_tags(tags),
        confidence=confidence,
        taint=rows.decode_taint(taint),
        uses=uses,
        created_at=created_at,
        updated_at=updated_at,
        used_at=used_at,
    )
    return number, memory
