"""Memories: one owner's alone, found by words, the useful first, the least useful let go."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moot.domain.conversation import ConversationKey
from moot.domain.memory import Memory, MemoryKind, usefulness
from moot.store.memories import SqliteMemories
from moot.store.sqlite import SqliteStore
from tests.unit.shelves import ADA, ADA_WITH_EVE, BOB, DAY, stored

NOW = 100 * DAY


async def save(
    memories: SqliteMemories,
    key: str,
    content: str,
    *,
    owner: ConversationKey = ADA,
    at: float = NOW,
    most: int = 1_000,
    **fields: object,
) -> bool:
    memory = Memory(key=key, content=content, **fields)  # type: ignore[arg-type]
    return await memories.save(owner, memory, max_entries=most, now=at)


async def keys(memories: SqliteMemories, query: str, *, owner: ConversationKey = ADA, limit: int = 10) -> list[str]:
    return [memory.key for memory in await memories.recall(owner, query, limit=limit, now=NOW)]


@stored
async def test_a_memory_is_found_by_its_words_and_keeps_everything_said_of_it(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    assert await save(
        memories, "tea", "Likes green tea in the morning", kind=MemoryKind.PREFERENCE, tags=("drinks",), confidence=0.9,
        taint=frozenset({"web"}),
    )  # fmt: skip
    [found] = await memories.recall(ADA, "which teas", limit=5, now=NOW)
    assert found == Memory(
        key="tea",
        content="Likes green tea in the morning",
        kind=MemoryKind.PREFERENCE,
        tags=("drinks",),
        confidence=0.9,
        taint=frozenset({"web"}),
        created_at=NOW,
        updated_at=NOW,
    )
    assert await keys(memories, "drinks") == ["tea"]
    assert await keys(memories, "coffee") == []


@stored
async def test_a_key_saved_again_is_overwritten_and_its_old_words_are_gone(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    assert await save(memories, "home", "lives in Paris", taint=frozenset({"web"}), at=NOW - DAY)
    assert not await save(memories, "home", "lives in Oslo")
    assert await keys(memories, "Paris") == []
    [found] = await memories.recall(ADA, "Oslo", limit=5, now=NOW)
    assert (found.content, found.taint, found.created_at, found.updated_at) == (
        "lives in Oslo",
        frozenset(),
        NOW - DAY,
        NOW,
    )


@pytest.mark.parametrize("other", [ADA_WITH_EVE, BOB, ConversationKey("ada ", "user"), ConversationKey("ad", "auser")])
def test_nobody_else_sees_overwrites_prunes_or_forgets_a_memory(tmp_path: Path, other: ConversationKey) -> None:
    @stored
    async def scenario(store: SqliteStore) -> None:
        memories = SqliteMemories(store)
        await save(memories, "pin", "the door code is blue")
        assert await keys(memories, "door code blue", owner=other) == []
        assert await keys(memories, "蓝色 doo", owner=other) == []
        assert not await memories.forget(other, "pin")
        assert await memories.prune(other, max_entries=0, now=NOW) == 0
        assert await save(memories, "pin", "something else", owner=other)
        assert await keys(memories, "door code blue") == ["pin"]

    scenario(tmp_path)


@stored
async def test_what_others_remember_moves_no_rank(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    await save(memories, "a", "the garden gate is green and the fence is old")
    await save(memories, "b", "a gate, a gate, and nothing else")
    alone = await keys(memories, "green gate")
    for number in range(50):
        await save(memories, f"n{number}", "green green green", owner=BOB)
    await store.write(lambda db: db.execute("UPDATE memories SET uses = 0, used_at = 0"))
    assert await keys(memories, "green gate") == alone == ["a", "b"]


@stored
async def test_of_equal_words_the_sure_the_used_and_the_recent_come_first(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    await save(memories, "old", "boats on water", at=NOW - 90 * DAY)
    await save(memories, "unsure", "boats on water", confidence=0.0)
    await save(memories, "plain", "boats on water")
    await save(memories, "sure", "boats on water", confidence=1.0)
    await store.write(lambda db: db.execute("UPDATE memories SET uses = 60 WHERE key = 'plain'"))
    assert await keys(memories, "boats") == ["plain", "sure", "unsure", "old"]


@stored
async def test_a_memory_recalled_has_been_used_once_more(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    await save(memories, "x", "first boat", at=0.0)
    await save(memories, "y", "second boat boat boat", at=0.0)
    assert len(await keys(memories, "boat", limit=1)) == 1
    await memories.recall(ADA, "boat", limit=5, now=NOW)
    rows: list[Any] = list(await store.read(lambda db: db.execute("SELECT key, uses FROM memories").fetchall()))
    counts = dict(rows)
    assert sorted(counts.values()) == [1, 2]
    assert await store.read(lambda db: db.execute("SELECT min(used_at) FROM memories").get) == NOW


@stored
async def test_only_the_kind_asked_for_is_recalled(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    await save(memories, "f", "boats float", kind=MemoryKind.FACT)
    await save(memories, "s", "how to row boats", kind=MemoryKind.SKILL)
    found = await memories.recall(ADA, "boats", limit=5, kind=MemoryKind.SKILL, now=NOW)
    assert [memory.key for memory in found] == ["s"]


@stored
async def test_scripts_without_spaces_and_parts_of_words_are_found(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    await save(memories, "city", "他住在上海的旧城区")
    await save(memories, "build", "uses gcc-toolchain-nightly")
    assert await keys(memories, "上海") == ["city"]
    assert await keys(memories, "toolch") == ["build"]


@pytest.mark.parametrize("query", ['"', "* OR *", "owner:", "a AND", "NEAR(", "'; DROP TABLE memories;--", "\x00", "-"])
def test_no_query_is_an_error(tmp_path: Path, query: str) -> None:
    @stored
    async def scenario(store: SqliteStore) -> None:
        memories = SqliteMemories(store)
        await save(memories, "k", "something")
        assert await keys(memories, query) == []

    scenario(tmp_path)


@stored
async def test_pruning_keeps_the_most_useful(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    await save(memories, "stale", "boat one", confidence=0.1, at=0.0)
    await save(memories, "fresh", "boat two", confidence=0.1)
    await save(memories, "sure", "boat three", confidence=1.0)
    assert await memories.prune(ADA, max_entries=2, now=NOW) == 1
    assert sorted(await keys(memories, "boat")) == ["fresh", "sure"]
    assert await memories.prune(ADA, max_entries=2, now=NOW) == 0


@stored
async def test_a_full_memory_lets_go_of_another_and_never_of_what_is_being_saved(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    await save(memories, "a", "boat a", most=2, confidence=1.0)
    await save(memories, "b", "boat b", most=2, confidence=0.6)
    await save(memories, "c", "boat c", most=2, confidence=0.0)
    assert sorted(await keys(memories, "boat")) == ["a", "c"]
    left = await store.read(lambda db: db.execute("SELECT count(*) FROM memory_index_docsize").get)
    assert left == 2


@stored
async def test_one_in_a_hundred_goes_at_once(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    for number in range(201):
        await save(memories, f"{number}", "boat", most=200, at=NOW + number)
    left = await memories.recall(ADA, "boat", limit=500, now=NOW)
    assert {memory.key for memory in left} == {f"{number}" for number in range(3, 201)}


@stored
async def test_what_is_forgotten_leaves_nothing_in_the_index(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    await save(memories, "x", "boat")
    assert await memories.forget(ADA, "x")
    assert not await memories.forget(ADA, "x")
    assert await keys(memories, "boat") == []
    assert await store.read(lambda db: db.execute("SELECT count(*) FROM memory_index_docsize").get) == 0


@stored
async def test_two_saves_of_one_key_at_once_leave_one(store: SqliteStore) -> None:
    memories = SqliteMemories(store)
    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(save(memories, "same", f"boat {number}"))
    assert await keys(memories, "boat") == ["same"]


def test_usefulness_stays_between_a_quarter_and_two() -> None:
    worst = Memory(key="k", content="c", confidence=0.0, updated_at=0.0)
    best = Memory(key="k", content="c", confidence=1.0, updated_at=NOW, uses=10**9)
    assert 0.25 <= usefulness(worst, 10_000 * DAY) < usefulness(best, NOW) <= 2.0
