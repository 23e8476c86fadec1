"""The writer's batches: who commits with whom, and who hears of what."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from moot.daemon.clock import SystemClock
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, StoreError
from moot.domain.run import RunRequest
from moot.store.connection import Tuning, connect
from moot.store.sqlite import SqliteStore, open_store


def key(number: int) -> ConversationKey:
    return ConversationKey("ada", str(number))


async def begin(store: SqliteStore, number: int) -> Any:
    return await store.begin(RunRequest(id=f"r{number}", key=key(number), speaker="ada", content="hi"), now=1.0)


class Gate:
    """Holds the writer's thread inside a transaction until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._open = threading.Event()

    def work(self, _db: apsw.Connection) -> None:
        self.entered.set()
        assert self._open.wait(10)

    def open(self) -> None:
        self._open.set()


def scenario(path: Path, test: Any) -> None:
    async def run() -> None:
        store = await open_store(path / "moot.db", SystemClock())
        try:
            async with asyncio.timeout(20):
                await test(store)
        finally:
            await store.close()

    asyncio.run(run())


async def held(store: SqliteStore, group: asyncio.TaskGroup) -> Gate:
    gate = Gate()
    group.create_task(store._write(gate.work))
    assert await asyncio.to_thread(gate.entered.wait, 10)
    return gate


def test_a_transaction_that_fails_is_taken_back_alone_and_the_others_commit(tmp_path: Path) -> None:
    async def half(store: SqliteStore) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute("INSERT INTO conversations (agent, sender, created_at, updated_at) VALUES ('x', 'half', 0, 0)")
            raise Conflict("changed my mind")

        with pytest.raises(Conflict):
            await store._write(work)

    async def test(store: SqliteStore) -> None:
        async with asyncio.TaskGroup() as group:
            gate = await held(store, group)
            for number in range(10):
                group.create_task(begin(store, number))
                group.create_task(half(store))
            await asyncio.sleep(0)
            gate.open()
        await half(store)
        found = await store.list_conversations()
        assert sorted(each.key.sender for each in found) == [str(number) for number in range(10)]
        assert await store.check() == []

    scenario(tmp_path, test)


def test_reads_do_not_wait_for_the_writer(tmp_path: Path) -> None:
    async def test(store: SqliteStore) -> None:
        await begin(store, 1)
        async with asyncio.TaskGroup() as group:
            gate = await held(store, group)
            loaded = await store.load(key(1))
            assert loaded is not None
            gate.open()

    scenario(tmp_path, test)


def test_what_was_handed_over_is_written_in_order_though_its_caller_is_gone(tmp_path: Path) -> None:
    async def test(store: SqliteStore) -> None:
        async with asyncio.TaskGroup() as group:
            gate = await held(store, group)
            first, second = group.create_task(begin(store, 1)), group.create_task(begin(store, 2))
            await asyncio.sleep(0)
            first.cancel()
            gate.open()
            assert (await second).created
        assert first.cancelled()
        assert [each.key.sender for each in await store.list_conversations()] == ["2", "1"]

    scenario(tmp_path, test)


def test_closing_finishes_what_waits(tmp_path: Path) -> None:
    async def test(store: SqliteStore) -> None:
        async with asyncio.TaskGroup() as group:
            gate = await held(store, group)
            begun = [group.create_task(begin(store, number)) for number in range(5)]
            await asyncio.sleep(0)
            closing = group.create_task(store.close())
            gate.open()
            await closing
        assert all(task.result().created for task in begun)

    scenario(tmp_path, test)


def test_a_bug_in_one_transaction_reaches_its_caller_and_the_writer_lives(tmp_path: Path) -> None:
    async def test(store: SqliteStore) -> None:
        with pytest.raises(ZeroDivisionError):
            await store._write(lambda _db: 1 / 0)
        with pytest.raises(StoreError):
            await store._write(lambda db: db.execute("SELECT nonsense"))
        with pytest.raises(StoreError):
            await store._write(lambda db: db.execute("COMMIT"))
        assert (await begin(store, 1)).created

    scenario(tmp_path, test)


def test_a_lock_held_by_another_process_is_waited_for_and_then_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moot.store.connection.BUSY_MS", 50)

    async def test(store: SqliteStore) -> None:
        other = connect(store.path, Tuning())
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            await begin(store, 1)
        other.execute("ROLLBACK")
        other.close()
        assert (await begin(store, 1)).created

    scenario(tmp_path, test)


def test_the_log_is_folded_in_and_stays_short(tmp_path: Path) -> None:
    async def run() -> int:
        store = await open_store(tmp_path / "moot.db", SystemClock(), tuning=Tuning(checkpoint_pages=50))
        for number in range(300):
            await begin(store, number)
        size = (await asyncio.to_thread(Path(f"{store.path}-wal").stat)).st_size
        await store.close()
        return size

    assert asyncio.run(run()) < 150 * 4200


def test_what_can_wait_goes_with_the_next_transaction_and_before_it(tmp_path: Path) -> None:
    async def test(store: SqliteStore) -> None:
        order: list[str] = []

        def note(name: str) -> Any:
            return lambda _db: order.append(name)

        waiting = [store.linger(note("first")), store.linger(note("second"))]
        await store.post(note("third"))
        assert order == ["first", "second", "third"]
        assert all(each.done() for each in waiting)

    scenario(tmp_path, test)


def test_what_can_wait_goes_by_itself_when_nothing_comes_after_it(tmp_path: Path) -> None:
    async def test(store: SqliteStore) -> None:
        assert await store.linger(lambda _db: "done") == "done"

    scenario(tmp_path, test)


def test_what_still_waits_when_the_store_closes_is_committed(tmp_path: Path) -> None:
    async def run() -> None:
        store = await open_store(tmp_path / "moot.db", SystemClock())
        insert = "INSERT INTO conversations (agent, sender, created_at, updated_at) VALUES ('ada', 'late', 0, 0)"
        waiting = store.linger(lambda db: db.execute(insert))
        await store.close()
        await waiting
        with pytest.raises(StoreError):
            store.linger(lambda _db: None)
        again = await open_store(tmp_path / "moot.db", SystemClock())
        assert [each.key.sender for each in await again.list_conversations()] == ["late"]
        await again.close()

    asyncio.run(run())


async def test_one_read_serves_all_who_ask_before_it_begins(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db", SystemClock())
    reads: list[apsw.Connection] = []

    def count(db: apsw.Connection) -> int:
        reads.append(db)
        return int(db.execute("SELECT count(*) FROM runs").get)

    def fail(_db: apsw.Connection) -> None:
        raise Conflict("no")

    together = store._readers.read_together
    first, second = asyncio.ensure_future(together(count)), asyncio.ensure_future(together(count))
    third = asyncio.ensure_future(together(count))
    await asyncio.sleep(0)
    # Who stops waiting takes nothing from the others.
    second.cancel()
    assert (await first, await third, len(reads)) == (0, 0, 1)
    # What was committed before is seen.
    await begin(store, 1)
    assert await together(count) == 1
    for failed in await asyncio.gather(together(fail), together(fail), return_exceptions=True):
        assert isinstance(failed, Conflict)
    await store.close()
    with pytest.raises(StoreError):
        await together(count)
