"""A process dies by SIGKILL in the middle of an import: the conversation is there whole, or nothing of it is."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from itertools import count
from pathlib import Path

import apsw
import pytest

from moot.daemon.clock import SystemClock
from moot.domain.conversation import ConversationKey
from moot.store import importing
from moot.store.sqlite import open_store

KEY = ConversationKey("ada", "imported")
WORD = "zanzibar"
MESSAGES = 2_000
IMPORTER = f"""
import asyncio, sys
from pathlib import Path
from moot.daemon.clock import SystemClock
from moot.domain.conversation import Archive, Conversation, ConversationKey
from moot.domain.message import user
from moot.store.connection import Tuning
from moot.store.sqlite import open_store

async def main():
    store = await open_store(Path(sys.argv[1]), SystemClock(), tuning=Tuning(checkpoint_pages=100))
    await store.recover()
    messages = [(user(f"{WORD} {{number}} " + "x" * 300), 1.0) for number in range({MESSAGES})]
    archives = [Archive(number=0, first_seq=0, last_seq=last, title="", summary="S", archived_at=1.0)
                for last in (500, 1500)]
    await store.restore_conversation(Conversation(key=ConversationKey("ada", "imported")), messages, archives)
    print("imported", flush=True)
    await store.close()

asyncio.run(main())
"""


def run_import(path: Path, fail_at: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", IMPORTER, str(path)],
        env={**os.environ, "MOOT_FAIL_AT": fail_at},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def unseen(path: Path) -> list[int]:
    """How many messages each import has that was not shown."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return [number for (number,) in db.execute("SELECT last_seq FROM conversations WHERE agent = ''")]


async def is_whole(path: Path) -> bool:
    """Whether it is there whole after the next start; anything else but nothing at all is a failure."""
    store = await open_store(path, SystemClock())
    # Before anything is tidied up, nobody sees a part.
    before = await store.list_entries(KEY)
    assert len(before) in (0, MESSAGES)
    assert await store.check() == []
    await store.recover()
    assert await store.check() == []
    entries = await store.list_entries(KEY)
    assert entries == before
    assert [conversation.key for conversation in await store.list_conversations()] == ([KEY] if entries else [])
    assert len(await store.recall(KEY, WORD, limit=9, now=3.0) if entries else ()) == (2 if entries else 0)
    await store.close()
    assert unseen(path) == []
    return bool(entries)


@pytest.mark.parametrize(
    ("point", "left"),
    [
        ("commit.part", []),
        ("committed.part", [200]),
        ("commit.part:6", [1_000]),
        ("committed.part:10", [MESSAGES]),
        ("commit.import", [MESSAGES]),
        ("committed.import", []),
    ],
)
def test_a_killed_import_is_whole_or_gone_and_can_be_made_again(tmp_path: Path, point: str, left: list[int]) -> None:
    path = tmp_path / "moot.db"
    died = run_import(path, point)
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, ""), died.stderr
    assert unseen(path) == left
    whole = asyncio.run(is_whole(path))
    assert whole == (point == "committed.import")
    if not whole:
        # No word of it is left, and nothing stands in the way of another try.
        assert WORD.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
        done = run_import(path)
        assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr
        assert asyncio.run(is_whole(path))


def test_what_is_left_is_removed_also_when_that_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "moot.db"
    run_import(path, "committed.part:9")
    before = sum(unseen(path))
    reached, go_on = threading.Event(), threading.Event()
    removed = count(1)
    discard = importing.discard

    def held(db: apsw.Connection, token: str) -> bool:
        if next(removed) == 3:
            reached.set()
            assert go_on.wait(30)
        return discard(db, token)

    async def half_swept() -> None:
        store = await open_store(path, SystemClock())
        task = asyncio.ensure_future(store.recover())
        assert await asyncio.to_thread(reached.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()

    with monkeypatch.context() as patch:
        patch.setattr(importing, "discard", held)
        asyncio.run(half_swept())
    assert 0 < sum(unseen(path)) < before
    assert not asyncio.run(is_whole(path))
