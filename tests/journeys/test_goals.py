"""Everything that works is a goal: conversations, background runs, teammates and scheduled work are sent mail."""

import asyncio
from typing import Any

from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, eventually
from tests.daemon_thread import DaemonThread, daemon_thread
from tests.journeys.test_peers import SCRIPTED, UUID, agent, allow
from tests.scripting import call, say, script
from tests.talking import Talking

AGENTS = ("ada", "bob")
WAITING = call("wait_for_peer", correlation_id=UUID, timeout=600)
RULES = (
    agent("ada", "Hire", call("agent_spawn", agent="bob", instruction="Stand by."), say("Hired.")),
    agent("ada", "Tell all", call("send_to_peer", to="bob", message="it is noon", correlation_id=UUID), say("Told.")),
    agent("ada", ".", say("Fine.")),
    {"match": "Stand by", "hang": True},
    agent("bob", "Wait for noon", WAITING, say("It is noon.")),
    agent("bob", ".", say("I see.")),
)


def list_goals(daemon: DaemonThread) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.cli_json("goals", "bob")["data"]
    return found


async def list_ended(talk: Talking) -> list[str]:
    """The answers of the runs of bob that nobody talks to."""
    runs = (await talk.ask(list_runs=pb.ListRunsMsg(all=True))).run_list.runs
    return [run.result for run in runs if run.agent == "bob" and run.kind != "turn" and run.status == "completed"]


async def test_a_message_reaches_everything_that_an_agent_does(home: Home) -> None:
    home.write_config(SCRIPTED)
    home.write_script(script(*RULES))
    allow(home, "ada", "role: coordinator")
    allow(home, "bob", "prefixes: ['*']")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("bob", "hello")
            await talk.say("ada", "Hire bob")
            for command in (
                ("run", "--bg", "--agent", "bob", "Wait for noon"),
                ("cron", "add", "noon", "--agent", "bob", "--every", "1d", "--deliver", "none", "Wait for noon"),
                ("cron", "run", "noon", "--agent", "bob"),
            ):
                done = await asyncio.to_thread(daemon.cli, *command)
                assert done.returncode == 0, done
            goals = await eventually(lambda: len(list_goals(daemon)) == 4 and list_goals(daemon))
            assert sorted(goal["kind"] for goal in goals) == ["background", "background", "daemon", "interactive"]
            assert {goal["owner"] for goal in goals} == {"user"}
            assert {goal["label"] for goal in goals if goal["kind"] != "interactive"} == {"Stand by.", "Wait for noon"}

            speech = await talk.say("ada", "Tell all")
            assert all(goal["goal_id"] in speech.of("tool_result")[0].output for goal in goals)

            async def have_ended() -> bool:
                return await list_ended(talk) == ["It is noon.", "It is noon."]

            await eventually(have_ended)
            # A teammate that is stopped before its next step, and a person's conversation, have not read it.
            left = {goal["kind"]: goal["unread"] for goal in list_goals(daemon)}
            assert left == {"interactive": 1, "background": 1}
            (teammate,) = [run for run in daemon.cli_json("ps")["data"] if run["agent"] == "bob"]
            assert teammate["unread"] == 1
            await asyncio.to_thread(daemon.cli, "stop", teammate["run_id"])
            (dead,) = await eventually(lambda: daemon.cli_json("peers", "dead")["data"])
            assert dead["body"] == "it is noon"
            assert [goal["kind"] for goal in list_goals(daemon)] == ["interactive"]
