"""A fresh store for each test, and short ways to say what is done to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from moot.domain.conversation import Archive, ConversationKey
from moot.domain.message import assistant
from moot.domain.ports.store import Store
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.store.sqlite import SqliteStore, open_store

KEY = ConversationKey("ada", "user")
OTHER = ConversationKey("ada", "tg:1")
DONE = RunEnd(outcome=Outcome.COMPLETED, content="hello")


def stored(test: Callable[[Store], Awaitable[None]]) -> Callable[[Path], None]:
    """Run an async test on a fresh store and have the store checked afterwards."""

    async def scenario(path: Path) -> None:
        async with asyncio.timeout(30):
            store = await open_store(path / "moot.db")
            try:
                await test(store)
                assert await store.check() == []
            finally:
                await store.close()

    def run(tmp_path: Path) -> None:
        asyncio.run(scenario(tmp_path))

    run.__name__ = test.__name__
    return run


@asynccontextmanager
async def next_daemon(store: Store) -> AsyncIterator[Store]:
    """The store as the next daemon opens it, after the one that has used it so far has died."""
    assert isinstance(store, SqliteStore)
    again = await open_store(store.path)
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
    return [(entry.seq, entry.message.content) for entry in await store.entries(key)]
