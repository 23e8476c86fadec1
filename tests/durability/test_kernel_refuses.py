"""The kernel itself refuses to let the store's files grow, then lets them: no fake disk in between."""

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import asyncio, resource, sys
from pathlib import Path
from moot.daemon.clock import SystemClock
from moot.domain.conversation import ConversationKey
from moot.domain.errors import StoreError
from moot.domain.message import user
from moot.domain.run import RunRequest
from moot.store.sqlite import open_store

KEY = ConversationKey("ada", "user")

async def main():
    store = await open_store(Path(sys.argv[1]), SystemClock())
    await store.begin(RunRequest(id="r", key=KEY, speaker="ada", content="0"), now=1.0)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    stored, refused = ["0"], 0
    for number in range(1, 60):
        text = f"{number} " + "x" * 9000
        try:
            await store.append(KEY, "r", [user(text)], now=1.0)
        except StoreError as error:
            assert error.fix
            refused += 1
        else:
            stored.append(text)
    assert len(stored) > 5 and refused > 5, (len(stored), refused)
    assert [entry.message.content for entry in await store.list_entries(KEY)] == stored
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    (entry,) = await store.append(KEY, "r", [user("there is room again")], now=2.0)
    assert entry.seq == len(stored) + 1
    assert await store.check() == []
    await store.close()
    print("survived")

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no file size limits there")
def test_a_store_that_may_not_grow_says_so_and_goes_on_once_it_may(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "moot.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "survived\n", "")
