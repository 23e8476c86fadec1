"""Commands in the background, for the person who wonders what is going on: seen, named and stopped."""

import asyncio
from typing import Any

import pytest

from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.raw_client import raw
from tests.scripting import call, say, script
from tests.terminal import terminal

CONFIG = PLAIN + '\n[security.interceptor]\nexempt_tools = ["exec_bg"]\n'
LONG = "sleep 600 # " + "long " * 40
SCRIPT = script(
    {"match": "^begin", "steps": [call("exec_bg", command="sleep 601"), say("Began.")]},
    {"match": "^long", "steps": [call("exec_bg", command=LONG), say("Began.")]},
    {"reply": "You said: {user}"},
)


async def commands(daemon: LiveDaemon) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await asyncio.to_thread(daemon.cli_json, "ps"))["data"]
    return [each for each in listed if each["kind"] == "command"]


async def test_a_command_in_the_background_is_listed_and_can_be_stopped_by_its_own_id(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "begin")
            await talk.say("bob", "begin")
        ada, bob = await commands(daemon)
        assert (ada["agent"], ada["sender"], ada["command"]) == ("ada", "user", "sleep 601")
        assert (bob["agent"], bob["root"]) == ("bob", {"agent": "bob", "sender": "user"})
        assert 0 <= ada["seconds"] < 600
        status = await asyncio.to_thread(daemon.cli, "status")
        assert "Nothing is running" not in status.stdout
        assert status.stdout.count("$ sleep 601 &") == 2
        piped = await asyncio.to_thread(daemon.cli, "ps")
        assert [line.split()[0] for line in piped.stdout.splitlines()[1:]] == [ada["job_id"], bob["job_id"]]

        stopped = await asyncio.to_thread(daemon.cli, "stop", ada["job_id"])
        assert stopped.stdout == "Stopped $ sleep 601 & (ada as user)\n"
        assert [each["job_id"] for each in await commands(daemon)] == [bob["job_id"]]
        again = await asyncio.to_thread(daemon.cli, "stop", ada["job_id"])
        assert again.returncode == 6
        assert "moot ps" in again.stderr
        killed = await asyncio.to_thread(daemon.cli, "kill", "bob")
        assert (killed.returncode, killed.stdout) == (0, "Stopped 1 background command of bob; no run was active.\n")
        while await commands(daemon):  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(0.05)
        nothing = await asyncio.to_thread(daemon.cli, "status")
        assert "Nothing is running." in nothing.stdout


async def test_at_a_terminal_a_command_says_whose_it_is_since_when_and_how_to_stop_it(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "long")
        (job,) = await commands(daemon)
        for arguments in (["ps"], ["status"]):
            with terminal(home, *arguments, columns=80) as person:
                assert person.wait_for_exit() == 0
            assert "In the background:" in person.seen
            assert "ada as user · since " in person.seen
            # Short enough to be typed, long enough to be found.
            assert f"moot stop {job['job_id'][:13]}\n" in person.seen
            assert " more\n" in person.seen
            assert all(len(line) <= 80 for line in person.seen.splitlines())
        stopped = await asyncio.to_thread(daemon.cli_json, "stop", job["job_id"][:13])
        assert [each["job_id"] for each in stopped["data"]] == [job["job_id"]]


async def test_a_token_neither_sees_nor_stops_the_commands_of_others(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk, raw(daemon) as bot:
            token = (await talk.ask(new_token=pb.NewTokenMsg(name="bot"))).token_created.token
            await bot.ask(pb.ClientMessage(hello=pb.Hello(version=1, token=token)))
            await talk.say("ada", "begin")
            (job,) = (await talk.ask(list_jobs=pb.ListJobsMsg())).job_list.jobs
            assert not (await bot.ask(pb.ClientMessage(list_jobs=pb.ListJobsMsg()))).job_list.jobs
            refused = await bot.ask(pb.ClientMessage(stop_job=pb.StopJobMsg(job_id=job.job_id)))
            assert refused.error.code == 404
            await bot.ask(pb.ClientMessage(send=pb.SendMsg(agent="ada", content="begin")))
            (own,) = (await bot.ask(pb.ClientMessage(list_jobs=pb.ListJobsMsg()))).job_list.jobs
            assert own.root_sender == "bot"
            # A beginning that both have means nothing to the owner, who sees both.
            with pytest.raises(BadRequest, match="is ambiguous"):
                await talk.ask(stop_job=pb.StopJobMsg(job_id="bg-"))
