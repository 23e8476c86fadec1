"""The cache of rules: a change in the store counts from the moment the cache is invalidated."""

import asyncio
from pathlib import Path

from moot.daemon.clock import SystemClock
from moot.domain.approval import Decision, Rule
from moot.engine.rules import Rules
from moot.store.asks import SqliteAsks
from moot.store.rules import SqliteRules
from moot.store.sqlite import open_store
from tests.unit.shelves import approval, asks_over, talk

CALL = approval(expires_at=1e12, exact="d", subject="ls")


async def test_a_rule_that_another_holder_of_the_store_deletes_does_not_count_after_the_notice(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db", SystemClock())
    try:
        await talk(store)
        asks = asks_over(store)
        await SqliteAsks(store).open(CALL)
        assert await asks.rules.find(CALL) is None
        await asks.decide("ask-run-1-c1", attempt=1, decision=Decision.ALWAYS, by="owner")
        assert await asks.rules.find(CALL) is not None
        elsewhere = SqliteRules(store)
        (rule,) = await elsewhere.load()
        await elsewhere.delete(rule.number)
        asks.rules.invalidate()
        assert await asks.rules.find(CALL) is None
    finally:
        await store.close()


async def test_what_was_read_before_a_change_is_not_kept_after_it() -> None:
    """The store is read while a rule is deleted: the check that reads it waits for the rules as they are now."""
    stored = [Rule(agent="ada", sender="user", tool="exec", pattern="ls", bound="d", number=1)]

    class SlowStore:
        def __init__(self) -> None:
            self.is_reading, self.may_go_on = asyncio.Event(), asyncio.Event()

        async def load(self) -> list[Rule]:
            found = list(stored)
            self.is_reading.set()
            await self.may_go_on.wait()
            return found

        async def delete(self, number: int) -> None:
            stored.clear()

    store = SlowStore()
    rules = Rules(store)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        reading = group.create_task(rules.read())
        await store.is_reading.wait()
        await rules.delete(1)
        store.may_go_on.set()
    assert reading.result() == []
