"""Teammates that get in each other's way: who waits for whom, who stops whom, and what is open at the same time."""

import json
from pathlib import Path

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, made, mate, say, script, spawn, wait
from tests.teaming import TEAM, asked, called, results

CONFIG = PLAIN + TEAM
ANY = lead("^call (?P<tool>[a-z_]+) (?P<arguments>.*)", call("{tool}", "{arguments}"), say("{result}"))

# The orchestrator leaves ids for others to find, which are the operator's and the reviewer's to look for.
IDS = '''
import asyncio
import json
from pathlib import Path

from moot.tools import tool


@tool(safety="safe")
async def leave_ids(folder: str, ids: str) -> str:
    """Leave ids for others.

    Args:
        folder: Where to.
        ids: The ids, in the order of the files.
    """
    for number, each in enumerate(ids.replace(",", " ").split()):
        made = Path(folder) / f"{number}.new"
        made.write_text(each)
        made.rename(Path(folder) / str(number))
    return "left"


@tool(safety="safe")
async def fs_find_id(file: str) -> str:
    """Find an id that was left.

    Args:
        file: Where it was left.
    """
    while not Path(file).exists():
        await asyncio.sleep(0.02)
    return json.dumps({"agent_id": Path(file).read_text()})
'''


@pytest.fixture
def home(home: Home, tmp_path: Path) -> Home:
    (home.path / "tools").mkdir()
    (home.path / "tools" / "ids.py").write_text(IDS)
    reviewer = home.path / "agents" / "reviewer" / "AGENT.md"
    reviewer.parent.mkdir()
    reviewer.write_text("---\nname: reviewer\ndescription: reviews\nprefixes: [fs_find_id]\n---\nYou review.\n")
    return home


async def test_two_that_would_wait_for_each_other_are_told_so(home: Home, tmp_path: Path) -> None:
    home.write_script(script(
        lead("^go", {"calls": [
            made("agent_spawn", agent="operator", instruction=f"wait for {tmp_path}/1"),
            made("agent_spawn", agent="reviewer", instruction=f"wait for {tmp_path}/0"),
        ]}, call("leave_ids", folder=str(tmp_path), ids="{agent_ids}"), wait("{agent_ids}"), say("{result}")),
        mate("^wait for (?P<file>.*)", call("fs_find_id", file="{file}"), wait(), say("I was told: {result}")),
    ))  # fmt: skip
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (waited,) = results(await talk.say("moot", "go"), "agent_wait")
    # One of them waits for the other; whichever came second is told at once, and goes on.
    said = [run["result"] for run in waited["runs"]]
    assert sum(each.startswith("I was told: a run cannot wait for itself or for one that waits") for each in said) == 1
    assert [run["status"] for run in waited["runs"]] == ["completed", "completed"]


async def test_a_teammate_stops_neither_itself_nor_one_it_works_for(home: Home, tmp_path: Path) -> None:
    home.write_script(script(
        lead("^go", spawn("have it stopped", "librarian"), call("leave_ids", folder=str(tmp_path), ids="{agent_id}"),
             say("Begun.")),
        lead("^fetch (?P<run>.*)", wait("{run}"), say("{result}")),
        lead("has ended", say("Heard.")),
        mate("^have it stopped", spawn(f"stop {tmp_path}/0"), wait(), say("{result}")),
        mate("^stop (?P<file>.*)", call("fs_find_id", file="{file}"), call("agent_stop", agent_id="{agent_id}"),
             say("I was told: {result}")),
    ))  # fmt: skip
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (spawned,) = results(await talk.say("moot", "go"), "agent_spawn")
            (waited,) = results(await talk.say("moot", f"fetch {spawned['agent_id']}"), "agent_wait")
    assert waited["outcome"] == "completed"
    assert "I was told: a run cannot stop itself or one it works for" in waited["result"]


async def test_what_a_person_is_asked_is_told_though_the_run_also_waited_for_a_teammate(home: Home) -> None:
    home.write_config(PLAIN + TEAM.replace('policy = "none"', 'policy = "dangerous"'))
    both = {"calls": [made("agent_wait", agent_id="{agent_id}"), made("exec", command="echo hello")]}
    home.write_script(script(
        ANY,
        mate("^both", spawn("look it up", "librarian"), both, say("{result}")),
        mate("^look it up", reply="found"),
    ))  # fmt: skip
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            spawned = await called(talk, "", "agent_spawn", agent="operator", instruction="both")
            run_id = spawned["agent_id"]
            await eventually(lambda: asked(home, "SELECT count(*) FROM asks WHERE state = 'pending'") == 1)
            # The answer to its wait is on its way to the disk: the teammate it waited for has ended.
            over = "SELECT count(*) FROM runs WHERE parent_id = ? AND outcome = 'completed'"
            await eventually(lambda: asked(home, over, run_id) == 1)
            answered = "SELECT count(*) FROM messages WHERE run_id = ? AND role = 'tool'"
            await eventually(lambda: asked(home, answered, run_id) == 2)
            looked = await called(talk, "", "agent_wait", agent_id=run_id, timeout=0)
            assert (looked["status"], looked["condition"]) == ("running", "blocked_waiting_approval")
            assert looked["grant_request_id"].startswith(f"ask-{run_id}")
            assert (looked["grant_attempt"], looked["grant_state"]) == (1, "pending")
            assert "waiting_on_run_id" not in looked
            await called(talk, "", "agent_stop", agent_id=run_id)
            assert json.loads(daemon.cli("inbox", "--json").stdout)["data"] == []


async def test_one_that_is_stopped_in_line_after_a_restart_leaves_nothing_open(home: Home) -> None:
    home.write_config(PLAIN + TEAM.replace('policy = "none"', 'policy = "dangerous"'))
    home.write_script(script(
        ANY, mate("^hang", hang=True), mate("^ask", call("exec", command="echo hello"), say("{result}"))
    ))  # fmt: skip
    with running(home) as daemon:
        async with daemon.client() as talk:
            await called(talk, "", "agent_spawn", agent="operator", instruction="hang")
            spawned = await called(talk, "", "agent_spawn", agent="operator", instruction="ask")
            await eventually(lambda: asked(home, "SELECT count(*) FROM asks WHERE state = 'pending'") == 1)
        daemon.kill_9()
    home.write_config(PLAIN + TEAM.replace("maxDepth = 2", "maxRunning = 1").replace('"none"', '"dangerous"'))
    run_id = spawned["agent_id"]
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            stopped = await called(talk, "", "agent_stop", agent_id=run_id)
            assert stopped["status"] == "cancelled"
            assert json.loads(daemon.cli("inbox", "--json").stdout)["data"] == []
            assert asked(home, "SELECT outcome FROM runs WHERE id = ?", run_id) == "cancelled"
            assert asked(home, "SELECT state FROM asks WHERE run = ?", run_id) == "cancelled"
