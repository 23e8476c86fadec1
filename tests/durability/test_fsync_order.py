"""Nothing is acknowledged before it is synced: the order of the disk's syncs and the store's answers.

A kill cannot show this, because the kernel keeps what was written. So the disk is watched.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.conversation import Archive, ConversationKey
from moot.domain.message import assistant
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.store.connection import Tuning
from moot.store.sqlite import open_store

pytestmark = pytest.mark.usefixtures("no_store_shortcuts")
WRITERS = 12
TURNS = 8


def early_answers(notes: list[Any]) -> list[str]:
    """Answers whose words had not been written to the log and synced there when they were given."""
    early = []
    for place, note in enumerate(notes):
        if note.what != "answered":
            continue
        written = [at for at in range(place) if notes[at].what == "write" and note.data in notes[at].data]
        synced = [
            at
            for at in range(written[0] if written else place, place)
            if notes[at].what == "sync" and notes[at].file == "log"
        ]
        if not synced:
            early.append(note.data.decode())
    return early


async def talk(path: Path, disk: Any, tuning: Tuning) -> None:
    store = await open_store(path, SystemClock(), tuning=tuning)

    async def converse(writer: int) -> None:
        key = ConversationKey("ada", f"writer {writer}")
        for turn in range(TURNS):
            run_id = f"run-{writer}-{turn}"
            marks = [f"<{kind}-{writer}-{turn}>" for kind in ("begin", "append", "end", "archive")]
            await store.begin(RunRequest(id=run_id, key=key, speaker="ada", content=marks[0]), now=1.0)
            disk.note("answered", data=marks[0].encode())
            await store.append(key, run_id, [assistant(marks[1])], now=1.0)
            disk.note("answered", data=marks[1].encode())
            entries = await store.end(key, run_id, RunEnd(outcome=Outcome.COMPLETED), [assistant(marks[2])], now=1.0)
            disk.note("answered", data=marks[2].encode())
            last = entries[-1].seq
            await store.archive(
                key, Archive(number=0, first_seq=0, last_seq=last, title="", summary=marks[3], archived_at=1.0)
            )
            disk.note("answered", data=marks[3].encode())

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(converse(writer))
    await store.close()


@pytest.mark.parametrize("batch", [1, 256])
def test_every_answer_comes_after_the_sync_of_its_own_words(tmp_path: Path, disk: Any, batch: int) -> None:
    asyncio.run(talk(tmp_path / "moot.db", disk, Tuning(vfs=disk.name, batch=batch, checkpoint_pages=50)))

    answers = [note for note in disk.notes if note.what == "answered"]
    assert len(answers) == WRITERS * TURNS * 4
    assert early_answers(disk.notes) == []


def test_without_full_synchronisation_the_same_watch_catches_early_answers(tmp_path: Path, disk: Any) -> None:
    tuning = Tuning(vfs=disk.name, synchronous="NORMAL", checkpoint_pages=100_000)

    asyncio.run(talk(tmp_path / "moot.db", disk, tuning))

    assert len(early_answers(disk.notes)) > WRITERS * TURNS


def test_waiting_transactions_share_one_sync(tmp_path: Path, disk: Any) -> None:
    async def scenario() -> int:
        store = await open_store(tmp_path / "moot.db", SystemClock(), tuning=Tuning(vfs=disk.name))
        before = len(disk.notes)
        begun = []
        for number in range(100):
            key = ConversationKey("ada", str(number))
            begun.append(store.begin(RunRequest(id=f"r{number}", key=key, speaker="ada", content="hi"), now=1.0))
        for each in begun:
            await each
        syncs = sum(1 for note in disk.notes[before:] if note.what == "sync" and note.file == "log")
        await store.close()
        return syncs

    assert asyncio.run(scenario()) <= 10
