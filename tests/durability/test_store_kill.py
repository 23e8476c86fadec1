"""A process that writes is killed with SIGKILL at a random moment: what it was told is stored is there."""

import asyncio
import random
import re
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from moot.daemon.clock import SystemClock
from moot.domain.conversation import ConversationKey
from moot.domain.run import RunStatus
from moot.store.sqlite import open_store
from tests.recovering import end_interrupted

CYCLES = 6
WRITER = """
import asyncio, os, sys
from pathlib import Path
from moot.daemon.clock import SystemClock
from moot.domain.conversation import Archive, ConversationKey
from moot.domain.message import assistant
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.store.connection import Tuning
from moot.store.sqlite import open_store

def say(sender, seq, text):
    os.write(1, f"{sender} {seq} {text}\\n".encode())

async def talk(store, cycle, sender):
    key = ConversationKey("ada", sender)
    turn = 0
    while True:
        turn += 1
        text = f"{cycle}.{turn}"
        run_id = f"{sender}-{text}"
        begun = await store.begin(RunRequest(id=run_id, key=key, speaker="ada", content=text), now=1.0)
        say(sender, begun.entry.seq, text)
        (entry,) = await store.end(key, run_id, RunEnd(outcome=Outcome.COMPLETED), [assistant("re " + text)], now=1.0)
        say(sender, entry.seq, "re " + text)
        if turn % 5 == 0:
            await store.archive(
                key,
                Archive(number=0, first_seq=0, last_seq=entry.seq, title="", summary=text, archived_at=1.0),
            )

async def main():
    store = await open_store(Path(sys.argv[1]), SystemClock(), tuning=Tuning(checkpoint_pages=20))
    await store.recover()
    async with asyncio.TaskGroup() as group:
        for sender in range(6):
            group.create_task(talk(store, sys.argv[2], str(sender)))

asyncio.run(main())
"""


def write_until_killed(path: Path, cycle: int, acknowledgements: int) -> list[str]:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(cycle)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(acknowledgements)]
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()
    process.stdout.close()
    assert process.wait(30) == -signal.SIGKILL
    # The last line may be torn.
    return [line for line in lines if line.endswith("\n")]


async def compare(path: Path, told: dict[str, dict[int, str]]) -> None:
    store = await open_store(path, SystemClock())
    for run in await end_interrupted(store, now=2.0):
        assert run.status is RunStatus.ENDED
    assert await store.check() == []
    for sender, messages in told.items():
        key = ConversationKey("ada", sender)
        entries = await store.list_entries(key)
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        stored = {entry.seq: entry.message.content for entry in entries}
        assert {seq: stored.get(seq) for seq in messages} == messages
        assert len(set(stored.values())) == len(stored)
        assert all(run.status is RunStatus.ENDED for run in await store.list_runs(key))
    await store.close()


def test_what_was_acknowledged_survives_being_killed(tmp_path: Path) -> None:
    path = tmp_path / "moot.db"
    told: dict[str, dict[int, str]] = defaultdict(dict)
    chance = random.Random(7)

    for cycle in range(CYCLES):
        for line in write_until_killed(path, cycle, chance.randint(1, 300)):
            found = re.fullmatch(r"(\d+) (\d+) (.*)\n", line)
            assert found is not None
            told[found[1]][int(found[2])] = found[3]
        asyncio.run(compare(path, told))

    assert sum(map(len, told.values())) > CYCLES
