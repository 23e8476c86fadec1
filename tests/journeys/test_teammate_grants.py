"""A teammate that needs a tool it was not given: its owner is asked for the run, under one id that stays."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.talking import Speech, Talking
from tests.teaming import TEAM, called, results

CONFIG = PLAIN + TEAM
ANY = lead("^call (?P<tool>[a-z_]+) (?P<arguments>.*)", call("{tool}", "{arguments}"), say("{result}"))
WRITE = call("fs_write", path="made.txt", content="made")
ASK = call("ask_user", questions=[{"question": "Shall I try again?"}])


def wrote(*steps: dict[str, Any], before: Sequence[dict[str, Any]] = ()) -> str:
    """An orchestrator that allows reading alone, makes the calls `before` and waits; and a teammate that writes."""
    return script(
        lead("^go", spawn("work", allowed_tools=["fs_read"]), *before, wait(timeout=1), wait(), say("{result}")),
        ANY,
        mate("^work", *steps, say("I heard: {result}")),
    )


async def decided(talk: Talking, ask: pb.ApprovalEvent | pb.AskInfo, decision: str) -> str:
    message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision)
    return str((await talk.ask(decide_ask=message)).ask_decided.state)


async def asked(speech: Speech, count: int = 1) -> pb.ApprovalEvent:
    ask: pb.ApprovalEvent = await speech.until("approval_opened", count=count)
    return ask


async def test_a_tool_beyond_those_allowed_waits_for_the_owner_and_a_yes_holds_for_the_run(
    home: Home, tmp_path: Path
) -> None:
    add_hold(home)
    mark = tmp_path / "mark"
    again = call("fs_write", path="again.txt", content="again")
    home.write_script(wrote(WRITE, again, before=[call("hold_until", mark=str(mark))]))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go", cwd=str(tmp_path))
            ask = await asked(speech)
            mark.touch()
            run_id = ask.ask_id.removeprefix("grant-").removesuffix("-fs_write")
            assert (ask.tool, ask.attempt, ask.ask_id) == ("fs_write", 1, f"grant-{run_id}-fs_write")
            # A wait whose time is up tells what the run is held up by, and leaves it so.
            await speech.until("tool_result", count=3)
            blocked = results(speech, "agent_wait")[0]
            assert (blocked["status"], blocked["timeout"]) == ("running", True)
            assert blocked["condition"] == "blocked_waiting_approval"
            assert "fs_write" in blocked["blocked_reason"]
            assert (blocked["grant_request_id"], blocked["grant_attempt"]) == (ask.ask_id, 1)
            assert blocked["grant_state"] == "pending"
            assert not (tmp_path / "made.txt").exists()

            assert await decided(talk, ask, "once") == "granted"
            await speech.end()
            # It was asked once, for both calls, and nothing of the block is left.
            assert len(speech.of("approval_opened")) == 1
            done = results(speech, "agent_wait")[1]
            assert set(done) == {"agent_id", "agent", "status", "outcome", "result"}
            assert (tmp_path / "made.txt").read_text() == "made"
            assert (tmp_path / "again.txt").read_text() == "again"


async def test_a_no_is_told_to_the_teammate_and_holds_for_the_run_across_a_restart(home: Home, tmp_path: Path) -> None:
    home.write_script(
        script(
            lead("^go", spawn("work", allowed_tools=["fs_read"]), say("Begun.")),
            ANY,
            lead("has ended", say("Heard.")),
            mate("^work", WRITE, WRITE, ASK, WRITE, say("I heard: {result}")),
        )
    )
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("moot", "go", cwd=str(tmp_path))
            run_id = results(speech, "agent_spawn")[0]["agent_id"]
            (ask,) = await eventually(talk.asks)
            assert ask.ask_id == f"grant-{run_id}-fs_write"
            assert await decided(talk, ask, "deny") == "denied"
            # The second call of the tool asks nobody: the next that is asked is the question.
            (question,) = await eventually(talk.asks)
            assert question.kind == "question"
        daemon.kill_9()
    with running(home) as daemon:
        async with daemon.client() as talk:
            (question,) = await eventually(talk.asks)
            await talk.reply("moot", "yes")
            done = await called(talk, "", "agent_wait", agent_id=run_id)
            assert "The owner denied fs_write for this run" in done["result"]
            assert await talk.asks() == []
            assert not (tmp_path / "made.txt").exists()


async def test_what_nobody_decided_is_asked_again_as_the_next_attempt(home: Home, tmp_path: Path) -> None:
    home.write_config(CONFIG + "approval_seconds = 1\n")
    home.write_script(wrote(WRITE, WRITE))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go", cwd=str(tmp_path))
            first, second = await asked(speech), await asked(speech, 2)
            assert first.ask_id == second.ask_id
            assert (first.attempt, second.attempt) == (1, 2)
            await speech.end()
            assert "Nobody decided in time on fs_write" in speech.text


@pytest.mark.parametrize("narrowed", [{"allowed_tools": ["fs_write"]}, {}])
async def test_a_tool_outside_the_role_is_never_asked_about(home: Home, narrowed: dict[str, Any]) -> None:
    home.write_script(
        script(
            lead("^go", spawn("work", **narrowed), wait(), say("{result}")),
            mate("^work", call("web_fetch", url="http://x"), say("Not for me.")),
        )
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("moot", "go")
            assert speech.of("approval_opened") == []
            (run,) = results(speech, "agent_wait")
            assert (run["outcome"], run["result"]) == ("escalated", "Not for me.")


async def test_a_grant_that_waits_is_there_after_a_restart_with_its_id(home: Home, tmp_path: Path) -> None:
    home.write_script(wrote(WRITE) + "\n" + script(lead("has ended", say("Heard."))))
    with running(home) as daemon:
        async with daemon.client() as talk:
            ask = await asked(talk.start("moot", "go", cwd=str(tmp_path)))
        daemon.kill_9()
    run_id = ask.ask_id.removeprefix("grant-").removesuffix("-fs_write")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (waits,) = await talk.asks()
            assert waits.ask_id == ask.ask_id
            assert await decided(talk, waits, "once") == "granted"
            done = await called(talk, "", "agent_wait", agent_id=run_id)
            assert (done["status"], done["outcome"]) == ("completed", "completed")
    assert (tmp_path / "made.txt").read_text() == "made"


async def test_a_tool_that_is_blocked_while_its_grant_waits_is_not_run(home: Home, tmp_path: Path) -> None:
    home.write_script(wrote(WRITE))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go", cwd=str(tmp_path))
            ask = await asked(speech)
            home.write_config(CONFIG + 'blocked_tools = ["fs_write"]\n')
            assert daemon.cli("reload").returncode == 0
            assert await decided(talk, ask, "once") == "granted"
            await speech.end()
            assert "blocked by security policy" in speech.text
    assert not (tmp_path / "made.txt").exists()


async def test_a_grant_for_a_call_with_a_secret_outlives_a_restart_and_the_secret_is_nowhere(home: Home) -> None:
    secret = json.dumps({"name": "api", "value": "zq-canary-4c1d"})
    home.write_script(script(
        lead("^go", spawn("keep it", "vault", allowed_tools=["secrets_list"]), wait(), say("{result}")), ANY,
        lead("has ended", say("Heard.")),
        mate("^keep it", call("secrets_store", secret), say("I heard: {result}")),
    ))  # fmt: skip
    with running(home) as daemon:
        async with daemon.client() as talk:
            ask = await asked(talk.start("moot", "go"))
        daemon.kill_9()
    assert b"zq-canary-4c1d" not in home.on_disk()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            (again,) = await eventually(talk.asks)
            assert again.ask_id == ask.ask_id
            assert await decided(talk, again, "once") == "granted"
            run_id = ask.ask_id.removeprefix("grant-").removesuffix("-secrets_store")
            done = await called(talk, "", "agent_wait", agent_id=run_id)
            assert done["outcome"] == "completed"
            assert "lost" not in done["result"]
        assert "api" in daemon.cli("secrets", "list").stdout


async def test_with_nobody_to_ask_for_a_grant_the_run_ends_denied(home: Home, tmp_path: Path) -> None:
    home.write_config(CONFIG + "unattended = true\n")
    home.write_script(wrote(WRITE) + script({"match": "^write it", "steps": [WRITE, say("{result}")]}))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("moot", "go", cwd=str(tmp_path))
            *_, run = results(speech, "agent_wait")
            assert (run["status"], run["outcome"]) == ("failed", "denied")
            # The turn that waited for it ends denied too, and so does the command behind it.
            assert speech.outcome == "denied"
        assert daemon.cli("ask", "--cwd", str(tmp_path), "moot", "go").returncode == 4
        done = daemon.cli("run", "--agent", "ada", "--tools", "fs_read", "--json", "write it")
        assert done.returncode == 4, done.stdout
    assert not (tmp_path / "made.txt").exists()


HOLD = '''
import asyncio
from pathlib import Path

from moot.tools import tool


@tool(safety="safe")
async def hold_until(mark: str) -> str:
    """Wait for a file.

    Args:
        mark: The file.
    """
    while not Path(mark).exists():
        await asyncio.sleep(0.02)
    return "It is there."
'''


def add_hold(home: Home) -> None:
    (home.path / "tools").mkdir()
    (home.path / "tools" / "hold.py").write_text(HOLD)


async def no_teammate(talk: Talking) -> bool:
    """Whether no teammate is at work any more."""
    runs = (await talk.ask(list_runs=pb.ListRunsMsg())).run_list.runs
    return not [run for run in runs if run.parent]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_denial_in_a_result_nobody_waited_for_ends_the_turn_denied(
    home: Home, tmp_path: Path, when: str
) -> None:
    """Denied before its turn ends it makes the turn denied; later, the turn that is told of it."""
    home.write_config(CONFIG + "unattended = true\n")
    add_hold(home)
    mark = tmp_path / "mark"
    held = call("hold_until", mark=str(mark))
    steps = [held] if when == "before" else []
    home.write_script(
        script(
            lead("has ended", say("I see.")),
            lead("^go", spawn("work", allowed_tools=["fs_read"]), *steps, say("Begun."), say("It is under way.")),
            mate("^work", *([] if when == "before" else [held]), WRITE, say("I heard: {result}")),
        )
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go", cwd=str(tmp_path))
            if when == "before":
                await speech.until("tool_result")
                await eventually(partial(no_teammate, talk))
                mark.touch()
            assert (await speech.end()).outcome == ("denied" if when == "before" else "completed")
            mark.touch()
            reported = "SELECT outcome FROM runs WHERE author <> '' AND status = 'ended'"
            await eventually(lambda: home.query(reported) == [("denied",)])


async def test_who_asks_and_what_for_is_told_in_the_stream_and_in_the_inbox(home: Home, tmp_path: Path) -> None:
    home.write_script(
        script(
            lead("^go", spawn("work", allowed_tools=["fs_read"], spawn_reason="it has hands"), wait(), say("{result}")),
            mate("^work", WRITE, call("ask_user", questions=[{"question": "Which?"}]), say("I heard: {result}")),
        )
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go", cwd=str(tmp_path))
            ask = await asked(speech)
            run_id = ask.ask_id.removeprefix("grant-").removesuffix("-fs_write")
            by = pb.Asker(agent="operator", run_id=run_id, spawn_reason="it has hands", task="work")
            assert ask.by == by
            (listed,) = await talk.asks()
            assert (listed.by, listed.run_id) == (by, run_id)

            await decided(talk, ask, "once")
            question = await speech.until("ask_user")
            assert question.by == by
            (listed,) = await talk.asks()
            assert (listed.by, listed.run_id, listed.kind) == (by, run_id, "question")
            await talk.ask(reply_to_ask=pb.ReplyToAsk(agent="moot", content="this"))
            await speech.end()


async def test_who_waits_behind_a_turn_is_told_what_a_teammate_of_it_asks(home: Home, tmp_path: Path) -> None:
    home.write_script(wrote(WRITE) + "\n" + script({"match": "^next", "reply": "Your turn."}))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go", cwd=str(tmp_path))
            ask = await asked(speech)
            behind = talk.start("moot", "next")
            queued = await behind.until("queued")
            assert (queued.position, queued.ask_id, queued.ask_kind) == (1, ask.ask_id, "grant")
            await decided(talk, ask, "once")
            queued = await behind.until("queued", count=2)
            assert queued == pb.QueuedEvent(position=1, run_id=queued.run_id)
            await speech.end()
            assert (await behind.end()).text == "Your turn."
