"""Learnings from calls: the audit of calls, failures and their fixes by owner, with full-text search."""

from collections.abc import Callable, Sequence

import apsw
import msgspec

from moot.domain.conversation import ConversationKey
from moot.domain.learning import (
    FIRST_CONFIDENCE,
    LEAST_CONFIDENCE,
    MOST_LEARNINGS,
    CallLearning,
    Failure,
    FixedFailure,
    Learning,
    LearningCategory,
    LearningFilter,
    LearningStats,
    ToolCount,
    lower_confidence,
    make_id,
    make_trigger,
    raise_confidence,
)
from moot.store import dialect, knowledge_rows, owned_search, rows
from moot.store.ranking import fragments, is_unspaced, terms
from moot.store.sqlite import SqliteStore

INDEX = "learning_index"
_COLUMNS = (
    "number, id, owner, trigger, error_pattern, diagnosis, fix, category, confidence, occurrences, taint, created_at,"
    " updated_at, origin_agent, origin_sender"
)
_OF_TRIGGER = 200
_TOOLS = 20


class SqliteLearnings:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def learn(self, learned_calls: Sequence[CallLearning]) -> None:
        await self._store.write(lambda db: _learn(db, learned_calls), "learning")

    async def save(self, learning: Learning) -> bool:
        return await self._store.write(lambda db: _save(db, learning), "learning")

    async def list_of_trigger(self, owner: str, trigger: str) -> list[Learning]:
        return await self._store.read(lambda db: _list_of_trigger(db, owner, trigger))

    async def search(
        self, owner: str, query: str, *, category: LearningCategory | None = None, limit: int
    ) -> list[Learning]:
        return await self._store.read(lambda db: _search(db, owner, query, category, limit))

    async def list_all(self, owner: str, *, after: str = "", limit: int) -> list[Learning]:
        return await self._store.read(lambda db: _list_all(db, owner, after, limit))

    async def count(self, owner: str) -> LearningStats:
        return await self._store.read(lambda db: _count(db, owner))

    async def clean(self, owner: str, wanted: LearningFilter, *, dry_run: bool) -> list[str]:
        if dry_run:
            return [each.id for each in await self._store.read(lambda db: _list_wanted(db, owner, wanted))]
        gone = await self._store.write(lambda db: _clean(db, owner, wanted), "learning")
        if gone:
            await self._store.purge()
        return gone


# ---- writing --------------------------------------------------------------------------------------


def _learn(db: apsw.Connection, learned_calls: Sequence[CallLearning]) -> None:
    for learned in learned_calls:
        record = learned.record
        # The conversation may have been deleted before a hook wrote.
        if rows.conversation_id(db, learned.root) is None:
            continue
        db.execute(
            "INSERT INTO tool_audit (agent, sender, run, tool, ok, seconds, at, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                record.agent,
                record.sender,
                record.run_id,
                record.tool,
                int(record.ok),
                record.seconds,
                record.at,
                learned.owner,
            ),
        )
        if learned.failure is not None:
            _record_failure(db, learned, learned.failure)
        for offered in learned.helpful:
            _rate(db, offered, raise_confidence)
        if learned.unhelpful:
            _rate(db, learned.unhelpful, lower_confidence)
        for fixed in learned.fixed:
            _record_success(db, learned, fixed)


def _rate(db: apsw.Connection, number: str, rate: Callable[[float], float]) -> None:
    confidence = db.execute("SELECT confidence FROM learnings WHERE id = ?", (number,)).get
    if confidence is not None:
        db.execute("UPDATE learnings SET confidence = ? WHERE id = ?", (rate(confidence), number))


def _record_failure(db: apsw.Connection, learned: CallLearning, failure: Failure) -> None:
    known = make_trigger(failure.tool)
    found = _find(db, learned.owner, known, failure.pattern)
    if found is None:
        _make_room(db, learned.owner)
        learning = Learning(
            id=make_id(learned.owner, known, failure.pattern),
            owner=learned.owner,
            trigger=known,
            pattern=failure.pattern,
            diagnosis=failure.diagnosis,
            category=failure.category,
            confidence=FIRST_CONFIDENCE,
            occurrences=1,
            taint=failure.taint | failure.run_taint,
            created_at=learned.record.at,
            updated_at=learned.record.at,
            origin=learned.root,
        )
        _insert(db, learning)
        return
    number, learning = found
    db.execute(
        "UPDATE learnings SET occurrences = occurrences + 1, taint = ?, updated_at = ? WHERE number = ?",
        (rows.encode_taint(learning.taint | failure.taint), learned.record.at, number),
    )


def _record_success(db: apsw.Connection, learned: CallLearning, fixed: FixedFailure) -> None:
    found = _find(db, learned.owner, make_trigger(learned.record.tool), fixed.pattern)
    if found is None:
        return
    number, learning = found
    changed = learning
    if fixed.fix and (not learning.fix or learning.confidence < LEAST_CONFIDENCE):
        changed = msgspec.structs.replace(
            learning, fix=fixed.fix, taint=learning.taint | fixed.taint, confidence=FIRST_CONFIDENCE
        )
    db.execute(
        "UPDATE learnings SET fix = ?, taint = ?, confidence = ?, updated_at = ? WHERE number = ?",
        (
            changed.fix,
            rows.encode_taint(changed.taint),
            raise_confidence(changed.confidence),
            learned.record.at,
            number,
        ),
    )
    if changed.fix != learning.fix:
        dialect.unindex_owned(db, INDEX, [number])
        dialect.index_owned(db, INDEX, number, _words(changed))


def _save(db: apsw.Connection, learning: Learning) -> bool:
    """Insert or replace. A replaced one keeps its age and how often it occurred; its taint is that of the new text."""
    found = _find(db, learning.owner, learning.trigger, learning.pattern)
    named = msgspec.structs.replace(learning, id=make_id(learning.owner, learning.trigger, learning.pattern))
    if found is None:
        _make_room(db, learning.owner)
        _insert(db, named)
        return True
    number, known = found
    knowledge_rows.drop(db, "learnings", "number = ?", (number,))
    _insert(db, msgspec.structs.replace(named, occurrences=known.occurrences, created_at=known.created_at))
    return False


def _insert(db: apsw.Connection, learning: Learning) -> None:
    origin = learning.origin or ConversationKey("", "")
    db.execute(
        "INSERT INTO learnings (id, owner, trigger, error_pattern, diagnosis, fix, category, confidence, occurrences,"
        " taint, created_at, updated_at, origin_agent, origin_sender)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            learning.id,
            learning.owner,
            learning.trigger,
            learning.pattern,
            learning.diagnosis,
            learning.fix,
            learning.category.value,
            learning.confidence,
            learning.occurrences,
            rows.encode_taint(learning.taint),
            learning.created_at,
            learning.updated_at,
            *origin,
        ),
    )
    dialect.index_owned(db, INDEX, db.last_insert_rowid(), _words(learning))


def _words(learning: Learning) -> tuple[str, str, str, str]:
    text = f"{learning.pattern} {learning.diagnosis} {learning.fix}"
    return owned_search.owner_word(learning.owner), learning.trigger, text, learning.category.value


def _make_room(db: apsw.Connection, owner: str) -> None:
    """Delete the least sure one percent once there are too many."""
    if int(db.execute("SELECT count(*) FROM learnings WHERE owner = ?", (owner,)).get) < MOST_LEARNINGS:
        return
    knowledge_rows.drop(
        db,
        "learnings",
        "number IN (SELECT number FROM learnings WHERE owner = ? ORDER BY fix <> '', confidence, updated_at LIMIT ?)",
        (owner, MOST_LEARNINGS // 100),
    )


def _clean(db: apsw.Connection, owner: str, wanted: LearningFilter) -> list[str]:
    gone = [each.id for each in _list_wanted(db, owner, wanted)]
    for number in gone:
        knowledge_rows.drop(db, "learnings", "id = ?", (number,))
    return gone


# ---- reading --------------------------------------------------------------------------------------


def _find(db: apsw.Connection, owner: str, trigger: str, pattern: str) -> tuple[int, Learning] | None:
    row = db.execute(
        f"SELECT {_COLUMNS} FROM learnings WHERE owner = ? AND trigger = ? AND error_pattern = ?",
        (owner, trigger, pattern),
    ).fetchone()
    return None if row is None else (row[0], _learning(row))


def _list_of_trigger(db: apsw.Connection, owner: str, trigger: str) -> list[Learning]:
    found = db.execute(
        f"SELECT {_COLUMNS} FROM learnings WHERE owner = ? AND trigger = ? AND fix <> ''"
        " ORDER BY updated_at DESC, id LIMIT ?",
        (owner, trigger, _OF_TRIGGER),
    )
    return [_learning(row) for row in found]


def _search(
    db: apsw.Connection, owner: str, query: str, category: LearningCategory | None, limit: int
) -> list[Learning]:
    everything: list[rows.Row] = db.execute(f"SELECT {_COLUMNS} FROM learnings WHERE owner = ?", (owner,)).fetchall()
    numbered: dict[int, Learning] = {row[0]: _learning(row) for row in everything}
    wanted = {number: each for number, each in numbered.items() if category in (None, each.category)}
    scores: dict[int, float] = {}
    if not is_unspaced(query):
        word = owned_search.owner_word(owner)
        scores = owned_search.score_by_words(db, INDEX, [word], terms(query), len(everything))
    parts = fragments(query)
    if not any(number in wanted for number in scores) and parts:
        texts = [(number, " ".join(_words(each)[1:])) for number, each in wanted.items()]
        scores = owned_search.score_by_letters(texts, parts)
    ranked = sorted(((score, number) for number, score in scores.items() if number in wanted), reverse=True)
    return [wanted[number] for _, number in ranked[:limit]]


def _list_all(db: apsw.Connection, owner: str, after: str, limit: int) -> list[Learning]:
    found = db.execute(
        f"SELECT {_COLUMNS} FROM learnings WHERE owner = ? AND id > ? ORDER BY id LIMIT ?", (owner, after, limit)
    )
    return [_learning(row) for row in found]


def _list_wanted(db: apsw.Connection, owner: str, wanted: LearningFilter) -> list[Learning]:
    return [each for each in _list_all(db, owner, "", dialect.ALL_ROWS) if wanted.matches(each)]


def _count(db: apsw.Connection, owner: str) -> LearningStats:
    total, with_fix, average, oldest, newest = rows.one(
        db.execute(
            "SELECT count(*), count(*) FILTER (WHERE fix <> ''), coalesce(avg(confidence), 0.0),"
            " coalesce(min(created_at), 0.0), coalesce(max(updated_at), 0.0) FROM learnings WHERE owner = ?",
            (owner,),
        )
    )
    categories = db.execute(
        "SELECT category, count(*) FROM learnings WHERE owner = ? GROUP BY category ORDER BY category", (owner,)
    )
    tools = db.execute(
        "SELECT tool, count(*), count(*) - sum(ok) AS failures FROM tool_audit WHERE owner = ? GROUP BY tool"
        " ORDER BY failures DESC, tool LIMIT ?",
        (owner, _TOOLS),
    )
    return LearningStats(
        total=total,
        with_fix=with_fix,
        by_category=dict(categories),
        average_confidence=average,
        oldest=oldest,
        newest=newest,
        tools=tuple(ToolCount(*row) for row in tools),
    )


def _learning(row: rows.Row) -> Learning:
    _, number, owner, known, pattern, diagnosis, fix, category, sure, occurrences, taint, made, changed, *origin = row
    return Learning(
        id=number,
        owner=owner,
        trigger=known,
        pattern=pattern,
        diagnosis=diagnosis,
        fix=fix,
        category=LearningCategory(category),
        confidence=sure,
        occurrences=occurrences,
        taint=rows.decode_taint(taint),
        created_at=made,
        updated_at=changed,
        origin=ConversationKey(*origin) if origin[0] else None,
    )
