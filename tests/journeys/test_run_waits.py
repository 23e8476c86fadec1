"""How runs that wait are told: for whom, when nothing but a person brings them further, and what to type then."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from tests import fork_server
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import PATIENCE, Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, made, mate, say, script, wait
from tests.talking import Talking
from tests.terminal import terminal

CONFIG = (
    PLAIN
    + """
[agent]
multiAgent = true
[security.interceptor]
sensitive_tools = ["set_title", "fs_busy"]
"""
)

# Tools of the operator's that work until a file is there.
TOOLS = '''
import asyncio
from pathlib import Path

from moot.tools import tool


async def _until(path: str) -> str:
    while not Path(path).exists():
        await asyncio.sleep(0.02)
    return "done"


@tool(safety="safe")
async def fs_until(path: str) -> str:
    """Work until a file is there.

    Args:
        path: The file.
    """
    return await _until(path)


@tool(safety="safe")
async def fs_busy(path: str) -> str:
    """Work until a file is there, once that is approved.

    Args:
        path: The file.
    """
    return await _until(path)
'''


def spawned(*instructions: str) -> dict[str, Any]:
    """A step that sets several to work."""
    return {"calls": [made("agent_spawn", agent="operator", instruction=each) for each in instructions]}


SCRIPT = script(
    lead("^trip (?P<go>.*)", spawned("hold {go}", "name it"), wait("{agent_ids}"), say("All: {result}")),
    lead("^pair", spawned("name twice"), wait(), say("It said: {result}")),
    lead("^work (?P<go>.*)", spawned("busy {go}"), wait(), say("It said: {result}")),
    mate("^hold (?P<go>.*)", call("fs_until", path="{go}"), say("held")),
    mate("^name it", call("set_title", title="Boats"), say("named")),
    mate("^name twice", call("set_title", title="Boats"), call("set_title", title="Ships"), say("named twice")),
    {"match": "^alone (?P<go>.*)", "steps": [call("fs_busy", path="{go}"), say("Came of it: {result}")]},
    mate("^busy (?P<go>.*)", call("fs_busy", path="{go}"), say("was busy")),
    {"reply": "You said: {user}"},
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDaemon]:
    home = Home(tmp_path_factory.mktemp("home")).furnish(script=SCRIPT, config=CONFIG)
    (home.path / "tools").mkdir()
    (home.path / "tools" / "until.py").write_text(TOOLS)
    with daemon_thread(home) as daemon:
        yield daemon


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """What those who hold wait for."""
    return tmp_path / "go"


def let_go(go: Path) -> None:
    go.touch()


def start(daemon: LiveDaemon, text: str, *options: str) -> str:
    done = daemon.cli("run", "--bg", text, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def typed(daemon: LiveDaemon, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A command in a script that goes on beside the test."""
    process = fork_server.start(
        [sys.executable, "-m", "moot", *arguments],
        env=daemon.home.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


async def tree(talk: Talking, run_id: str) -> tuple[pb.RunInfo, dict[str, pb.RunInfo]]:
    """A run that goes on, and those it started by the first word of what they are to do."""
    infos = list((await talk.ask(list_runs=pb.ListRunsMsg())).run_list.runs)
    (root,) = [info for info in infos if info.run_id == run_id]
    return root, {info.instruction.split()[0]: info for info in infos if info.parent == run_id}


async def at_work(talk: Talking, run_id: str, *, asking: str = "", count: int = 2) -> dict[str, pb.RunInfo]:
    """Those a run started, once it waits for so many and one of them asks."""

    async def ready() -> dict[str, pb.RunInfo]:
        root, below = await tree(talk, run_id)
        is_asked = not asking or (asking in below and below[asking].ask_id)
        return below if len(root.waiting_on) == count and is_asked else {}

    found: dict[str, pb.RunInfo] = await eventually(ready)
    return found


async def decide(talk: Talking, ask_id: str, decision: str = "once") -> None:
    await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask_id, attempt=1, decision=decision))


# ---- who waits for whom -------------------------------------------------------------------------


async def test_a_background_run_still_waits_for_the_others_once_one_of_them_is_approved(
    daemon: LiveDaemon, go: Path
) -> None:
    async with daemon.client() as talk:
        run_id = start(daemon, f"trip {go}")
        below = await at_work(talk, run_id, asking="name")
        root, _ = await tree(talk, run_id)
        # What its teammate asks does not hold up the run itself, and others go on.
        assert (root.condition, root.ask_id, root.needs_person) == ("waiting_on_teammate", "", False)
        await decide(talk, below["name"].ask_id)

        async def named() -> pb.RunInfo | None:
            root, below = await tree(talk, run_id)
            return root if "name" not in below else None

        root = await eventually(named)
        assert root.condition == "waiting_on_teammate"
        assert list(root.waiting_on) == [below["hold"].run_id]
        let_go(go)
        assert daemon.cli("wait", run_id).returncode == 0


async def test_a_call_that_was_approved_is_what_the_run_does_last_while_it_works(daemon: LiveDaemon, go: Path) -> None:
    async with daemon.client() as talk:
        run_id = start(daemon, f"work {go}")
        below = await at_work(talk, run_id, asking="busy", count=1)
        assert below["busy"].last_action == "waiting for approval of fs_busy"
        await decide(talk, below["busy"].ask_id)

        async def approved() -> pb.RunInfo | None:
            _, below = await tree(talk, run_id)
            return below["busy"] if not below["busy"].condition else None

        assert (await eventually(approved)).last_action == "fs_busy"
        let_go(go)
        assert daemon.cli("wait", run_id).returncode == 0


# ---- moot wait in a script ----------------------------------------------------------------------


async def test_a_wait_comes_back_as_soon_as_only_a_person_is_left_to_wait_for(daemon: LiveDaemon, go: Path) -> None:
    async with daemon.client() as talk:
        run_id = start(daemon, f"trip {go}")
        below = await at_work(talk, run_id, asking="name")
        with typed(daemon, "wait", run_id, "--json") as waiting:
            await _is_waiting(daemon)
            assert waiting.poll() is None
            let_go(go)
            out, _ = await asyncio.to_thread(waiting.communicate, timeout=PATIENCE)
        assert waiting.returncode == 3
        (info,) = json.loads(out)["data"]["runs"]
        assert (info["needs_person"], info["waiting_on"]) == (True, [below["name"].run_id])
        await decide(talk, below["name"].ask_id)
        assert daemon.cli("wait", run_id).returncode == 0


async def test_a_wait_comes_back_for_each_thing_a_teammate_asks(daemon: LiveDaemon) -> None:
    async with daemon.client() as talk:
        run_id = start(daemon, "pair")
        for _ in range(2):
            done = daemon.cli("wait", run_id)
            assert done.returncode == 3, done.stderr
            below = await at_work(talk, run_id, asking="name", count=1)
            await decide(talk, below["name"].ask_id)
        done = daemon.cli("wait", run_id)
        assert done.returncode == 0
        assert "named twice" in done.stdout


async def _is_waiting(daemon: LiveDaemon) -> None:
    """Until a command that was started has reached the daemon."""
    async with daemon.client() as talk:

        async def connected() -> bool:
            # The one that asks, this one and the one that waits.
            return (await talk.ask(get_stats=pb.GetStats())).stats.connections >= 3

        await eventually(connected)


async def test_a_wait_names_what_is_asked_and_how_to_answer_it(daemon: LiveDaemon) -> None:
    async with daemon.client() as talk:
        run_id = start(daemon, "pair")
        done = daemon.cli("wait", run_id)
        below = await at_work(talk, run_id, asking="name", count=1)
        assert f"operator ({below['name'].run_id}): set_title waits for approval" in done.stderr
        assert f"moot inbox approve {shorten_ask_id(below['name'].ask_id)}" in done.stderr
        with terminal(daemon.home, "wait", run_id, columns=200) as person:
            person.wait_for(f"moot inbox approve {shorten_ask_id(below['name'].ask_id)}")
            await decide(talk, below["name"].ask_id)
            second = await _second(talk, run_id, below["name"].ask_id)
            person.wait_for(f"moot inbox approve {shorten_ask_id(second)}")
            await decide(talk, second)
            assert person.wait_for_exit() == 0
        assert "named twice" in person.seen


async def _second(talk: Talking, run_id: str, first: str) -> str:
    """What a teammate asks after the first thing."""

    async def asked() -> str:
        _, below = await tree(talk, run_id)
        ask_id = below["name"].ask_id
        return ask_id if ask_id != first else ""

    found: str = await eventually(asked)
    return found


# ---- following in a script ----------------------------------------------------------------------


async def until_said(process: "subprocess.Popen[str]", what: str) -> None:
    """Read what a command says beside its answer up to a line."""

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            if what in line:
                return
        raise AssertionError(f"it ended without saying {what!r}")

    async with asyncio.timeout(PATIENCE):
        await asyncio.to_thread(read)


@pytest.mark.parametrize("command", ["run", "ask"])
async def test_a_script_is_left_only_once_nothing_but_a_person_helps(
    daemon: LiveDaemon, go: Path, sender: str, command: str
) -> None:
    told = ("ask", "moot", f"trip {go}", "--as", sender) if command == "ask" else ("run", f"trip {go}", "--as", sender)
    with typed(daemon, *told, "--json") as process:
        await until_said(process, "An approval is open while other runs continue")
        assert process.poll() is None
        let_go(go)
        out, _ = await asyncio.to_thread(process.communicate, timeout=PATIENCE)
    assert process.returncode == 3
    data = json.loads(out)["data"]
    assert data["outcome"] == "waiting"
    (approval,) = data["approvals"]
    assert daemon.cli("inbox", "approve", approval["ask_id"], "--attempt", "1").returncode == 0


async def test_a_script_hears_the_answer_when_somebody_decides_while_others_work(daemon: LiveDaemon, go: Path) -> None:
    async with daemon.client() as talk:
        run_id = start(daemon, f"trip {go}")
        below = await at_work(talk, run_id, asking="name")
        with typed(daemon, "attach", run_id) as process:
            await until_said(process, f"moot inbox show {shorten_ask_id(below['name'].ask_id)}")
            await decide(talk, below["name"].ask_id)
            let_go(go)
            out, said = await asyncio.to_thread(process.communicate, timeout=PATIENCE)
        assert process.returncode == 0, said
        assert out.startswith("All: ")


async def test_one_who_joins_in_a_script_is_not_sent_away_for_what_is_settled(daemon: LiveDaemon, go: Path) -> None:
    async with daemon.client() as talk:
        run_id = start(daemon, f"alone {go}", "--agent", "ada")
        assert daemon.cli("wait", run_id).returncode == 3
        root, _ = await tree(talk, run_id)
        await decide(talk, root.ask_id)
        with typed(daemon, "attach", run_id) as process:
            await _is_waiting(daemon)
            let_go(go)
            out, said = await asyncio.to_thread(process.communicate, timeout=PATIENCE)
        assert process.returncode == 0, said
        assert out == "Came of it: done\n"


async def test_one_who_joins_hears_of_what_is_asked_now_alone(daemon: LiveDaemon) -> None:
    async with daemon.client() as talk:
        run_id = start(daemon, "pair")
        below = await at_work(talk, run_id, asking="name", count=1)
        first = below["name"].ask_id
        await decide(talk, first)
        second = await _second(talk, run_id, first)
        document = daemon.cli_json("attach", run_id)
        assert [each["ask_id"] for each in document["data"]["approvals"]] == [second]
        with terminal(daemon.home, "attach", run_id, columns=200) as person:
            person.wait_for("o/r/c/a/d ›")
            person.enter("o")
            person.wait_for("named twice")
            assert person.wait_for_exit() == 0
        assert person.seen.count("o/r/c/a/d ›") == 1
        assert "Boats" not in person.seen


# ---- moot ps ------------------------------------------------------------------------------------


async def test_only_the_one_that_asks_is_said_to_need_a_person(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            run_id = start(daemon, "pair")
            await at_work(talk, run_id, asking="name", count=1)
            with terminal(home, "ps", "--tree", columns=120) as person:
                person.wait_for("1 needs you · 1 waiting")
                assert person.wait_for_exit() == 0
            rows = [row for row in person.rows.text.splitlines() if "arun-" in row and "$" in row]
            assert ["waits for 1" in row for row in rows] == [True, False]
            assert ["needs you" in row for row in rows] == [False, True]
            daemon.cli("stop", run_id)
