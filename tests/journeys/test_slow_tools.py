"""A tool that is slow or never returns holds up its own run alone, and a kill ends it with all it started."""

import asyncio
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, DaemonProcess, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Speech, Talking

CONFIG = PROVIDER_CONFIG + '\n[security.interceptor]\npolicy = "none"\n'

HUNG = '''
import asyncio
import threading
from pathlib import Path

from moot.tools import tool


@tool(safety="safe")
def hang_in_a_thread(mark: str) -> str:
    """Never return.

    Args:
        mark: A file to make first.
    """
    Path(mark).touch()
    threading.Event().wait()
    return "never"


@tool(safety="safe")
async def hang_in_the_loop(mark: str) -> str:
    """Never return.

    Args:
        mark: A file to make first.
    """
    Path(mark).touch()
    await asyncio.Event().wait()
    return "never"


@tool(safety="safe")
async def hang_on_to_life(mark: str) -> str:
    """Never return, not even when told to stop.

    Args:
        mark: A file to make first.
    """
    Path(mark).touch()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue
'''

LEAVING = '''
import sys

from moot.tools import tool


@tool(safety="safe")
async def leave() -> str:
    """Leave."""
    sys.exit(3)
'''

Made = Callable[[str], dict[str, Any]]
# What never returns, and a command that prints more than anybody reads for as long as it is let.
TOOLS: dict[str, Made] = {
    "a hung command": lambda mark: {"name": "exec", "arguments": {"command": f"touch {mark}; sleep 600"}},
    "a command that prints": lambda mark: {
        "name": "exec",
        "arguments": {"command": f"touch {mark}; while sleep 0.01; do seq 1000; done"},
    },
    "a hung thread": lambda mark: {"name": "hang_in_a_thread", "arguments": {"mark": mark}},
    "a hung coroutine": lambda mark: {"name": "hang_in_the_loop", "arguments": {"mark": mark}},
    "a coroutine that does not stop": lambda mark: {"name": "hang_on_to_life", "arguments": {"mark": mark}},
}
QUESTION = {"name": "ask_user", "arguments": {"questions": [{"question": "Well?"}]}}


@pytest.fixture
def slow(home: Home) -> Home:
    (home.path / "tools").mkdir()
    (home.path / "tools" / "hung.py").write_text(HUNG, encoding="utf-8")
    return home


async def stuck(talk: Talking, provider: Provider, call: dict[str, Any], mark: Path) -> Speech:
    """A run whose tool is being executed at this moment."""
    provider.program({"match": "^get stuck$", "calls": [call]})
    speech = talk.start("ada", "get stuck", cwd=str(mark.parent))
    await speech.until("tool_start")
    await eventually(mark.exists)
    return speech


async def others(daemon: LiveDaemon, talk: Talking, provider: Provider) -> None:
    """Everything that must not wait for the stuck run, on its connection and on another."""
    provider.program(
        {"match": "^ask me$", "calls": [QUESTION]}, {"match": "^ask me$", "text": "Well."},
        {"match": "^for ever$", "text": "never", "hold": True},
    )  # fmt: skip
    async with daemon.client() as other:
        for client, agent, sender in ((talk, "bob", ""), (other, "ada", "somebody"), (other, "cyd", "")):
            said = await client.say(agent, "hello", sender)
            assert said.outcome == "completed"
        assert (await talk.ask(ping=pb.Ping())).WhichOneof("message") == "pong"
        asking = other.start("bob", "ask me")
        await asking.until("ask_user")
        await talk.reply("bob", "yes")
        assert (await asking.end()).outcome == "completed"
        endless = other.start("cyd", "for ever")
        await endless.until("start")
        await talk.kill("cyd")
        assert (await endless.end()).outcome == "cancelled"
        assert len((await other.history("ada")).messages) == 2


@pytest.mark.parametrize("name", TOOLS)
async def test_a_slow_tool_delays_no_other_conversation_and_no_kill_reply_or_ping(
    slow: Home, provider: Provider, tmp_path: Path, name: str
) -> None:
    mark = tmp_path / "work" / "started"
    mark.parent.mkdir()
    with running(slow) as daemon:
        async with daemon.client() as talk:
            speech = await stuck(talk, provider, TOOLS[name](str(mark)), mark)
            await others(daemon, talk, provider)
            assert speech.of("tool_result") == []
            await talk.kill("ada")
            await speech.end()
            assert speech.outcome == "cancelled"
            # The conversation goes on, whatever became of the tool.
            assert (await talk.say("ada", "and now?")).outcome == "completed"
        if name == "a coroutine that does not stop":
            daemon.kill_9()
    assert provider.faults() == []


def alive(tag: str) -> list[int]:
    """The processes of this machine that carry the tag in their command line."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if tag.encode() in words and state != "Z":
                found.append(int(folder.name))
    return found


@pytest.mark.parametrize("mode", ["auto", "none"])
async def test_a_kill_ends_a_hung_command_and_all_it_started_within_a_second(
    slow: Home, provider: Provider, tmp_path: Path, mode: str
) -> None:
    slow.write_config((slow.path / "config.toml").read_text() + f'\n[sandbox]\nmode = "{mode}"\n')
    # A child, one that does not listen to signals, one in a process group of its own, one whose parent is gone.
    tag = f"6{random.randrange(10**8):08}"
    command = (
        f"sleep {tag} & (trap '' TERM INT HUP; sleep {tag}) & setsid sleep {tag} & (sleep {tag} & exit) & "
        f"touch started; sleep {tag}"
    )
    mark = tmp_path / "work" / "started"
    mark.parent.mkdir()
    with daemon_thread(slow) as daemon:
        async with daemon.client() as talk:
            call = {"name": "exec", "arguments": {"command": command}}
            speech = await stuck(talk, provider, call, mark)
            await eventually(lambda: len(alive(tag)) == 5)
            answer = await talk.kill("ada")
            assert answer.pong.stopped
            await speech.end()
            await eventually(lambda: not alive(tag))
        assert speech.outcome == "cancelled"


async def test_many_searches_that_never_end_delay_no_other_conversation(
    slow: Home, provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("hello")
    provider.program(
        {"match": "^print$", "calls": [{"name": "exec", "arguments": {"command": f"yes {'a' * 60}b | head -3000"}}]},
        {"match": "^print$", "text": "printed"},
    )
    read = {"name": "fs_read", "arguments": {"path": "file"}}
    provider.program(*({"match": "^read$", **step} for step in ({"calls": [read]}, {"text": "read"}) * 2))
    with daemon_thread(slow) as daemon:
        async with daemon.client() as talk:
            said = await talk.say("ada", "print", cwd=str(tmp_path))
            (shown,) = said.of("tool_result")
            ref = re.search(r"out-[\w-]+", shown.output)
            assert ref, shown.output[-400:]
            search = {"ref": ref[0], "mode": "grep", "pattern": "(a+)+$"}
            calls = [{"name": "tool_output_get", "arguments": search} for _ in range(24)]
            provider.program({"match": "^search$", "calls": calls})
            await talk.say("bob", "read", cwd=str(tmp_path))
            searching = talk.start("ada", "search", cwd=str(tmp_path))
            await searching.until("tool_result")
            answer = await talk.say("bob", "read", cwd=str(tmp_path))
            assert answer.outcome == "completed"
            # In a line with the searches it would wait for most of them.
            assert len(searching.of("tool_result")) < 12
            await talk.kill("ada")
            assert (await searching.end()).outcome == "cancelled"


async def test_a_tool_that_calls_exit_ends_itself_and_not_the_daemon(home: Home, provider: Provider) -> None:
    (home.path / "tools").mkdir()
    (home.path / "tools" / "leaving.py").write_text(LEAVING, encoding="utf-8")
    provider.program(
        {"match": "^leave$", "calls": [{"name": "leave", "arguments": {}}]}, {"match": "^leave$", "text": "Oh."}
    )
    daemon = DaemonProcess.start(home)
    try:
        async with daemon.client() as talk:
            said = await talk.say("ada", "leave")
            assert said.outcome == "completed"
            (result,) = said.of("tool_result")
            assert "failed inside" in result.output
            assert (await talk.say("ada", "and now?")).outcome == "completed"
    finally:
        daemon.kill_9()


SLOW_TO_LOAD = '''
import time
from pathlib import Path

from moot.tools import tool

here = Path(__file__).parent
(here / "loading").touch()
while not (here / "go").exists():
    time.sleep(0.01)


@tool(safety="safe")
def slow_to_load() -> str:
    """Answer at once."""
    return "here"
'''


async def test_a_plugin_that_is_slow_to_load_holds_up_nobody_but_the_reload(home: Home, provider: Provider) -> None:
    folder = home.path / "tools"
    folder.mkdir()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk, daemon.client() as other:
            (folder / "slow.py").write_text(SLOW_TO_LOAD)
            reloading = asyncio.ensure_future(talk.ask(reload=pb.ReloadMsg()))
            await eventually((folder / "loading").exists)
            provider.program({"text": "Good morning."})
            await other.say("bob", "hello")
            assert not reloading.done()
            (folder / "go").touch()
            assert list((await reloading).reloaded.flaws) == []
            provider.program({"calls": [{"name": "slow_to_load", "arguments": {}}]}, {"text": "Done."})
            speech = await other.say("bob", "go")
    assert [result.output for result in speech.of("tool_result")] == ["here"]
