"""Knowledge and learnings in memory: saved versions, failures and fixes, search. Built by storage.py."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from moot.domain.knowledge import (
    MOST_ENTRIES,
    MOST_VERSIONS,
    Knowledge,
    KnowledgeCategory,
    KnowledgeReader,
    SavedKnowledge,
    make_full_error,
)
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
from moot.store.memory.database import Database, check_text
from moot.store.memory.knowledge_tables import AuditRow, KnowledgeRow, LearningRow
from moot.store.memory.search import score_texts
from moot.store.memory.transactions import Transactions

_OF_TRIGGER = 200
_TOOLS = 20

T = TypeVar("T")


class MemoryKnowledge:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def save(self, item: Knowledge) -> SavedKnowledge:
        return await self._transactions.write(lambda db: _save(db, item, MOST_VERSIONS))

    async def keep_results(self, items: Sequence[Knowledge], *, versions: int) -> None:
        await self._transactions.write(lambda db: _keep_results(db, items, versions))

    async def search(
        self, reader: KnowledgeReader, query: str, *, category: KnowledgeCategory | None = None, limit: int
    ) -> list[Knowledge]:
        return await self._transactions.read(lambda db: _search(db, reader, query, category, limit))

    async def list_versions(self, reader: KnowledgeReader, key: str) -> list[Knowledge]:
        return await self._transactions.read(lambda db: _list_versions(db, reader, key))

    async def list_newest(
        self, reader: KnowledgeReader, *, category: KnowledgeCategory | None = None, after: str = "", limit: int
    ) -> list[Knowledge]:
        return await self._transactions.read(lambda db: _list_newest(db, reader, category, after)[:limit])

    async def forget(self, owner: str, key: str) -> int:
        return await self._transactions.write(lambda db: db.knowledge.remove_all("key", (owner, key)))


def _save(db: Database, item: Knowledge, versions: int) -> SavedKnowledge:
    check_text(item.owner, item.key, item.content, item.source)
    known = sorted(db.knowledge.find("key", (item.owner, item.key)), key=lambda row: row.item.version)
    newest = known[-1].item if known else None
    if newest is not None and newest == replace(
        item, version=newest.version, created_at=newest.created_at, agent=newest.agent, origin=newest.origin
    ):
        return SavedKnowledge(newest.version, is_new=False)
    if newest is None and not item.agent:
        _check_room(db, item.owner)
    version = (newest.version if newest else 0) + 1
    for row in known:
        place = (item.owner, item.key, row.item.version)
        if row.item.version <= version - versions:
            db.knowledge.remove(place)
        elif not item.agent:
            db.knowledge.put(place, replace(row, is_current=False))
    row = KnowledgeRow(number=db.count_up("knowledge"), item=replace(item, version=version))
    db.knowledge.put((item.owner, item.key, version), row)
    return SavedKnowledge(version, is_new=True)


def _check_room(db: Database, owner: str) -> None:
    count = sum(row.is_current and not row.item.agent for row in db.knowledge.find("owner", owner))
    if count >= MOST_ENTRIES:
        raise make_full_error(count)


def _keep_results(db: Database, items: Sequence[Knowledge], versions: int) -> None:
    for item in items:
        # The conversation may have been deleted before a hook wrote.
        if item.origin is not None and db.conversation(item.origin) is not None:
            _save(db, item, versions)


def _search(
    db: Database, reader: KnowledgeReader, query: str, category: KnowledgeCategory | None, limit: int
) -> list[Knowledge]:
    visible = [row for row in db.knowledge.find("owner", reader.owner) if row.item.is_visible_to(reader)]
    everything = {row.number: row.item for row in visible if row.is_current}
    texts = {number: f"{item.key} {item.content} {' '.join(item.tags)}" for number, item in everything.items()}
    wanted = {number: item for number, item in everything.items() if category in (None, item.category)}
    return _rank(wanted, texts, query, limit)


def _rank(wanted: Mapping[int, T], texts: Mapping[int, str], query: str, limit: int) -> list[T]:
    scores = score_texts(texts, query, wanted)
    ranked = sorted(((score, number) for number, score in scores.items()), reverse=True)
    return [wanted[number] for _, number in ranked[:limit]]


def _list_versions(db: Database, reader: KnowledgeReader, key: str) -> list[Knowledge]:
    found = [row.item for row in db.knowledge.find("key", (reader.owner, key)) if row.item.is_visible_to(reader)]
    return sorted(found, key=lambda item: item.version, reverse=True)


def _list_newest(
    db: Database, reader: KnowledgeReader, category: KnowledgeCategory | None, after: str
) -> list[Knowledge]:
    newest: dict[str, Knowledge] = {}
    for row in db.knowledge.find("owner", reader.owner):
        item = row.item
        if item.key > after and item.is_visible_to(reader):
            newest[item.key] = max(newest.get(item.key, item), item, key=lambda each: each.version)
    return [newest[key] for key in sorted(newest) if category in (None, newest[key].category)]


# ---- learnings ------------------------------------------------------------------------------------


class MemoryLearnings:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def learn(self, learned_calls: Sequence[CallLearning]) -> None:
        await self._transactions.write(lambda db: _learn(db, learned_calls))

    async def save(self, learning: Learning) -> bool:
        return await self._transactions.write(lambda db: _save_learning(db, learning))

    async def list_of_trigger(self, owner: str, trigger: str) -> list[Learning]:
        def read(db: Database) -> list[Learning]:
            found = [each for each in _list_all(db, owner) if each.trigger == trigger and each.fix]
            return sorted(found, key=lambda each: (-each.updated_at, each.id))[:_OF_TRIGGER]

        return await self._transactions.read(read)

    async def search(
        self, owner: str, query: str, *, category: LearningCategory | None = None, limit: int
    ) -> list[Learning]:
        return await self._transactions.read(lambda db: _search_learnings(db, owner, query, category, limit))

    async def list_all(self, owner: str, *, after: str = "", limit: int) -> list[Learning]:
        return await self._transactions.read(
            lambda db: [each for each in _list_all(db, owner) if each.id > after][:limit]
        )

    async def count(self, owner: str) -> LearningStats:
        return await self._transactions.read(lambda db: _count(db, owner))

    async def clean(self, owner: str, wanted: LearningFilter, *, dry_run: bool) -> list[str]:
        def remove(db: Database) -> list[str]:
            found = [each for each in _list_all(db, owner) if wanted.matches(each)]
            for each in () if dry_run else found:
                db.learnings.remove(_place(each))
            return [each.id for each in found]

        return await self._transactions.write(remove)


def _place(learning: Learning) -> tuple[str, str, str]:
    return learning.owner, learning.trigger, learning.pattern


def _list_all(db: Database, owner: str) -> list[Learning]:
    return sorted((row.learning for row in db.learnings.find("owner", owner)), key=lambda each: each.id)


def _put(db: Database, learning: Learning) -> None:
    known = db.learnings.get(_place(learning))
    number = db.count_up("learnings") if known is None else known.number
    db.learnings.put(_place(learning), LearningRow(number=number, learning=learning))


def _learn(db: Database, learned_calls: Sequence[CallLearning]) -> None:
    for learned in learned_calls:
        # The conversation may have been deleted before a hook wrote.
        if db.conversation(learned.root) is None:
            continue
        db.tool_audit.put(db.count_up("tool_audit"), AuditRow(owner=learned.owner, record=learned.record))
        if learned.failure is not None:
            _learn_failure(db, learned, learned.failure)
        for offered in learned.helpful:
            _rate(db, learned.owner, offered, raise_confidence)
        if learned.unhelpful:
            _rate(db, learned.owner, learned.unhelpful, lower_confidence)
        for fixed in learned.fixed:
            _learn_success(db, learned, fixed)


def _rate(db: Database, owner: str, number: str, rate: Callable[[float], float]) -> None:
    for learning in _list_all(db, owner):
        if learning.id == number:
            _put(db, replace(learning, confidence=rate(learning.confidence)))


def _learn_failure(db: Database, learned: CallLearning, failure: Failure) -> None:
    place = (learned.owner, make_trigger(failure.tool), failure.pattern)
    row = db.learnings.get(place)
    if row is None:
        _make_room(db, learned.owner)
    known = (
        row.learning
        if row is not None
        else Learning(
            id=make_id(*place),
            owner=learned.owner,
            trigger=place[1],
            pattern=failure.pattern,
            diagnosis=failure.diagnosis,
            category=failure.category,
            confidence=FIRST_CONFIDENCE,
            taint=failure.run_taint,
            created_at=learned.record.at,
            origin=learned.root,
        )
    )
    _put(
        db,
        replace(
            known,
            occurrences=known.occurrences + 1,
            taint=known.taint | failure.taint,
            updated_at=learned.record.at,
        ),
    )


def _learn_success(db: Database, learned: CallLearning, fixed: FixedFailure) -> None:
    row = db.learnings.get((learned.owner, make_trigger(learned.record.tool), fixed.pattern))
    if row is None:
        return
    known = row.learning
    if fixed.fix and (not known.fix or known.confidence < LEAST_CONFIDENCE):
        known = replace(known, fix=fixed.fix, taint=known.taint | fixed.taint, confidence=FIRST_CONFIDENCE)
    _put(db, replace(known, confidence=raise_confidence(known.confidence), updated_at=learned.record.at))


def _save_learning(db: Database, learning: Learning) -> bool:
    check_text(learning.owner, learning.trigger, learning.pattern, learning.diagnosis, learning.fix)
    row = db.learnings.get(_place(learning))
    named = replace(learning, id=make_id(*_place(learning)))
    if row is None:
        _make_room(db, learning.owner)
        _put(db, named)
        return True
    _put(db, replace(named, occurrences=row.learning.occurrences, created_at=row.learning.created_at))
    return False


def _make_room(db: Database, owner: str) -> None:
    if db.learnings.count("owner", owner) < MOST_LEARNINGS:
        return
    least = sorted(_list_all(db, owner), key=lambda each: (bool(each.fix), each.confidence, each.updated_at))
    for each in least[: MOST_LEARNINGS // 100]:
        db.learnings.remove(_place(each))


def _search_learnings(
    db: Database, owner: str, query: str, category: LearningCategory | None, limit: int
) -> list[Learning]:
    everything = {row.number: row.learning for row in db.learnings.find("owner", owner)}
    texts = {
        number: f"{each.trigger} {each.pattern} {each.diagnosis} {each.fix} {each.category}"
        for number, each in everything.items()
    }
    wanted = {number: each for number, each in everything.items() if category in (None, each.category)}
    return _rank(wanted, texts, query, limit)


def _count(db: Database, owner: str) -> LearningStats:
    found = _list_all(db, owner)
    calls: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for row in db.tool_audit.find("owner", owner):
        calls[row.record.tool] += 1
        failures[row.record.tool] += not row.record.ok
    tools = sorted(calls, key=lambda tool: (-failures[tool], tool))
    return LearningStats(
        total=len(found),
        with_fix=sum(bool(each.fix) for each in found),
        by_category=dict(sorted(Counter(each.category.value for each in found).items())),
        average_confidence=sum(each.confidence for each in found) / len(found) if found else 0.0,
        oldest=min((each.created_at for each in found), default=0.0),
        newest=max((each.updated_at for each in found), default=0.0),
        tools=tuple(ToolCount(tool, calls[tool], failures[tool]) for tool in tools[:_TOOLS]),
    )
