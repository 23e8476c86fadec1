"""A long import through a running daemon: others talk meanwhile, nobody sees a part, and a kill leaves nothing."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.talking import Talking

SCRIPT = """
[[rule]]
reply = "You said: {user}"
"""
MESSAGES = 12_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = [json.dumps({"role": "user", "content": f"message {number} " + "x" * 400}) for number in range(MESSAGES)]
    lines.insert(MESSAGES // 2, json.dumps({"compact": "Half of it.", "title": "Half"}))
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


async def imported(talk: Talking, file: Path) -> pb.Imported:
    answer = await talk.ask(**{"import": pb.ImportMsg(path=str(file), agent="ada", sender="old")})
    return answer.imported


async def known(talk: Talking) -> dict[str, int]:
    return {info.sender: info.message_count for info in await talk.conversations()}


async def test_others_talk_during_a_long_import_and_see_it_whole_or_not_at_all(home: Home, file: Path) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk, daemon.client() as other:
            importing = asyncio.ensure_future(imported(talk, file))
            turns, seen = 0, set()
            while not importing.done():
                assert (await other.say("bob", f"turn {turns}")).outcome == "completed"
                turns += 1
                seen.add((await known(other)).get("old", 0))
            assert ((await importing).messages, (await importing).archives) == (MESSAGES, 1)
            assert seen <= {0, MESSAGES}
            assert turns > 4
            assert (await known(other))["old"] == MESSAGES
            assert (await other.say("ada", "and now?", "old")).text == "You said: and now?"


async def test_a_message_into_the_conversation_waits_until_the_import_is_over(home: Home, file: Path) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk, daemon.client() as other:
            importing = asyncio.ensure_future(imported(talk, file))

            async def under_way() -> bool:
                return importing.done() or any(info.sender == "old" for info in await other.active())

            await eventually(under_way)
            speech = await other.say("ada", "me too", "old")
            assert speech.outcome == "completed"
            assert (await importing).messages == MESSAGES
            # Behind all that was imported.
            assert (await known(other))["old"] == MESSAGES + 2


async def test_what_is_set_during_an_import_is_kept(home: Home, file: Path) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk, daemon.client() as other:
            importing = asyncio.ensure_future(imported(talk, file))

            async def under_way() -> bool:
                return importing.done() or any(info.sender == "old" for info in await other.active())

            await eventually(under_way)
            chosen = await other.ask(mode=pb.ModeMsg(agent="ada", sender="old", mode="plan"))
            assert not importing.done()
            assert chosen.mode.mode == "plan"
            assert (await importing).messages == MESSAGES
            found = (await other.ask(mode=pb.ModeMsg(agent="ada", sender="old"))).mode
            assert (found.mode, found.is_own) == ("plan", True)


async def test_an_import_keeps_what_was_set_before_the_first_message(home: Home, file: Path) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.ask(mode=pb.ModeMsg(agent="ada", sender="old", mode="plan"))
            assert (await imported(talk, file)).messages == MESSAGES
            assert (await talk.ask(mode=pb.ModeMsg(agent="ada", sender="old"))).mode.mode == "plan"


async def test_a_daemon_killed_during_an_import_has_nothing_of_it_and_takes_it_again(home: Home, file: Path) -> None:
    with running(home, MOOT_FAIL_AT="committed.part:5") as daemon:
        async with daemon.client() as talk:
            with pytest.raises(MootError):
                await imported(talk, file)
        assert daemon.reap() == -signal.SIGKILL
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert await known(talk) == {}
            assert (await imported(talk, file)).messages == MESSAGES
            assert await known(talk) == {"old": MESSAGES}
