"""A disk that is full or broken, at every third write and sync of a busy store.

Whatever fails: the caller hears of it, nothing acknowledged is lost, nothing refused appears later,
and the store works again as soon as the disk does, without being opened again.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from moot.daemon.clock import SystemClock
from moot.domain.conversation import Archive, ConversationKey
from moot.domain.errors import Conflict, MootError, NotFound, StoreError
from moot.domain.message import assistant
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.store.connection import Tuning
from moot.store.sqlite import SqliteStore, open_store
from tests.queued_runs import list_queued_runs
from tests.recovering import end_interrupted

pytestmark = pytest.mark.usefixtures("no_store_shortcuts")
KEY = ConversationKey("ada", "user")
DONE = RunEnd(outcome=Outcome.COMPLETED)
# For looking at what is there: the machine does not stop while a test looks.
LOOKING = Tuning(synchronous="OFF")
# After how many faults a store is opened once more; what was stored is read after every one.
_REOPENED = 4
# Every write and sync fails once with MOOT_FAULT_STEP=1, which takes a minute; each way of failing has its own places.
_STEP = int(os.environ.get("MOOT_FAULT_STEP", "4"))


class Ledger:
    """What the store has acknowledged, kept beside it."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.queued: list[str] = []
        self.archived: list[int] = []
        self.refusals: list[MootError] = []

    async def told(self, work: Awaitable[Any], then: Callable[[], None]) -> None:
        try:
            await work
        except (StoreError, NotFound, Conflict) as error:
            # Not found or a conflict: an earlier step of this turn was refused.
            self.refusals.append(error)
        else:
            then()

    @property
    def state(self) -> tuple[list[str], list[str], list[int]]:
        return self.messages, self.queued, self.archived


async def workload(store: SqliteStore, ledger: Ledger) -> None:
    """Turns with long and short messages, a queue, and compaction; each step fails or is acknowledged alone."""
    for turn in range(2):
        run_id = f"run-{turn}"
        question, words, reply = f"question {turn}", f"step {turn} " + "x" * 5000, f"reply {turn}"
        begin = store.begin(RunRequest(id=run_id, key=KEY, speaker="ada", content=question), now=1.0)
        await ledger.told(begin, partial(ledger.messages.append, question))
        wait = store.enqueue(RunRequest(id=f"wait-{turn}", key=KEY, speaker="ada", content="later"), now=1.0)
        await ledger.told(wait, partial(ledger.queued.append, f"wait-{turn}"))
        append = store.append(KEY, run_id, [assistant(words)], now=1.0)
        await ledger.told(append, partial(ledger.messages.append, words))
        end = store.end(KEY, run_id, DONE, [assistant(reply)], now=1.0)
        await ledger.told(end, partial(ledger.messages.append, reply))
        last = len(ledger.messages)
        if turn == 1 and last:
            put_away = Archive(number=0, first_seq=0, last_seq=last, title="", summary="S", archived_at=1.0)
            await ledger.told(store.archive(KEY, put_away), partial(ledger.archived.append, last))


async def state(store: SqliteStore, *, checks: bool = True) -> tuple[list[str], list[str], list[int]]:
    """What is stored, in the terms of a ledger. `checks` also checks the whole file, which takes most of the time."""
    messages = [entry.message.content for entry in await store.list_entries(KEY)]
    queued = [run.request.id for run in await list_queued_runs(store)]
    archived = [archive.last_seq for archive in await store.list_archives(KEY)]
    assert not checks or await store.check() == []
    return messages, queued, archived


def copied(path: Path) -> Path:
    """The files as they are now, as a machine that stops now would leave them."""
    copy = path.parent / "crashed"
    copy.mkdir()
    for part in (path, Path(f"{path}-wal")):
        if part.exists():
            shutil.copy(part, copy / part.name)
    return copy / path.name


async def state_after_a_crash(path: Path) -> tuple[list[str], list[str], list[int]]:
    store = await open_store(path, SystemClock(), tuning=LOOKING)
    await end_interrupted(store, now=2.0)
    found = await state(store)
    await store.close()
    return found


async def empty_store(path: Path) -> Path:
    store = await open_store(path, SystemClock(), tuning=LOOKING)
    await store.close()
    return path


async def survive(path: Path, disk: Any, at: int, error: type[Exception], *, until_mended: bool) -> bool:
    """Run the workload with one fault; False when the fault lies beyond its end."""
    store = await open_store(path, SystemClock(), tuning=Tuning(vfs=disk.name, checkpoint_pages=6))
    ledger = Ledger()
    disk.fail(at, error, until_mended=until_mended)
    failed_before = disk.failures
    await workload(store, ledger)
    reached = disk.failures > failed_before
    assert all(refusal.fix for refusal in ledger.refusals)
    crashed = await state_after_a_crash(copied(path))
    if until_mended:
        # While the disk refuses everything, a commit it broke off may still be found whole: unknown, never lost.
        pairs: Iterable[tuple[Sequence[object], Sequence[object]]] = zip(crashed, ledger.state, strict=True)
        for found, acknowledged in pairs:
            rest = iter(found)
            assert all(each in rest for each in acknowledged)
    else:
        assert crashed == ledger.state

    disk.mend()
    asked = RunRequest(id="after", key=KEY, speaker="ada", content="and now?")
    await store.begin(asked, now=3.0)
    ledger.messages.append("and now?")
    assert await state(store, checks=False) == ledger.state
    await store.end(KEY, "after", DONE, (), now=4.0)
    await store.close()
    if at % _REOPENED and reached:
        return True

    again = await open_store(path, SystemClock(), tuning=LOOKING)
    await end_interrupted(again, now=5.0)
    assert await state(again) == ledger.state
    await again.close()
    return reached


@pytest.mark.parametrize(
    ("error", "until_mended"),
    [(apsw.FullError, True), (apsw.IOError, False)],
    ids=["full until there is space", "broken once"],
)
def test_a_fault_at_any_write_or_sync_loses_nothing_acknowledged(
    tmp_path: Path, disk: Any, error: type[Exception], until_mended: bool
) -> None:
    async def scenario() -> int:
        empty, is_reached = await empty_store(tmp_path / "empty" / "moot.db"), True
        at = 1 + int(until_mended) - _STEP
        while is_reached:
            at += _STEP
            path = tmp_path / str(at) / "moot.db"
            path.parent.mkdir(mode=0o700)
            shutil.copy(empty, path)
            is_reached = await survive(path, disk, at, error, until_mended=until_mended)
            disk.notes.clear()
        return at

    reached = asyncio.run(scenario())

    assert reached > 40
    assert disk.failures >= reached // _STEP - 1


def test_a_full_disk_is_reported_with_what_to_do_and_refuses_the_whole_batch(tmp_path: Path, disk: Any) -> None:
    async def begin(store: SqliteStore, number: int) -> None:
        key = ConversationKey("ada", str(number))
        await store.begin(RunRequest(id=f"r{number}", key=key, speaker="ada", content="hi"), now=1.0)

    async def refused(store: SqliteStore, number: int) -> None:
        with pytest.raises(StoreError, match="full") as told:
            await begin(store, number)
        assert "space" in told.value.fix

    async def scenario() -> None:
        store = await open_store(tmp_path / "moot.db", SystemClock(), tuning=Tuning(vfs=disk.name))
        disk.fail(1, apsw.FullError, until_mended=True)
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(refused(store, number))
        assert await store.list_conversations() == []

        disk.mend()
        await begin(store, 99)
        assert [each.key.sender for each in await store.list_conversations()] == ["99"]
        await store.close()

    asyncio.run(scenario())
