"""The daemon stops while teammates work: they go on, or what is not known of them is told."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from moot.daemon.clock import ManualClock
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import DaemonProcess, Home, eventually, run_cli, running
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, made, mate, say, script, spawn, wait
from tests.talking import Talking
from tests.teaming import LINGER, SHOWN_BY_PARENT, TEAM, asked, began, called, eventually_idle

CONFIG = PLAIN + TEAM
ANY = lead("^call (?P<tool>[a-z_]+) (?P<arguments>.*)", call("{tool}", "{arguments}"), say("{result}"))
HEARD = lead("has ended", say("Heard: {user}"))
WRITES = [call("fs_write", path=f"{number}.txt", content="once") for number in range(4)]


async def spawned(talk: Talking, **fields: Any) -> str:
    """The id of the teammate a turn has begun with."""
    speech = talk.start("moot", "go", **fields)
    return str(json.loads((await speech.until("tool_result")).output)["agent_id"])


def stop(daemon: DaemonProcess, how: str) -> None:
    if how == "kill":
        daemon.kill_9()
    else:
        daemon.terminate()
        assert daemon.reap() == 0


async def told(talk: Talking) -> list[str]:
    return [content for role, _, content in await talk.told("moot") if role == "user"]


@pytest.mark.parametrize("how", ["kill", "terminate"])
async def test_a_teammate_goes_on_from_its_last_step_and_no_call_is_made_twice(
    home: Home, tmp_path: Path, how: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    home.write_script(script(
        lead("^go", spawn("work"), wait(), say("{result}")), ANY, HEARD,
        # Two steps, then a model that hangs; after a restart the first rule serves three more.
        mate("^work", *WRITES[:2], times=2),
        mate("^work", hang=True),
    ))  # fmt: skip
    with running(home) as daemon:
        async with daemon.client() as talk:
            run_id = await spawned(talk, cwd=str(work))
            recorded = "SELECT count(*) FROM messages WHERE role = 'tool' AND run_id = ?"
            await eventually(lambda: asked(home, recorded, run_id) == 2)
            (work / "0.txt").write_text("a second time would overwrite this")
        stop(daemon, how)
    home.write_script(script(ANY, HEARD, mate("^work", *WRITES, say("All written."))))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            done = await called(talk, "", "agent_wait", agent_id=run_id)
            assert (done["status"], done["result"]) == ("completed", "All written.")
    assert (work / "0.txt").read_text() == "a second time would overwrite this"
    assert [(work / f"{number}.txt").read_text() for number in (1, 2, 3)] == ["once"] * 3


async def test_a_teammate_goes_on_after_a_start_that_failed(home: Home) -> None:
    home.write_script(script(lead("^go", spawn("work"), wait(), say("{result}")), mate("^work", hang=True)))
    with running(home) as daemon:
        async with daemon.client() as talk:
            run_id = await spawned(talk)
        stop(daemon, "kill")
    path = home.path / "run" / "moot.sock"
    path.unlink()
    path.write_text("not a socket")
    started = await asyncio.to_thread(run_cli, home, "serve")
    assert started.returncode == 78, started.stderr
    assert started.stderr.count("is not a socket") == 1
    path.unlink()
    home.write_script(script(ANY, HEARD, mate("^work", say("All done."))))
    with daemon_thread(home) as again:
        async with again.client() as talk:
            done = await called(talk, "", "agent_wait", agent_id=run_id)
            assert (done["status"], done["result"]) == ("completed", "All done.")
        logged = again.cli_json("logs", "--daemon", "--level", "error")["data"]
    assert ["is not a socket" in each["message"] for each in logged] == [True]


@pytest.mark.parametrize("how", ["kill", "terminate"])
async def test_a_call_whose_outcome_is_unknown_ends_the_run_interrupted_and_the_parent_is_told(
    home: Home, tmp_path: Path, how: str
) -> None:
    mark = tmp_path / "mark"
    (home.path / "tools").mkdir()
    (home.path / "tools" / "linger.py").write_text(LINGER)
    home.write_script(script(
        lead("^go", spawn("work"), wait(), say("{result}")), ANY, HEARD,
        mate("^work", call("fs_linger", mark=str(mark)), say("no")),
    ))  # fmt: skip
    with running(home) as daemon:
        async with daemon.client() as talk:
            run_id = await spawned(talk)
            await began(mark)
        stop(daemon, how)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            # The turn that waited for it goes on, and has it from its wait.
            await eventually_idle(home, talk)
            heard: Any = json.loads((await talk.told("moot"))[-1][2])
            assert (heard["status"], heard["outcome"]) == ("failed", "interrupted")
            assert "outcome is not known" in heard["error"]
            assert "operator failed (interrupted)" in heard["hint"]
            # It is there to be looked at, with how it ended.
            looked: Any = await called(talk, "", "agent_wait", agent_id=run_id)
            assert (looked["status"], looked["outcome"]) == ("failed", "interrupted")
            assert not any("has ended" in each for each in await told(talk))
    assert mark.read_text() in ("began", "ended")


@pytest.mark.parametrize("how", ["kill", "terminate"])
async def test_a_turn_that_waits_for_its_teammates_goes_on_after_a_restart_and_answers_once(
    home: Home, how: str
) -> None:
    both = {"calls": [made("agent_spawn", agent="operator", instruction=each) for each in ("quick", "slow")]}
    go = lead("^go", both, wait("{agent_ids}"), say("Both: {result}"))
    home.write_script(script(go, HEARD, mate("^quick", reply="Quick."), mate("^slow", hang=True)))
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go", client_message_id="m1")
            # The second calls are those of its wait, which are on disk before they are told.
            await speech.until("tool_start", count=2)
            ended = "SELECT count(*) FROM runs WHERE kind = 'teammate' AND outcome = 'completed'"
            await eventually(lambda: asked(home, ended) == 1)
        stop(daemon, how)
    home.write_script(script(go, HEARD, mate("^quick", reply="Twice."), mate("^slow", reply="Slow.")))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            # Sent again, the message finds the turn that goes on, or has ended by now; never a second one.
            joined = await talk.say("moot", "go", client_message_id="m1")
            assert joined.outcome == "completed"
            assert "Quick." in joined.text
            assert "Slow." in joined.text
            await eventually_idle(home, talk)
            again = await talk.say("moot", "go", client_message_id="m1")
            assert again.text == joined.text
            said = [(role, content) for role, _, content in await talk.told("moot") if content and role != "tool"]
            assert said == [("user", "go"), ("assistant", joined.text)]
    assert asked(home, "SELECT count(*) FROM runs WHERE id LIKE 'run-%'") == 1
    assert asked(home, "SELECT count(*) FROM runs WHERE kind = 'teammate'") == 2
    assert asked(home, SHOWN_BY_PARENT) == 2


async def test_a_turn_between_two_steps_goes_on_while_teammates_are_owed_to_it_and_can_be_followed(home: Home) -> None:
    go = [spawn("work"), wait(), say("Worked: {result}")]
    home.write_script(script(lead("^go", *go, times=1), lead("^go", hang=True), HEARD, mate("^work", hang=True)))
    with running(home) as daemon:
        async with daemon.client() as talk:
            await spawned(talk)
            results = "SELECT count(*) FROM messages WHERE role = 'tool'"
            await eventually(lambda: asked(home, results) == 1)
        daemon.kill_9()
    home.write_script(script(lead("^go", *go), HEARD, mate("^work", delay_seconds=0.3, reply="Done.")))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            followed = await talk.attach("moot").end()
            assert followed.outcome == "completed"
            assert "Done." in followed.text
            await eventually_idle(home, talk)
    assert asked(home, "SELECT count(*) FROM runs WHERE kind = 'teammate'") == 1
    assert asked(home, "SELECT group_concat(outcome) FROM runs WHERE id LIKE 'run-%'") == "completed"


async def test_a_turn_whose_own_call_is_unknown_ends_interrupted_and_the_result_comes_in_one_message(
    home: Home, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    (home.path / "tools").mkdir()
    # Nobody's by its name, and so the orchestrator's own.
    (home.path / "tools" / "linger.py").write_text(LINGER.replace("fs_linger", "own_linger"))
    waits = {"calls": [made("agent_wait", agent_id="{agent_id}"), made("own_linger", mark=str(mark))]}
    home.write_script(script(lead("^go", spawn("work"), waits, say("no")), HEARD, mate("^work", hang=True)))
    with running(home) as daemon:
        async with daemon.client() as talk:
            await spawned(talk)
            await began(mark)
        daemon.kill_9()
    home.write_script(script(HEARD, mate("^work", reply="Worked.")))
    with daemon_thread(home) as again:
        async with again.client() as talk:

            async def heard() -> list[str]:
                return [each for each in await told(talk) if "has ended: completed." in each]

            (report,) = await eventually(heard)
            assert "Worked." in report
            await eventually_idle(home, talk)
            assert (await talk.history("moot")).messages[0].outcome == "interrupted"
            assert sum("has ended" in each for each in await told(talk)) == 1
    assert mark.read_text() == "began"


async def test_a_turn_that_leads_a_team_and_has_set_nobody_to_work_is_interrupted(home: Home) -> None:
    home.write_script(script(lead("^go", hang=True)))
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.start("moot", "go").until("start")
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert await talk.active() == []
            assert (await talk.history("moot")).messages[0].outcome == "interrupted"


async def test_a_run_that_stood_in_line_stands_there_again(home: Home) -> None:
    home.write_config(PLAIN + TEAM.replace("maxDepth = 2", "maxRunning = 1"))
    home.write_script(script(ANY, HEARD, mate("^hang", hang=True), mate("^work", reply="Worked.")))
    with running(home) as daemon:
        async with daemon.client() as talk:
            first = await called(talk, "", "agent_spawn", agent="operator", instruction="hang")
            second = await called(talk, "", "agent_spawn", agent="operator", instruction="work")
            assert second["condition"] == "queued"
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            looked = await called(talk, "", "agent_wait", agent_id=second["agent_id"], timeout=0)
            assert (looked["status"], looked["condition"]) == ("spawned", "queued")
            await called(talk, "", "agent_stop", agent_id=first["agent_id"])
            done = await called(talk, "", "agent_wait", agent_id=second["agent_id"])
            assert done["result"] == "Worked."


@pytest.mark.parametrize("speaker", ["turn", "teammate"])
async def test_a_run_whose_agents_file_is_broken_by_the_next_start_ends_and_asks_no_more(
    home: Home, speaker: str
) -> None:
    home.write_config(PLAIN + TEAM.replace('"none"', '"dangerous"'))
    home.write_script(script(
        lead("^go", spawn("work", "ada"), say("Begun.")), HEARD,
        {"match": "^work", "steps": [call("exec", command="echo hello"), say("{result}")]},
    ))  # fmt: skip
    path = home.write_agent("ada")
    path.write_text("---\nname: ada\ndescription: runs commands\nprefixes: [exec]\n---\nYou are Ada.\n")
    with running(home) as daemon:
        async with daemon.client() as talk:
            talk.start(*(("moot", "go") if speaker == "teammate" else ("ada", "work")))
            await eventually(lambda: asked(home, "SELECT count(*) FROM asks WHERE state = 'pending'") == 1)
        daemon.kill_9()
    path.write_text("---\nname: ada\n")
    with daemon_thread(home) as again:
        async with again.client() as talk:
            of_ada = "SELECT outcome FROM runs WHERE speaker = 'ada'"
            await eventually(lambda: asked(home, of_ada) == "internal_error")
            # Nobody is asked for a call that is never made.
            await eventually(talk.asks_nothing)
            if speaker == "teammate":

                async def heard() -> bool:
                    return any("has ended: internal_error" in each for each in await told(talk))

                await eventually(heard)


async def test_a_result_waits_for_an_agent_that_is_gone_and_the_log_says_so_once(home: Home, tmp_path: Path) -> None:
    (home.path / "tools").mkdir()
    (home.path / "tools" / "linger.py").write_text(LINGER)
    mark = tmp_path / "mark"
    home.write_script(script(
        {"system": "You are ada", "match": "^go", "steps": [spawn(f"cling {mark}"), say("Begun.")]},
        {"system": "You are ada", "match": "has ended", "reply": "Heard."},
        mate("^cling (?P<mark>.*)", call("fs_cling", mark="{mark}"), say("Worked.")),
    ))  # fmt: skip
    path = home.write_agent("ada")
    written = path.read_text()
    with daemon_thread(home, ManualClock()) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "go")
            await began(mark)
            path.unlink()
            assert daemon.cli("reload").returncode == 0
            mark.with_suffix(".go").touch()
            await eventually(lambda: "the results for ada" in home.log.read_text())
            # It is tried again every second.
            daemon.advance(3)
            assert home.log.read_text().count("the results for ada") == 1
            path.write_text(written)
            assert daemon.cli("reload").returncode == 0

            async def heard() -> bool:
                daemon.advance(1)
                return ("assistant", "", "Heard.") in await talk.told("ada")

            await eventually(heard)


async def test_who_waited_for_a_teammate_goes_on_though_agents_work_together_no_more(home: Home) -> None:
    rules = [
        lead("^go", spawn("gather", "librarian"), say("Begun.")), {"match": "has ended", "reply": "Heard."},
        mate("^gather", spawn("work"), wait(), say("Gathered.")),
    ]  # fmt: skip
    home.write_script(script(*rules, mate("^work", hang=True)))
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "go")
            waits = "SELECT count(*) FROM messages WHERE CAST(tool_calls AS TEXT) LIKE '%agent_wait%'"
            await eventually(lambda: asked(home, waits) == 1)
        daemon.kill_9()
    home.write_config(CONFIG.replace("multiAgent = true", "multiAgent = false"))
    home.write_script(script(*rules, mate("^work", reply="Worked.")))
    with daemon_thread(home) as again:
        async with again.client() as talk:
            # It is told that it cannot wait here; nothing about what it did is unknown.
            outcome = "SELECT outcome FROM runs WHERE speaker = 'librarian'"
            await eventually(lambda: asked(home, outcome) == "completed")

            async def heard() -> bool:
                return any("Worked." in each for each in await told(talk))

            await eventually(heard)
