"""A decision applies to the attempt that was shown: a call that has changed since is shown again, not made."""

import asyncio
import json
from pathlib import Path

import pytest

from moot.domain.errors import Conflict
from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.journeys.test_reload_tools import Settings
from tests.journeys.test_teammate_grants import asked, decided
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.talking import Speech, Talking
from tests.teaming import TEAM
from tests.terminal import terminal

CONFIG = PLAIN
RUN = call("exec", command="echo made > made.txt")
ASK = call("ask_user", questions=[{"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}])
SCRIPT = script(
    {"match": "^go", "steps": [RUN, say("{result}")]},
    {"match": "^ask", "steps": [ASK, ASK, say("{result}")]},
)
NETWORK = "\n[sandbox]\nnetwork = true\n"


def approve(daemon: LiveDaemon, ask_id: str, *more: str) -> tuple[int, str, str]:
    done = daemon.cli("inbox", "approve", ask_id, *more)
    return done.returncode, done.stdout, done.stderr


async def in_thread(daemon: LiveDaemon, ask_id: str, *more: str) -> tuple[int, str, str]:
    return await asyncio.to_thread(approve, daemon, ask_id, *more)


async def test_a_script_decides_only_on_the_attempt_it_names(home: Home, tmp_path: Path) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            ask = await asked(speech)
            code, _, err = await in_thread(daemon, ask.ask_id)
            assert code == 2
            assert "echo made > made.txt" in err
            assert f"moot inbox approve {shorten_ask_id(ask.ask_id)} --attempt 1" in " ".join(err.split())
            code, out, _ = await in_thread(daemon, ask.ask_id, "--always", "--yes", "--json")
            assert (code, json.loads(out)["ok"]) == (2, False)
            # A beginning of the id names no attempt either.
            assert (await in_thread(daemon, ask.ask_id[:12]))[0] == 2
            assert (await in_thread(daemon, ask.ask_id, "--attempt", "2"))[0] == 1
            for attempt in (0, 2):
                with pytest.raises(Conflict, match="attempt"):
                    await decided(talk, pb.ApprovalEvent(ask_id=ask.ask_id, attempt=attempt), "once")
            (listed,) = (await asyncio.to_thread(daemon.cli_json, "inbox"))["data"]
            assert listed["attempt"] == 1
            assert not (tmp_path / "made.txt").exists()
            assert (await in_thread(daemon, ask.ask_id, "--attempt", str(listed["attempt"])))[0] == 0
            await speech.end()
    assert (tmp_path / "made.txt").exists()


async def test_a_person_at_a_terminal_sees_all_of_a_call_before_it_is_allowed(home: Home, tmp_path: Path) -> None:
    long = "".join(f"echo {number} >> made.txt\n" for number in range(400)) + "echo LAST >> made.txt"
    home.write_script(script({"match": "^go", "steps": [call("exec", command=long), say("{result}")]}))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            ask = await asked(speech)
            for typed, code in (("n\n", 130), ("y\n", 0)):
                with terminal(home, "inbox", "approve", ask.ask_id, columns=100) as person:
                    await asyncio.to_thread(person.wait_for, "Allow it?")
                    shown = person.seen
                    person.type(typed)
                    assert await asyncio.to_thread(person.wait_for_exit) == code
                assert all(f"echo {number} >> made.txt" in shown for number in (0, 200, 399))
                assert "echo LAST" in shown
            await speech.end()
    assert (tmp_path / "made.txt").read_text().endswith("LAST\n")


async def reshown(talk: Talking, settings: Settings, speech: Speech) -> pb.ApprovalEvent:
    """Change the sandbox while a call waits, approve the call as it was shown, and see it shown again."""
    first = await asked(speech)
    assert "has no network" in first.preview
    assert await settings.apply(talk, NETWORK) == []
    assert await decided(talk, first, "once") == "granted"
    second = await asked(speech, 2)
    assert (second.ask_id, second.attempt) == (first.ask_id, 2)
    assert "can reach the network" in second.preview
    with pytest.raises(Conflict, match="is at attempt 2, not 1"):
        await decided(talk, first, "once")
    return second


async def test_a_sandbox_that_was_changed_while_a_call_waited_is_shown_first(home: Home, tmp_path: Path) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            second = await reshown(talk, Settings(home), speech)
            code, _, err = await in_thread(daemon, second.ask_id, "--attempt", "1")
            assert code == 1
            # The error comes with what is open now.
            assert "can reach the network" in " ".join(err.split())
            assert "at attempt 2" in " ".join(err.split())
            assert not (tmp_path / "made.txt").exists()
            assert (await in_thread(daemon, second.ask_id, "--attempt", "2"))[0] == 0
            await speech.end()
    assert (tmp_path / "made.txt").exists()


async def test_a_grant_is_shown_again_where_the_sandbox_was_changed(home: Home, tmp_path: Path) -> None:
    home.write_config(PLAIN + TEAM)
    home.write_script(
        script(
            lead("^go", spawn("work", allowed_tools=["fs_read"]), wait(), say("{result}")),
            mate("^work", RUN, say("I heard: {result}")),
        )
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("moot", "go", cwd=str(tmp_path))
            second = await reshown(talk, Settings(home), speech)
            assert second.kind == "grant"
            assert await decided(talk, second, "deny") == "denied"
            await speech.end()
    assert not (tmp_path / "made.txt").exists()


async def test_a_restart_with_another_sandbox_is_another_attempt_in_every_place(home: Home, tmp_path: Path) -> None:
    settings = Settings(home)
    home.write_script(script({"match": "^go", "steps": [RUN, say("{result}")]}))
    with running(home) as daemon:
        started = daemon.cli("run", "--agent", "ada", "--cwd", str(tmp_path), "--json", "go")
        assert started.returncode == 3, started.stdout
        (ask,) = daemon.cli_json("inbox")["data"]
        daemon.kill_9()
    settings.write(NETWORK)
    with daemon_thread(home) as again:
        async with again.client() as talk:

            async def is_shown_again() -> bool:
                return [(each.ask_id, each.attempt) for each in await talk.asks()] == [(ask["ask_id"], 2)]

            assert await eventually(is_shown_again)
            assert (await in_thread(again, ask["ask_id"], "--attempt", "1"))[0] == 1
            shown = await asyncio.to_thread(again.cli, "inbox", "show", ask["ask_id"])
            assert "attempt 2" in shown.stdout
            assert not (tmp_path / "made.txt").exists()
            await decided(talk, pb.ApprovalEvent(ask_id=ask["ask_id"], attempt=2), "deny")


async def test_a_reply_answers_the_question_that_was_shown_or_none(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "ask")
            first = await speech.until("ask_user")
            assert first.attempt == 1

            async def reply(ask_id: str, attempt: int, content: str = "Red") -> None:
                message = pb.ReplyToAsk(agent="ada", content=content, ask_id=ask_id, attempt=attempt)
                await talk.ask(reply_to_ask=message)

            with pytest.raises(Conflict, match="another question is open"):
                await reply(first.ask_id, 2)
            stale = await asyncio.to_thread(daemon.cli, "inbox", "reply", first.ask_id, "1", "--attempt", "2")
            assert stale.returncode == 1
            assert "Which colour?" in stale.stderr
            await reply(first.ask_id, 1)
            second = await speech.until("ask_user", count=2)
            with pytest.raises(Conflict, match="another question is open"):
                await reply(first.ask_id, 1, "Blue")
            (waiting,) = (await asyncio.to_thread(daemon.cli_json, "inbox"))["data"]
            assert (waiting["ask_id"], waiting["attempt"]) == (second.ask_id, 1)
            assert (await asyncio.to_thread(daemon.cli, "inbox", "reply", second.ask_id, "2")).returncode == 0
            await speech.end()
