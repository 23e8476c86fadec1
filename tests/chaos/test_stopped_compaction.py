"""A compaction that is stopped while the disk writes its archive: what is in memory follows what is on disk."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from moot.daemon.clock import ManualClock, SystemClock
from moot.domain.agent import Agent
from moot.domain.config import ModelConfig
from moot.domain.conversation import Archive, ConversationKey
from moot.domain.message import assistant
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.engine.compaction import Compaction
from moot.engine.history import History
from moot.models.scripted import ScriptedModel
from moot.store.connection import Tuning
from moot.store.sqlite import SqliteStore, _prepare

KEY = ConversationKey("ada", "user")
AGENT = Agent(name="ada", description="listens", instruction="Listen.")
MODEL = ScriptedModel(ModelConfig(name="scripted", provider="scripted"), clock=SystemClock())


class SlowStore(SqliteStore):
    """A store whose disk has the archive long before it says so."""

    def __init__(self, path: Path, node: int) -> None:
        super().__init__(path, Tuning(), node, SystemClock())
        self.written = asyncio.Event()
        self.answer = asyncio.Event()

    async def archive(self, key: ConversationKey, archive: Archive, *, epoch: int = 0) -> Archive:
        stored = await super().archive(key, archive, epoch=epoch)
        self.written.set()
        await self.answer.wait()
        return stored


@asynccontextmanager
async def slow_store(path: Path) -> AsyncIterator[SlowStore]:
    store = SlowStore(path, _prepare(path, Tuning()))
    try:
        yield store
    finally:
        await store.close()


async def turn(store: SlowStore, number: int) -> None:
    run_id = f"run-{number}"
    await store.begin(RunRequest(id=run_id, key=KEY, speaker="ada", content=f"question {number}"), now=1.0)
    await store.end(KEY, run_id, RunEnd(outcome=Outcome.COMPLETED), [assistant(f"answer {number}")], now=1.0)


async def test_a_compaction_stopped_after_its_commit_leaves_memory_and_disk_agreeing(tmp_path: Path) -> None:
    async with slow_store(tmp_path / "moot.db") as store:
        await turn(store, 1)
        loaded = await store.load(KEY)
        assert loaded is not None
        history, compaction = History(loaded), Compaction(store=store, clock=ManualClock(1.0))
        stopped = asyncio.get_running_loop().create_task(
            compaction.compact(history, AGENT, MODEL, last_seq=history.last_seq)
        )
        await store.written.wait()
        stopped.cancel()
        await asyncio.wait({stopped})
        assert stopped.cancelled()
        store.answer.set()
        async with asyncio.timeout(30):
            while history.archive is None:  # noqa: ASYNC110 - what was stopped tells nobody that it is done
                await asyncio.sleep(0)
        assert history.entries == []
        # The next one goes on where this one ended; with the two apart it would be refused for good.
        await turn(store, 2)
        history.extend(await store.list_entries(KEY, first=3))
        second = await compaction.compact(history, AGENT, MODEL, last_seq=history.last_seq)
        assert (second.number, second.first_seq, second.last_seq) == (2, 3, 4)
