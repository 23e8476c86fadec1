"""Damage that the check must find: each is done by hand behind the store's back."""

import asyncio
from pathlib import Path

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.conversation import Archive, ConversationKey
from moot.domain.message import assistant
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.store.connection import Tuning, connect
from moot.store.sqlite import open_store

KEY = ConversationKey("ada", "user")


async def fill(path: Path) -> None:
    store = await open_store(path, SystemClock())
    for turn in range(4):
        await store.begin(RunRequest(id=f"r{turn}", key=KEY, speaker="ada", content="q"), now=1.0)
        done = RunEnd(outcome=Outcome.COMPLETED)
        (entry,) = await store.end(KEY, f"r{turn}", done, [assistant("x" * 5000)], now=1.0)
        if turn < 2:
            await store.archive(
                KEY, Archive(number=0, first_seq=0, last_seq=entry.seq, title="", summary="s", archived_at=1.0)
            )
    await store.enqueue(RunRequest(id="r9", key=KEY, speaker="ada", content="q"), now=1.0)
    await store.close()


def findings(path: Path) -> list[str]:
    async def scenario() -> list[str]:
        store = await open_store(path, SystemClock())
        found = await store.check()
        await store.close()
        return found

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("DELETE FROM messages WHERE seq = 2", "should have messages 1..8"),
        ("DELETE FROM messages WHERE seq = 8", "should have messages 1..8"),
        ("UPDATE messages SET id = id + 100 WHERE seq = 8", "should have messages 1..8"),
        ("UPDATE messages SET id = (99 << 32) + 1 WHERE seq = 8", "belong to nobody"),
        ("UPDATE runs SET conversation = 99 WHERE id = 'r0'", "has no conversations"),
        ("UPDATE runs SET user_seq = 50 WHERE id = 'r0'", "run r0"),
        ("UPDATE runs SET content = NULL WHERE id = 'r9'", "run r9"),
        ("UPDATE archives SET first_seq = 2 WHERE number = 2", "archive 2"),
        ("UPDATE archives SET number = 5 WHERE number = 2", "archive 5"),
        ("DELETE FROM archives WHERE number = 2", "miscounts"),
        ("DELETE FROM message_index WHERE rowid & 0xffffffff = 2", "misses 1 archived messages"),
        ("INSERT INTO message_index (rowid, content) VALUES ((1 << 32) + 7, 'x')", "1 too many"),
        ("DELETE FROM summary_index WHERE rowid & 0xffffffff = 1", "misses 1 summaries"),
    ],
)
def test_the_check_finds(tmp_path: Path, damage: str, words: str) -> None:
    path = tmp_path / "moot.db"
    asyncio.run(fill(path))
    assert findings(path) == []

    connection = connect(path, Tuning())
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(damage)
    connection.close()

    assert any(words in finding for finding in findings(path))


def test_the_check_finds_a_torn_file(tmp_path: Path) -> None:
    path = tmp_path / "moot.db"
    asyncio.run(fill(path))
    size = path.stat().st_size

    with path.open("r+b") as file:
        file.seek(size - 4096)
        file.write(b"\xa5" * 4096)

    assert any("damaged" in finding for finding in findings(path))
