"""A daemon that lost a conversation to another cannot write it: two handles of one store, and who may do what."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from moot.domain.errors import Fenced
from moot.domain.message import assistant
from moot.domain.ports.store import Store
from moot.store.sqlite import open_store
from tests.contracts.store_kit import DONE, KEY, OTHER, archived, contents, request, turn


@asynccontextmanager
async def two_handles(path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """The handle of a daemon that is paused in the middle of run-1, and that of the next, which has taken over."""
    first = await open_store(path)
    try:
        await turn(first, 1, "one")
        await first.begin(request(), now=2.0)
        second = await open_store(path)
        try:
            (left,) = await second.recover()
            assert left.run.id == "run-1"
            yield first, second
            assert await second.check() == []
        finally:
            await second.close()
    finally:
        await first.close()


WRITES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "append": lambda store: store.append(KEY, "run-1", [assistant("late")], now=3.0),
    "append of no run": lambda store: store.append(KEY, "", [assistant("late")], now=3.0),
    "end": lambda store: store.end(KEY, "run-1", DONE, [assistant("late")], now=3.0),
    "begin": lambda store: store.begin(request("run-2"), now=3.0),
    "enqueue": lambda store: store.enqueue(request("run-2"), now=3.0),
    "archive": lambda store: store.archive(KEY, archived(2)),
    "rerun": lambda store: store.rerun(request("run-2"), of="user-1", now=3.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_was_taken_over_cannot_be_written_and_nothing_changes(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        async with two_handles(tmp_path / "moot.db") as (first, second):
            before = await contents(second), await second.runs(KEY), await second.archives(KEY)
            with pytest.raises(Fenced):
                await WRITES[name](first)
            assert (await contents(second), await second.runs(KEY), await second.archives(KEY)) == before
            # The one that has taken over goes on.
            await second.end(KEY, "run-1", DONE, [assistant("hello")], now=4.0)

    asyncio.run(scenario())


def test_a_queued_message_that_was_taken_over_is_taken_off_the_line_by_nobody_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = await open_store(tmp_path / "moot.db")
        await first.enqueue(request(), now=1.0)
        second = await open_store(tmp_path / "moot.db")
        assert [left.run.id for left in await second.recover()] == ["run-1"]
        with pytest.raises(Fenced):
            await first.unqueue("run-1", DONE, now=2.0)
        await second.begin(request(), now=2.0)
        await second.end(KEY, "run-1", DONE, [assistant("hello")], now=3.0)
        await first.close()
        await second.close()

    asyncio.run(scenario())


def test_a_run_writes_under_its_own_epoch_alone_though_its_node_has_the_conversation_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "moot.db"
        first = await open_store(path)
        await first.begin(request(), now=1.0)
        with apsw.Connection(str(path)) as db:
            db.execute("UPDATE conversations SET epoch = epoch + 2")
        for write in ("append", "end"):
            with pytest.raises(Fenced):
                await WRITES[write](first)
        await first.begin(request("run-2"), now=2.0)
        await first.end(KEY, "run-2", DONE, [assistant("hello")], now=3.0)
        await first.close()

    asyncio.run(scenario())


def test_recovery_leaves_the_runs_of_a_living_node_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "moot.db"
        dead, living = await open_store(path), await open_store(path)
        with apsw.Connection(str(path)) as db:
            db.execute("UPDATE nodes SET is_alive = 1")
        await living.begin(request(), now=1.0)
        await dead.begin(request("run-2", key=OTHER), now=1.0)
        third = await open_store(path)
        with apsw.Connection(str(path)) as db:
            db.execute("UPDATE nodes SET is_alive = 1 WHERE id = 2")
        assert [left.run.id for left in await third.recover()] == ["run-2"]
        for write in ("begin", "end"):
            with pytest.raises(Fenced):
                await WRITES[write](third)
        await living.end(KEY, "run-1", DONE, [assistant("hello")], now=2.0)
        for store in (dead, living, third):
            await store.close()

    asyncio.run(scenario())
