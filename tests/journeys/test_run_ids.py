"""A client that does not know whether its run was started starts it again under the same id, and there is one run."""

import asyncio
import json
from typing import Any

import pytest

from moot.domain.errors import BadRequest, Conflict
from moot.wire import moot_pb2 as pb
from tests.daemon_process import DaemonProcess, Home, call_cli, run_cli, running
from tests.daemon_thread import daemon_thread
from tests.scripting import script
from tests.talking import Talking

SCRIPT = script({"match": "hang", "hang": True}, {"reply": "You said: {user}"})


async def started(talk: Talking, content: str, client_message_id: str = "s1", **fields: Any) -> pb.RunInfo:
    message = pb.StartRunMsg(agent="ada", content=content, client_message_id=client_message_id, **fields)
    return (await talk.ask(start_run=message)).run


async def ids(talk: Talking) -> list[str]:
    found = await talk.ask(list_runs=pb.ListRunsMsg(all=True))
    return [run.run_id for run in found.run_list.runs]


async def test_the_same_start_made_again_is_one_run_while_it_goes_on_and_after_its_end(home: Home) -> None:
    with running(home) as daemon:
        async with daemon.client() as talk, daemon.client() as other:
            # At once, from two connections: whichever is first makes it.
            one, two = await asyncio.gather(started(talk, "hang on"), started(other, "hang on"))
            assert one.run_id == two.run_id
            again = await started(talk, "hang on")
            assert (again.run_id, again.outcome) == (one.run_id, "")
            await talk.ask(stop_run=pb.StopRunMsg(run_id=one.run_id))
            assert ((await started(talk, "hang on")).outcome) == "cancelled"
            assert await ids(talk) == [one.run_id]
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await started(talk, "hang on")).run_id == one.run_id
            assert await ids(talk) == [one.run_id]


async def test_an_id_is_one_start_of_one_sender(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            first = await started(talk, "one")
            refused: list[tuple[str, Any]] = [("two", {}), ("one", {"tools": ["fs_read"]})]
            for content, fields in refused:
                with pytest.raises(Conflict, match="another run was started under the id 's1'"):
                    await started(talk, content, **fields)
            with pytest.raises(BadRequest):
                await started(talk, "one", "x" * 300)
            others = [await started(talk, "one", sender="tg:1"), await started(talk, "one", "s2")]
            nameless = [await started(talk, "one", ""), await started(talk, "one", "")]
            made = {each.run_id for each in (first, *others, *nameless)}
            assert len(made) == 5
            assert set(await ids(talk)) == made


def test_the_command_starts_one_run_when_the_daemon_dies_before_it_answers(home: Home) -> None:
    daemon = DaemonProcess.start(home, MOOT_FAIL_AT="teammate.spawned")
    try:
        done = call_cli(home, "run", "--bg", "one", "--agent", "ada")
        # The daemon it started in place of the one that died has what that one kept.
        assert done.returncode == 0, done.stderr
        assert "Started the daemon" in done.stderr
        run_id = done.stdout.strip()
        assert run_cli(home, "wait", run_id).stdout.strip().endswith("You said: one")
        listed = json.loads(call_cli(home, "ps", "-a", "--json").stdout)["data"]
        assert [run["run_id"] for run in listed] == [run_id]
    finally:
        daemon.reap()
        assert run_cli(home, "down", "--now").returncode == 0


def test_the_command_takes_an_id_for_scripts_that_try_again(home: Home) -> None:
    with daemon_thread(home) as daemon:
        task = ("run", "--bg", "one", "--agent", "ada")
        first, again = (daemon.cli(*task, "--message-id", "nightly") for _ in range(2))
        other = daemon.cli(*task)
        assert first.stdout == again.stdout != other.stdout
        refused = daemon.cli("run", "--bg", "two", "--agent", "ada", "--message-id", "nightly")
        assert refused.returncode == 1
        assert "another run was started under the id 'nightly'" in refused.stderr
