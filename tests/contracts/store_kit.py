"""Creates storage of each implementation for each test, and builds requests for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import apsw
from msgspec.structs import replace

from moot.daemon.clock import SystemClock
from moot.domain.conversation import Archive, ConversationKey
from moot.domain.message import assistant
from moot.domain.ports.storage import Storage
from moot.domain.ports.store import Store
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.store.memory.database import Database
from moot.store.memory.storage import build_memory_storage
from moot.store.memory.store import MemoryStore
from moot.store.sqlite import SqliteStore, open_store
from moot.store.sqlite_storage import build_storage

KEY = ConversationKey("ada", "user")
OTHER = ConversationKey("ada", "tg:1")
DONE = RunEnd(outcome=Outcome.COMPLETED, content="hello")


class Disk(Protocol):
    """Where an implementation of the storage ports keeps what is committed; it outlives each handle."""

    async def open(self) -> Storage: ...

    def resend(self, storage: Storage) -> None:
        """Make a handle alive again that is not, since another was opened."""
        ...

    def bury(self, storage: Storage) -> None:
        """Make a handle not alive."""
        ...

    def advance_epochs(self, by: int) -> None:
        """As if all conversations had been lost and claimed again, with the runs in them."""
        ...


class SqliteDisk:
    def __init__(self, path: Path) -> None:
        self.path = path / "moot.db"

    async def open(self) -> Storage:
        return build_storage(await open_store(self.path, SystemClock()))

    def resend(self, storage: Storage) -> None:
        assert isinstance(storage.store, SqliteStore)
        self.change("INSERT INTO nodes (id) VALUES (?)", storage.store.node)

    def bury(self, storage: Storage) -> None:
        assert isinstance(storage.store, SqliteStore)
        self.change("DELETE FROM nodes WHERE id = ?", storage.store.node)

    def advance_epochs(self, by: int) -> None:
        for table in ("conversations", "runs"):
            self.change(f"UPDATE {table} SET epoch = epoch + ?", by)

    def change(self, statement: str, *values: Any) -> None:
        with apsw.Connection(str(self.path)) as db:
            db.execute(statement, values)


class MemoryDisk:
    def __init__(self, _path: Path) -> None:
        self._database = Database()

    async def open(self) -> Storage:
        return build_memory_storage(MemoryStore(self._database, SystemClock()))

    def resend(self, storage: Storage) -> None:
        assert isinstance(storage.store, MemoryStore)
        node = storage.store.node
        self._database.transact(lambda db: db.nodes.put(node, node))

    def bury(self, storage: Storage) -> None:
        assert isinstance(storage.store, MemoryStore)
        node = storage.store.node
        self._database.transact(lambda db: db.nodes.remove(node))

    def advance_epochs(self, by: int) -> None:
        def advance(db: Database) -> None:
            for row in db.conversations:
                db.conversations.put(row.id, replace(row, epoch=row.epoch + by))
            for run in db.runs:
                db.runs.put(run.id, replace(run, epoch=run.epoch + by))

        self._database.transact(advance)


DISKS: dict[str, type[SqliteDisk] | type[MemoryDisk]] = {"sqlite": SqliteDisk, "memory": MemoryDisk}
Run = Callable[[Path, str], None]


def with_disk(test: Callable[[Disk], Awaitable[None]]) -> Run:
    """Run an async test on each implementation of the storage ports; the test opens what it needs."""

    async def scenario(path: Path, kind: str) -> None:
        async with asyncio.timeout(30):
            await test(DISKS[kind](path))

    def run(tmp_path: Path, storage_kind: str) -> None:
        asyncio.run(scenario(tmp_path, storage_kind))

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


def with_storage(test: Callable[[Storage], Awaitable[None]]) -> Run:
    """Run an async test on fresh storage and have the store checked afterwards."""

    async def scenario(disk: Disk) -> None:
        storage = await disk.open()
        try:
            await test(storage)
            assert await storage.store.check() == []
        finally:
            await storage.store.close()

    scenario.__name__ = test.__name__
    return with_disk(scenario)


def stored(test: Callable[[Store], Awaitable[None]]) -> Run:
    """Run an async test on a fresh store and have the store checked afterwards."""

    async def scenario(storage: Storage) -> None:
        await test(storage.store)

    scenario.__name__ = test.__name__
    return with_storage(scenario)


@asynccontextmanager
async def next_daemon(store: Store) -> AsyncIterator[Store]:
    """The store as the next daemon opens it, after the one that has used it so far has died."""
    again: Store
    if isinstance(store, MemoryStore):
        again = MemoryStore(store.database, SystemClock())
    else:
        assert isinstance(store, SqliteStore)
        again = await open_store(store.path, SystemClock())
    try:
        yield again
    finally:
        await again.close()


def request(run_id: str = "run-1", content: str = "hi", key: ConversationKey = KEY, **fields: Any) -> RunRequest:
    return replace(RunRequest(id=run_id, key=key, speaker=key.agent, content=content), **fields)


def archived(last_seq: int, **fields: Any) -> Archive:
    base = Archive(number=0, first_seq=0, last_seq=last_seq, title="T.", summary="T. All of it.", archived_at=50.0)
    return replace(base, **fields)


async def turn(store: Store, number: int, *replies: str, key: ConversationKey = KEY, now: float = 1.0) -> None:
    await store.begin(request(f"{key.sender}-{number}", f"question {number}", key), now=now)
    await store.end(key, f"{key.sender}-{number}", DONE, [assistant(reply) for reply in replies], now=now)


async def contents(store: Store, key: ConversationKey = KEY) -> list[tuple[int, str]]:
    return [(entry.seq, entry.message.content) for entry in await store.list_entries(key)]
