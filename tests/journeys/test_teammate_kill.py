"""The daemon is killed at a bad moment: what was asked stays asked, what was stopped stays stopped, once is once."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from moot.domain.interruption import HARMLESS, UNKNOWN
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import DaemonProcess, Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, made, mate, say, script, spawn, wait
from tests.talking import Talking
from tests.teaming import LINGER, SHOWN_BY_PARENT, TEAM, asked, began, called, eventually_idle

CONFIG = PLAIN + TEAM
ANY = lead("^call (?P<tool>[a-z_]+) (?P<arguments>.*)", call("{tool}", "{arguments}"), say("{result}"))
HEARD = lead("has ended", say("Heard."))


@pytest.fixture
def home(home: Home) -> Home:
    (home.path / "tools").mkdir()
    (home.path / "tools" / "linger.py").write_text(LINGER)
    return home


async def spawned(talk: Talking, **fields: Any) -> str:
    """The id of the teammate a turn has begun with."""
    speech = talk.start("moot", "go", **fields)
    return str(json.loads((await speech.until("tool_result")).output)["agent_id"])


async def reports(talk: Talking) -> list[str]:
    return [content for role, _, content in await talk.told("moot") if role == "user" and "has ended:" in content]


async def inbox(talk: Talking, count: int = 1) -> list[pb.AskInfo]:
    async def found() -> list[pb.AskInfo]:
        asks = await talk.asks()
        return asks if len(asks) == count else []

    waiting: list[pb.AskInfo] = await eventually(found)
    return waiting


def stop(daemon: DaemonProcess, how: str) -> None:
    if how == "kill":
        daemon.kill_9()
    else:
        daemon.terminate()
        assert daemon.reap() == 0


@pytest.mark.parametrize("how", ["kill", "terminate"])
async def test_a_question_of_a_teammate_is_asked_again_under_its_id_and_its_answer_counts(home: Home, how: str) -> None:
    home.write_script(script(
        lead("^go", spawn("work"), wait(), say("{result}")), ANY, HEARD,
        mate("^work", call("ask_user", questions=[{"question": "Which?"}]), say("You said: {result}")),
    ))  # fmt: skip
    with running(home) as daemon:
        async with daemon.client() as talk:
            run_id = await spawned(talk)
            (before,) = await inbox(talk)
        stopped = time.time()
        stop(daemon, how)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (after,) = await inbox(talk)
            assert (after.ask_id, after.kind) == (before.ask_id, "question")
            # It expires when it would have.
            assert after.opened_at < stopped
            assert after.expires_at - after.opened_at == before.expires_at - before.opened_at
            await talk.reply("moot", "the green one")
            done = await called(talk, "", "agent_wait", agent_id=run_id)
            assert done["result"] == "You said: the green one"


async def test_calls_that_wait_for_one_grant_all_wait_again_and_are_made_once_it_is_given(
    home: Home, tmp_path: Path
) -> None:
    writes = [made("fs_write", path=f"{number}.txt", content="once") for number in range(2)]
    home.write_script(script(
        lead("^go", spawn("work", allowed_tools=["fs_read"]), wait(), say("{result}")), ANY, HEARD,
        mate("^work", {"calls": writes}, say("Written.")),
    ))  # fmt: skip
    with running(home) as daemon:
        async with daemon.client() as talk:
            run_id = await spawned(talk, cwd=str(tmp_path))
            (before,) = await inbox(talk)
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (after,) = await inbox(talk)
            assert (after.ask_id, after.attempt) == (before.ask_id, before.attempt)
            message = pb.DecideAskMsg(ask_id=after.ask_id, attempt=after.attempt, decision="once")
            await talk.ask(decide_ask=message)
            done = await called(talk, "", "agent_wait", agent_id=run_id)
            assert (done["outcome"], done["result"]) == ("completed", "Written.")
    assert [(tmp_path / f"{number}.txt").read_text() for number in range(2)] == ["once", "once"]


async def test_what_an_interrupted_run_had_asked_is_asked_no_more(home: Home, tmp_path: Path) -> None:
    home.write_config(CONFIG.replace('policy = "none"', 'policy = "dangerous"'))
    mark = tmp_path / "mark"
    calls = [made("fs_linger", mark=str(mark)), made("exec", command="true")]
    home.write_script(
        script(lead("^go", spawn("work"), wait(), say("{result}")), HEARD, mate("^work", {"calls": calls}))
    )
    with running(home) as daemon:
        async with daemon.client() as talk:
            await spawned(talk)
            await inbox(talk)
            await began(mark)
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert await talk.asks() == []
            await eventually_idle(home, talk)
            # The turn that waited for it has it from its wait.
            assert json.loads((await talk.told("moot"))[-1][2])["outcome"] == "interrupted"
            assert await reports(talk) == []


async def test_a_result_that_a_teammate_will_wait_for_is_not_told_beside_it(home: Home) -> None:
    first = [lead("^go", spawn("gather", "librarian"), wait(), say("{result}")), HEARD, mate("^work", reply="Worked.")]
    gather = mate("^gather", spawn("work"), times=1)
    home.write_script(script(*first, gather, mate("^gather", hang=True)))
    with running(home) as daemon:
        async with daemon.client() as talk:
            run_id = await spawned(talk)
            ended = "SELECT count(*) FROM runs WHERE parent_id = ? AND outcome = 'completed'"
            await eventually(lambda: asked(home, ended, run_id) == 1)
        daemon.kill_9()
    home.write_script(script(*first, mate("^gather", spawn("work"), wait(), say("Gathered: {result}"))))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await eventually_idle(home, talk)
            # Each was handed to the one that waits for it, and nothing is told beside that.
            heard = json.loads((await talk.told("moot"))[-1][2])
            assert heard["agent_id"] == run_id
            assert "Worked." in heard["result"]
            assert await reports(talk) == []
            assert asked(home, "SELECT count(*) FROM runs WHERE kind = 'teammate'") == 2
            assert asked(home, SHOWN_BY_PARENT) == 2


async def test_what_was_stopped_with_a_turn_does_not_come_back(home: Home, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    # It does not let go at once, so that the daemon dies between the end of the turn and its own.
    home.write_script(script(
        lead("^go", spawn("work"), wait(), say("{result}")), HEARD,
        mate("^work", call("fs_cling", mark=str(mark)), say("Late.")),
    ))  # fmt: skip
    with running(home) as daemon:
        async with daemon.client() as talk:
            run_id = await spawned(talk)
            await began(mark)
            await talk.kill("moot")
            await eventually(lambda: asked(home, "SELECT count(*) FROM runs WHERE outcome = 'cancelled'"))
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert asked(home, "SELECT outcome FROM runs WHERE id = ?", run_id) == "cancelled"
            await eventually_idle(home, talk)
            assert await reports(talk) == []


async def test_a_wait_that_was_broken_off_by_a_kill_leaves_nothing_in_doubt(home: Home, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (home.path / "tools" / "own.py").write_text(LINGER.replace("fs_", "own_"))
    both = {"calls": [made("agent_wait", agent_id="{agent_id}"), made("own_linger", mark=str(mark))]}
    home.write_script(script(lead("^go", spawn("work"), both, say("no")), mate("^work", hang=True)))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go")
            await began(mark)
            await talk.kill("moot")
            assert (await speech.end()).outcome == "cancelled"
            waited, lingered = [content for role, _, content in await talk.told("moot") if role == "tool"][-2:]
            assert waited == HARMLESS
            assert lingered == UNKNOWN


async def test_what_was_spared_goes_on_after_a_restart(home: Home) -> None:
    home.write_script(script(
        lead("^go", spawn("work"), wait(), say("{result}")), ANY, HEARD, mate("^work", hang=True),
    ))  # fmt: skip
    with running(home) as daemon:
        async with daemon.client() as talk:
            run_id = await spawned(talk)
            parent = asked(home, "SELECT parent_id FROM runs WHERE id = ?", run_id)
            await talk.ask(stop_run=pb.StopRunMsg(run_id=parent, only=True))
        daemon.kill_9()
    home.write_script(script(ANY, HEARD, mate("^work", reply="Worked.")))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await eventually_idle(home, talk)
            (report,) = await eventually(lambda: reports(talk))
            assert "has ended: completed." in report


async def test_a_report_that_background_work_was_reading_is_interrupted_and_told_once(home: Home) -> None:
    home.write_script(script(
        lead("^go", spawn("work"), say("Begun.")), lead("has ended", hang=True), mate("^work", reply="Worked."),
    ))  # fmt: skip
    reading = "SELECT count(*) FROM runs WHERE author <> '' AND status = 'running'"
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.ask(start_run=pb.StartRunMsg(content="go"))
            await eventually(lambda: asked(home, reading) == 1)
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await eventually_idle(home, talk)
            assert asked(home, "SELECT outcome FROM runs WHERE author <> ''") == "interrupted"
            told = "SELECT count(*) FROM messages WHERE role = 'user' AND content LIKE '%has ended:%'"
            assert asked(home, told) == 1


# ---- what was left running in the background ------------------------------------------------------------


def running_with(word: str) -> bool:
    """Whether some process of this machine was started with the word."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word.encode() in line.read_bytes().split(b"\0"):
                return True
    return False


@pytest.mark.parametrize("how", ["kill the turn", "agent_stop", "kill once it has ended"])
async def test_what_a_teammate_left_in_the_background_is_stopped_with_it(home: Home, tmp_path: Path, how: str) -> None:
    seconds = str(100_000 + os.getpid() * 3 + len(how))
    lingers = [] if how == "kill once it has ended" else [call("fs_linger", mark=str(tmp_path / "mark"))]
    home.write_script(script(
        lead("^go", spawn("work"), wait(), call("fs_linger", mark=str(tmp_path / "lead")), say("{result}")), ANY, HEARD,
        lead("^begin", spawn("work"), say("{result}")),
        mate("^work", call("exec_bg", command=f"sleep {seconds}"), *lingers, say("Started.")),
    ))  # fmt: skip
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "begin" if how == "agent_stop" else "go", cwd=str(tmp_path))
            run_id = json.loads((await speech.until("tool_result")).output)["agent_id"]
            if lingers:
                await began(tmp_path / "mark")
            else:
                await speech.until("tool_result", count=2)
            await eventually(lambda: running_with(seconds))
            if how == "agent_stop":
                await speech.end()
                await called(talk, "", "agent_stop", agent_id=run_id)
            else:
                await talk.ask(kill=pb.KillMsg(agent="moot"))
            await eventually(lambda: not running_with(seconds))
