"""Teammates through a running daemon: spawned, awaited and stopped, within bounds, and what their parents are told."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from moot.multiagent.teammates import teammates
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, made, mate, say, script, spawn, wait
from tests.teaming import LINGER, TEAM, began, called, eventually_idle, results, runs_in

CONFIG = PLAIN + TEAM

# The orchestrator and its teammates share one model; what they are told tells them apart.
SCRIPT = script(
    lead(
        "^say (?P<what>.*)",
        spawn("answer {what}", spawn_reason="a test", allowed_tools=["fs_read", "exec"]),
        wait(),
        say("It came back: {result}"),
    ),
    lead("^call (?P<tool>[a-z_]+) (?P<arguments>.*)", call("{tool}", "{arguments}"), say("{result}")),
    lead("^look at one that works", spawn("hang"), wait(timeout=0), wait(timeout=1), say("{result}")),
    lead("^stop one (?P<mark>.*)", spawn("linger {mark}"), say("Begun.")),
    lead("^two: (?P<mode>all|any)", {"calls": [
        made("agent_spawn", agent="operator", instruction="answer first"),
        made("agent_spawn", agent="operator", instruction="{mode}"),
    ]}, wait("{agent_ids}", mode="{mode}"), say("{result}")),
    lead("^do not wait", spawn("answer late"), say("Started.")),
    lead("^the same again", spawn("answer late"), spawn("answer late"), wait(), spawn("answer late"), wait(),
         say("{result}")),
    lead("has ended", say("Thank you: {user}")),
    lead("^a tree (?P<mark>.*)", spawn("have somebody linger {mark}", "librarian"), say("Begun.")),
    lead("^deep", spawn("go deeper", "operator"), wait(), say("{result}")),
    lead("^yourself", spawn("spawn operator"), wait(), say("{result}")),
    lead("^in a circle", spawn("spawn a librarian to spawn operator"), wait(), say("{result}")),
    lead("^who leads", say("I lead a team.")),
    {"match": "^who leads", "reply": "Nobody here."},
    lead("^tool of another", call("fs_read", path="x"), say("{result}")),
    mate("^answer late", reply="late result", delay_seconds=0.2),
    mate("^answer (?P<what>.*)|^all", reply="answered {what}"),
    mate("^(hang|any)", hang=True),
    mate("^linger (?P<mark>.*)", call("fs_linger", mark="{mark}"), say("Stopped.")),
    mate("^have somebody (?P<what>.*)", spawn("{what}"), wait(), say("{result}")),
    mate("^go deeper$", spawn("go deeper still", "librarian"), wait(), say("{result}")),
    mate("^go deeper still", spawn("deepest", "vault"), say("{result}")),
    mate("^spawn operator", spawn("again", "operator"), say("{result}")),
    mate("^spawn a librarian", spawn("spawn operator", "librarian"), wait(), say("{result}")),
)  # fmt: skip


@pytest.fixture
def home(home: Home) -> Home:
    (home.path / "tools").mkdir()
    (home.path / "tools" / "linger.py").write_text(LINGER)
    return home


# ---- to spawn and to wait -----------------------------------------------------------------------


async def test_a_teammate_is_spawned_awaited_and_told_to_its_parent(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("moot", "say forty-two", sender)

    (spawned,), (waited,) = results(speech, "agent_spawn"), results(speech, "agent_wait")
    assert re.fullmatch("arun-[0-9a-f]{16}", spawned["agent_id"])
    assert spawned["status"] == "spawned"
    assert (spawned["requested_agent"], spawned["spawn_reason"]) == ("operator", "a test")
    # A run that has ended has a result, and nothing of what may have held it up before.
    assert waited == {
        "agent_id": spawned["agent_id"], "agent": "operator", "status": "completed",
        "outcome": "completed", "result": "answered forty-two",
    }  # fmt: skip
    assert speech.outcome == "completed"


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        ("agent_spawn", {"agent": "operator"}, "missing instruction parameter"),
        ("agent_spawn", {"agent": "operator", "instruction": ""}, "missing instruction parameter"),
        ("agent_spawn", {"agent": "operator", "instruction": " \n"}, "missing instruction parameter"),
        # Misspelt, what was to narrow a run would not.
        (
            "agent_spawn",
            {"agent": "operator", "instruction": "x", "tools": ["fs_read"]},
            "agent_spawn has no parameter 'tools'; it has instruction, agent, spawn_reason, allowed_tools, timeout",
        ),
        ("agent_wait", {"timeout": 1}, "missing agent_id parameter"),
        ("agent_wait", {"agent_id": "arun-0000000000000000", "mode": "first"}, "mode must be all or any"),
        ("agent_wait", {"agent_id": "arun-0000000000000000", "timeout": -1}, "timeout must be 0 to 86400 seconds"),
        ("agent_wait", {"agent_id": "arun-0000000000000000", "timeout": 86401}, "timeout must be 0 to 86400 seconds"),
        ("agent_stop", {}, "missing agent_id parameter"),
        ("agent_wait", {"agent_id": "arun-0000000000000000"}, "there is no run 'arun-0000000000000000'"),
        (
            "agent_spawn",
            {"agent": "planner", "instruction": "x", "allowed_tools": ["exec"]},
            "the tool 'exec' is outside what planner may use at most",
        ),
        ("agent_spawn", {"agent": "debugger", "instruction": "x"}, "there is no teammate 'debugger'"),
        ("agent_spawn", {"agent": "moot", "instruction": "x"}, "moot cannot spawn itself"),
    ],
)
async def test_what_cannot_be_done_is_refused_and_nothing_is_started(
    daemon: LiveDaemon, sender: str, tool: str, arguments: dict[str, Any], complaint: str
) -> None:
    async with daemon.client() as talk:
        assert complaint in str(await called(talk, sender, tool, **arguments))
        assert "arun-" not in (await runs_in(talk, sender)).replace("arun-0000000000000000", "")


async def test_a_task_is_not_given_again_before_its_result_is_fetched(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("moot", "the same again", sender)
    first, refused, again = results(speech, "agent_spawn")
    assert f"was given the same task before, as {first['agent_id']}" in refused
    assert again["agent_id"] != first["agent_id"]
    assert [each["result"] for each in results(speech, "agent_wait")] == ["late result", "late result"]


async def test_a_wait_whose_time_is_up_tells_how_the_run_stands_and_leaves_it_alone(
    daemon: LiveDaemon, sender: str
) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("moot", "look at one that works", sender)
        (spawned,) = results(speech, "agent_spawn")
        for waited in results(speech, "agent_wait"):
            assert waited == {
                "agent_id": spawned["agent_id"], "agent": "operator", "status": "running", "timeout": True,
                "hint": "operator has not ended. Call agent_wait again, without a timeout; agent_stop would end it "
                "before it is done.",
            }  # fmt: skip
        stopped = await called(talk, sender, "agent_stop", agent_id=spawned["agent_id"])
        assert stopped == {"agent_id": spawned["agent_id"], "status": "cancelled"}
        # Later calls see the same, and it cannot be stopped twice.
        again = await called(talk, sender, "agent_wait", agent_id=spawned["agent_id"], timeout=0)
        assert (again["status"], again["outcome"], "timeout" in again) == ("cancelled", "cancelled", False)
        assert "is already cancelled" in await called(talk, sender, "agent_stop", agent_id=spawned["agent_id"])


async def test_a_run_that_has_ended_cannot_be_stopped(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        (spawned,) = results(await talk.say("moot", "say it", sender), "agent_spawn")
        assert "is already completed" in await called(talk, sender, "agent_stop", agent_id=spawned["agent_id"])


async def test_several_are_awaited_until_all_are_done_or_one_is(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        (both,) = results(await talk.say("moot", "two: all", sender), "agent_wait")
        assert [run["status"] for run in both["runs"]] == ["completed", "completed"]
        speech = await talk.say("moot", "two: any", sender)
        (first,) = results(speech, "agent_wait")
        assert sorted(run["status"] for run in first["runs"]) == ["completed", "running"]
        assert not any(run.get("timeout") for run in first["runs"])
        (hung,) = (run["agent_id"] for run in first["runs"] if run["status"] == "running")
        await called(talk, sender, "agent_stop", agent_id=hung)


async def test_a_run_of_another_conversation_is_not_there(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        (spawned,) = results(await talk.say("moot", "say it", sender), "agent_spawn")
        for tool in ("agent_wait", "agent_stop"):
            found = await called(talk, f"{sender}2", tool, agent_id=spawned["agent_id"])
            assert "there is no run" in found
            assert "answered" not in found


async def test_a_result_nobody_waited_for_arrives_once_as_a_message(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("moot", "do not wait", sender)
        (spawned,) = results(speech, "agent_spawn")

        async def answered() -> bool:
            return any(content.startswith("Thank you") for _, _, content in await talk.told("moot", sender))

        await eventually(answered)
        told = [content for role, _, content in await talk.told("moot", sender) if role == "user"]
        assert told[0] == "do not wait"
        (report,) = told[1:]
        assert f"operator ({spawned['agent_id']}) has ended: completed." in report
        assert "late result" in report
        # What was handed on as a message can still be looked at, and does not come again.
        looked = await called(talk, sender, "agent_wait", agent_id=spawned["agent_id"])
        assert looked["result"] == "late result"
        said = [content for role, _, content in await talk.told("moot", sender) if role == "user"]
        assert sum("has ended" in content for content in said) == 1


async def test_as_a_guest_the_orchestrator_is_not_told_to_lead_anybody(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        led = await talk.say("moot", "who leads?", sender)
        assert led.text == "I lead a team."
        # A guest has no tools, so none to spawn with.
        guest = await talk.say("ada", "who leads?", sender, guest="moot")
        assert guest.text == "Nobody here."


# ---- bounds -------------------------------------------------------------------------------------


async def test_spawns_are_bounded_in_depth_and_go_neither_to_themselves_nor_in_a_circle(
    daemon: LiveDaemon, sender: str
) -> None:
    async with daemon.client() as talk:
        deep = await talk.say("moot", "deep", sender)
        assert "spawned 2 deep at most, and this would be 3 deep" in deep.text
        assert "operator cannot spawn itself" in (await talk.say("moot", "yourself", sender)).text
        circle = await talk.say("moot", "in a circle", sender)
        assert "operator is already at work above this run (moot → operator → librarian)" in circle.text


async def test_a_spawn_over_the_limit_stands_in_line_and_says_so(home: Home) -> None:
    home.write_config(PLAIN + TEAM.replace("maxDepth = 2", "maxRunning = 1"))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (first,) = results(await talk.say("moot", "look at one that works"), "agent_spawn")
            second = await called(talk, "", "agent_spawn", agent="operator", instruction="answer me")
            assert (second["status"], second["condition"]) == ("spawned", "queued")
            looked = await called(talk, "", "agent_wait", agent_id=second["agent_id"], timeout=0)
            assert (looked["status"], looked["condition"], looked["timeout"]) == ("spawned", "queued", True)
            # The place that becomes free is taken.
            await called(talk, "", "agent_stop", agent_id=first["agent_id"])
            done = await called(talk, "", "agent_wait", agent_id=second["agent_id"])
            assert done["result"] == "answered me"


async def test_a_turn_delegates_only_so_often(home: Home) -> None:
    home.write_config(PLAIN + TEAM.replace("maxDepth = 2", "maxDelegationRounds = 2"))
    home.write_script(script(
        lead("^go", *(spawn(f"answer {number}") for number in range(3)), say("{result}")), mate("", reply="x")
    ))  # fmt: skip
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            for _ in range(2):
                # Each turn has its own rounds.
                *two, third = results(await talk.say("moot", "go"), "agent_spawn")
                assert [each["status"] for each in two] == ["spawned", "spawned"]
                assert "this turn has delegated 2 times, which is the limit" in third
                await eventually_idle(home, talk)


async def test_a_tool_of_a_teammate_is_named_as_such_to_the_orchestrator(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        (refused,) = results(await talk.say("moot", "tool of another", sender), "fs_read")
    assert "There is no tool 'fs_read' here" in refused
    assert 'It is a tool of operator: let operator do it, with agent_spawn(agent="operator", …).' in refused


# ---- to stop ------------------------------------------------------------------------------------


async def test_stopping_ends_the_work_and_everything_under_it(home: Home, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (spawned,) = results(await talk.say("moot", f"a tree {mark}"), "agent_spawn")
            await began(mark)
            stopped = await called(talk, "", "agent_stop", agent_id=spawned["agent_id"])
            assert stopped["status"] == "cancelled"
            await eventually(lambda: mark.read_text() == "ended")
            await eventually_idle(home, talk)
            # Nobody is told of what they stopped themselves.
            assert "has ended" not in await runs_in(talk, "")


@pytest.mark.parametrize("waits", [True, False])
async def test_killing_the_turn_stops_its_teammates(home: Home, tmp_path: Path, waits: bool) -> None:
    mark = tmp_path / "mark"
    last = wait() if waits else call("ask_user", questions=[{"question": "Go on?"}])
    home.write_script(script(
        lead("^go", spawn(f"linger {mark}"), last, say("no")),
        mate("^linger (?P<mark>.*)", call("fs_linger", mark="{mark}"), say("no")),
    ))  # fmt: skip
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go")
            await began(mark)
            await speech.until("tool_start", count=2)
            await talk.kill("moot")
            await speech.end()
            assert speech.outcome == "cancelled"
            await eventually(lambda: mark.read_text() == "ended")
            await eventually_idle(home, talk)
            assert "has ended" not in await runs_in(talk, "")


async def test_a_result_that_comes_late_changes_nothing_about_a_stopped_run(home: Home, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    home.write_script(script(
        lead("^go", spawn("work"), say("Begun.")),
        lead("^call (?P<tool>[a-z_]+) (?P<arguments>.*)", call("{tool}", "{arguments}"), say("{result}")),
        mate("^work", call("fs_cling", mark=str(mark)), say("It says: {result}")),
    ))  # fmt: skip
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (spawned,) = results(await talk.say("moot", "go"), "agent_spawn")
            await began(mark)
            stopped = await called(talk, "", "agent_stop", agent_id=spawned["agent_id"])
            assert stopped["status"] == "cancelled"
            mark.with_suffix(".go").touch()
            await eventually(lambda: mark.read_text() == "late")
            looked = await called(talk, "", "agent_wait", agent_id=spawned["agent_id"])
            assert looked["status"] == "cancelled"
            assert "too late" not in json.dumps(looked)
            await eventually_idle(home, talk)


async def test_a_teammate_has_ended_when_agent_stop_returns_and_is_not_reported(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long a stop by a person waits; one by an agent has no such limit.
    monkeypatch.setattr(teammates, "_STOP_SECONDS", 0.0)
    below = tmp_path / "below"
    home.write_script(script(
        lead("^go", spawn("lead"), say("Begun.")),
        lead("^call (?P<tool>[a-z_]+) (?P<arguments>.*)", call("{tool}", "{arguments}"), say("{result}")),
        mate("^lead", spawn("work", agent="librarian"), call("fs_linger", mark=str(tmp_path / "above")), say("Led.")),
        mate("^work", call("search_linger", mark=str(below)), say("Worked.")),
    ))  # fmt: skip
    (home.path / "tools" / "search.py").write_text(LINGER.replace("fs_", "search_"))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (spawned,) = results(await talk.say("moot", "go"), "agent_spawn")
            await began(tmp_path / "above")
            await began(below)
            stopped = await called(talk, "", "agent_stop", agent_id=spawned["agent_id"])
            assert stopped["status"] == "cancelled"
            outcomes = home.query("SELECT outcome FROM runs WHERE kind = 'teammate'")
            assert outcomes == [("cancelled",), ("cancelled",)]
            await eventually_idle(home, talk)
            assert "has ended" not in await runs_in(talk, "")


async def test_a_teammate_that_completes_before_it_can_be_stopped_is_shown_with_its_result(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"

    async def come_too_late(_teammates: object, _live: object) -> None:
        mark.with_suffix(".go").touch()

    monkeypatch.setattr(teammates.Teammates, "_halt", come_too_late)
    home.write_script(script(
        lead("^go", spawn("work"), say("Begun.")),
        lead("^call (?P<tool>[a-z_]+) (?P<arguments>.*)", call("{tool}", "{arguments}"), say("{result}")),
        mate("^work", call("fs_cling", mark=str(mark)), say("It says: {result}")),
    ))  # fmt: skip
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (spawned,) = results(await talk.say("moot", "go"), "agent_spawn")
            await began(mark)
            stopped = await called(talk, "", "agent_stop", agent_id=spawned["agent_id"])
            assert (stopped["status"], stopped["result"]) == ("completed", "It says: too late")
            await eventually_idle(home, talk)
            assert "has ended" not in await runs_in(talk, "")
