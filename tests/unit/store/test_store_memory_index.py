"""The index of memories on disk: what is forgotten or let go of leaves no words in it."""

from moot.domain.memory import Memory
from moot.store.memories import SqliteMemories
from moot.store.sqlite import SqliteStore
from tests.unit.shelves import ADA, stored


@stored
async def test_what_is_forgotten_or_makes_room_leaves_nothing_in_the_index(store: SqliteStore) -> None:
    memories = SqliteMemories(store)

    async def count_indexed() -> object:
        return await store.read(lambda db: db.execute("SELECT count(*) FROM memory_index_docsize").get)

    for key in ("a", "b", "c"):
        await memories.save(ADA, Memory(key=key, content="boat"), max_entries=2, now=1.0)
    assert await count_indexed() == 2
    for key in ("a", "b", "c"):
        await memories.forget(ADA, key)
    assert await count_indexed() == 0
