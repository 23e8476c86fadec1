"""Deleting a conversation through a running daemon: all it left behind is counted, and then gone."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from moot.domain.errors import NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, eventually
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = (
    PROVIDER_CONFIG
    + """
[security.interceptor]
exempt_tools = ["*"]
[knowledge]
enabled = true
[memory]
observe_every = 2
"""
)
CANARY = "zanzibarian"
LONG = "8765432.1"


def call(tool: str, number: int, /, **arguments: Any) -> dict[str, Any]:
    return {"id": f"call_del_{number:04}", "name": tool, "arguments": arguments}


def left(home: Home, word: str) -> set[str]:
    """The tables that hold the word somewhere, the tables of the indexes included."""
    found: set[str] = set()
    with closing(apsw.Connection(str(home.store), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        for (table,) in list(db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")):
            for row in db.execute(f'SELECT * FROM "{table}"'):
                held = (value if isinstance(value, bytes) else str(value).encode() for value in row)
                if any(word[3:].encode() in value.lower() for value in held):
                    found.add(table)
    return found


def asleep() -> list[str]:
    """The processes that wait as long as only this test lets one wait."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            continue
        if b"sleep\0" + LONG.encode() in line:
            found.append(process)
    return found


async def deleted(talk: Talking, sender: str, *, confirm: bool) -> pb.Deleted:
    return (await talk.ask(delete=pb.DeleteMsg(agent="ada", sender=sender, confirm=confirm))).deleted


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked for in /proc")
async def test_all_a_conversation_left_behind_is_counted_and_then_gone(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "long.txt").write_text(f"{CANARY}\n" * 3_000)
    (tmp_path / "short.txt").write_text(CANARY)
    provider.program(
        {
            "match": CANARY,
            "calls": [
                call("memory_agent_save", 1, key=CANARY, content=f"about {CANARY}"),
                call("task_create", 2, title=CANARY),
                call("fs_read", 3, path="long.txt"),
                call("fs_read", 4, path="short.txt"),
                call("fs_read", 5, path=f"no such {CANARY} file"),
                call("exec_bg", 6, command=f"sleep {LONG}"),
            ],
        },
        {"match": CANARY, "text": f"Done {CANARY}."},
        {"match": CANARY, "text": f"A note on {CANARY}."},
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("ada", f"work on {CANARY}", "gone", cwd=str(tmp_path))
            assert [result.is_error for result in speech.of("tool_result")].count(True) == 1
            await talk.say("ada", "hello", "stays")
            # Notes and lessons are written behind the turn.
            await eventually(lambda: left(home, CANARY) >= {"notes", "knowledge", "memories", "tasks", "outputs"})
            await eventually(asleep)
            provider.program({"match": "summary", "text": f"Work on {CANARY}. It was done."})
            await talk.compact("ada", "gone")

            preview = await deleted(talk, "gone", confirm=False)
            assert (preview.deleted, preview.memories, preview.tasks, preview.outputs, preview.jobs) == (
                False,
                1,
                1,
                1,
                1,
            )
            assert preview.notes >= 1
            assert preview.lessons >= 2
            told = daemon.cli("delete", "ada", "--as", "gone").stderr
            assert "1 memory, 1 task, " in told
            assert " 1 background command " in f" {told} ".replace("\n", " ").replace(".", " ")
            assert asleep() != []

            gone = await deleted(talk, "gone", confirm=True)
            assert (gone.deleted, gone.memories, gone.jobs) == (True, 1, 1)
            await eventually(lambda: not asleep())
            assert left(home, CANARY) == set()
            with pytest.raises(NotFound):
                await deleted(talk, "gone", confirm=False)

            # Begun again under the same name, it knows nothing.
            asked = [call("memory_agent_recall", 7, query=CANARY), call("task_list", 8)]
            provider.program({"match": "what do you remember", "calls": asked})
            again = await talk.say("ada", "what do you remember?", "gone", cwd=str(tmp_path))
            assert "about" not in "".join(result.output for result in again.of("tool_result"))
            assert len((await talk.history("ada", "stays")).messages) == 2


async def test_the_folder_of_a_conversation_goes_with_it_and_nothing_else_does(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "outside.txt").write_text("mine")
    link = f"ln -s {tmp_path} way-out; mkdir -p a/b; echo {CANARY} > a/b/c.txt; chmod 0 a/b; chmod 500 a"
    writing = [call("fs_write", 1, path=f"{CANARY}.txt", content=CANARY), call("exec", 2, command=link)]
    provider.program({"match": "write it", "calls": writing}, {"match": "write it", "text": "Written."})
    provider.program(
        {"match": "write too", "calls": [call("fs_write", 3, path="kept.txt", content="kept")]}, {"text": "Written."}
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "write it", "gone")
            await talk.say("ada", "write too", "stays")
            folders = [path.parent for path in home.path.rglob("*.txt")]
            (own,) = [folder for folder in folders if (folder / f"{CANARY}.txt").exists()]
            assert (own / "way-out").is_symlink()
            preview = await deleted(talk, "gone", confirm=False)
            assert preview.files >= 1
            assert own.exists()
            told = daemon.cli("delete", "ada", "--as", "gone", "--yes").stdout
            assert "of its own folder" in told
            assert not own.exists()
            assert (tmp_path / "outside.txt").read_text() == "mine"
            assert [path.read_text() for path in home.path.rglob("kept.txt")] == ["kept"]
            assert CANARY.encode() not in home.on_disk()
            # Begun again, it has a folder again.
            provider.program({"match": "list", "calls": [call("fs_list", 4, path=".")]}, {"text": "Empty."})
            again = await talk.say("ada", "list", "gone")
            assert not again.of("tool_result")[0].is_error
            assert own.is_dir()
