"""A run that ends before the teammates it started: a script learns what they do and what they wait for."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from tests import daemon_process
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, eventually, run_cli
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.talking import Talking
from tests.teaming import LINGER
from tests.terminal import terminal

CONFIG = PLAIN + '[agent]\nmultiAgent = true\n[security.interceptor]\nsensitive_tools = ["set_title"]\n'
SCRIPT = script(
    lead("^go on once asked (?P<mark>.*)", spawn("name it"), spawn("cling {mark}"), wait(), say("Gone on.")),
    lead("has ended", say("I heard.")),
    mate("^name", call("set_title", title="Boats"), say("named")),
    mate("^cling (?P<mark>.*)", call("fs_cling", mark="{mark}"), say("Free.")),
)


@pytest.fixture
def home(home: Home) -> Home:
    (home.path / "tools").mkdir()
    (home.path / "tools" / "linger.py").write_text(LINGER)
    return home


@pytest.mark.parametrize("json_option", [["--json"], []])
async def test_an_ask_of_a_teammate_that_was_left_behind_is_told_and_is_no_success(
    home: Home, tmp_path: Path, json_option: list[str]
) -> None:
    mark = tmp_path / "mark"
    with daemon_thread(home) as daemon:
        await _leave_behind(daemon, mark, json_option)


async def _leave_behind(daemon: LiveDaemon, mark: Path, json_option: list[str]) -> None:
    async with daemon.client() as talk:
        asking = asyncio.create_task(
            asyncio.to_thread(run_cli, daemon.home, "ask", "moot", f"go on once asked {mark}", *json_option)
        )
        # Only once the first teammate asks can the second one end, and with it the leader.
        await eventually(talk.asks)
        mark.with_suffix(".go").touch()
        done = await asking
        (ask,) = await talk.asks()
        assert done.returncode == 3, done.stderr
        if json_option:
            told = json.loads(done.stdout)
            assert (told["ok"], told["error"]["type"]) == (False, "waiting")
            assert (told["data"]["outcome"], told["data"]["content"]) == ("completed", "Gone on.")
            assert [each["ask_id"] for each in told["data"]["open_asks"]] == [ask.ask_id]
            assert [each["instruction"] for each in told["data"]["teammates"]] == ["name it"]
        else:
            assert done.stdout == "Gone on.\n"
            assert "teammates that it did not wait for wait for a person" in done.stderr
            assert "moot inbox approve" in done.stderr
        await _deny(talk, ask)


@pytest.mark.parametrize("json_option", [["--json"], []])
async def test_moot_wait_tells_what_a_teammate_asks_that_a_run_left_behind(
    home: Home, tmp_path: Path, json_option: list[str]
) -> None:
    mark = tmp_path / "mark"
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            started = await asyncio.to_thread(run_cli, home, "run", "--bg", f"go on once asked {mark}")
            await eventually(talk.asks)
            mark.with_suffix(".go").touch()
            waited = await asyncio.to_thread(run_cli, home, "wait", started.stdout.strip(), *json_option)
            (ask,) = await talk.asks()
            await _deny(talk, ask)
        assert waited.returncode == 3, waited.stderr
        if json_option:
            told = json.loads(waited.stdout)
            assert (told["ok"], told["error"]["type"]) == (False, "waiting")
            assert [each["outcome"] for each in told["data"]["runs"]] == ["completed"]
            assert [each["ask_id"] for each in told["data"]["open_asks"]] == [ask.ask_id]
            assert [each["instruction"] for each in told["data"]["teammates"]] == ["name it"]
        else:
            assert waited.stdout == "Gone on.\n"
            assert "teammates that it did not wait for wait for a person" in waited.stderr
            assert "moot inbox approve" in waited.stderr


async def test_moot_wait_tells_what_a_teammate_asks_while_the_run_works_on_without_it(
    home: Home, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            run_id = (await asyncio.to_thread(run_cli, home, "run", "--bg", f"go on once asked {mark}")).stdout.strip()
            await eventually(talk.asks)
            (ask,) = await talk.asks()
            decide = f"(moot inbox approve {shorten_ask_id(ask.ask_id)})"
            late = await asyncio.to_thread(run_cli, home, "wait", run_id, "--timeout", "0")
            assert (late.returncode, decide in late.stderr) == (124, True), late.stderr
            with terminal(home, "wait", run_id, columns=200) as person:
                await asyncio.to_thread(person.wait_for, decide)
                script = daemon_process.spawn(home, command=(sys.executable, "-m", "moot", "wait", run_id, "--json"))
                assert script.stderr is not None
                assert any(decide in line for line in script.stderr)
                mark.with_suffix(".go").touch()
                out, _ = await asyncio.to_thread(script.communicate)
                assert await asyncio.to_thread(person.wait_for_exit) == 0
            assert [each["ask_id"] for each in json.loads(out)["data"]["open_asks"]] == [ask.ask_id]
            await _deny(talk, ask)


async def test_moot_wait_on_a_terminal_tells_it_in_rows_that_fit(home: Home, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            started = await asyncio.to_thread(run_cli, home, "run", "--bg", f"go on once asked {mark}")
            await eventually(talk.asks)
            mark.with_suffix(".go").touch()
            rows = await asyncio.to_thread(_wait_on_terminal, home, started.stdout.strip())
            (ask,) = await talk.asks()
            await _deny(talk, ask)
    assert max(map(len, rows)) < 60
    told = " ".join(" ".join(rows).split())
    assert "teammates that it did not wait for wait for a person" in told
    assert "moot inbox approve" in told


def _wait_on_terminal(home: Home, run_id: str) -> list[str]:
    with terminal(home, "wait", run_id, columns=60) as person:
        assert person.wait_for_exit() == 0
        return person.rows.text.split("\n")


async def _deny(talk: Talking, ask: pb.AskInfo) -> None:
    denied = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision="deny")
    await talk.connection.request(pb.ClientMessage(decide_ask=denied))
