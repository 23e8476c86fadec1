"""Agents of two daemons ask each other, over NATS, to shut down and to approve plans; refusals reach who sent them."""

import json
import signal
from collections.abc import Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest

from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.journeys.test_other_daemons import SCRIPTED, meet, until_empty, until_unread
from tests.journeys.test_peers import agent, allow
from tests.nats_server import NatsServer, nats_server
from tests.scripting import call, say, script
from tests.talking import Talking

PLAN, SECOND_PLAN, SHUTDOWN = (f"7a3b2f00-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))


def send(to: str, kind: str, request_id: str, **fields: Any) -> dict[str, Any]:
    return call("send_to_peer", to=to, message=json.dumps({"type": kind, "request_id": request_id, **fields}))


RULES = (
    agent("ada", "Plan A", send("lead@laptop", "plan_approval_request", PLAN, plan="1. cut"), say("Go.")),
    agent("ada", "Plan B", send("bob@laptop", "plan_approval_request", SECOND_PLAN, plan="2. glue"), say("Go.")),
    agent("ada", "Stop bob", send("bob@laptop", "shutdown_request", SHUTDOWN), say("Asked.")),
    agent("ada", "Anything", say("I see.")),
    agent("lead", "1. cut", send("ada@desk", "plan_approval_response", PLAN, approved=True), say("Approved.")),
    agent("bob", "Late", send("ada@desk", "plan_approval_response", SECOND_PLAN, approved=True), say("Oh.")),
    agent(
        "bob",
        "Long work",
        call("wait_for_peer", correlation_id=SHUTDOWN, timeout=600),
        send("ada@desk", "shutdown_response", SHUTDOWN, approved=True),
        say("Never said."),
    ),
    agent("bob", ".", say("I see.")),
    agent("lead", ".", say("I see.")),
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path / "nats") as server:
        yield server


def furnish(path: Path, server: NatsServer, name: str, *agents: str) -> Home:
    home = Home(path).furnish(agents=agents)
    home.write_config(SCRIPTED.format(url=server.url, name=name))
    home.write_script(script(*RULES))
    for each in agents:
        allow(home, each, "allowed_delegates: ['*']", "accept_delegates_from: ['*']")
    return home


@pytest.fixture
def desk(tmp_path: Path, server: NatsServer) -> Home:
    return furnish(tmp_path / "desk", server, "desk", "ada")


@pytest.fixture
def laptop(tmp_path: Path, server: NatsServer) -> Home:
    home = furnish(tmp_path / "laptop", server, "laptop", "bob", "lead")
    allow(home, "lead", "role: coordinator", "wake: true")
    return home


async def until_told(talk: Talking, agent_name: str, words: str) -> str:
    """Wait until an agent has this unread; return the texts after it has read them."""

    async def is_there() -> bool:
        return any(goal.unread for goal in (await talk.ask(list_goals=pb.ListGoalsMsg(agent=agent_name))).goals.goals)

    await eventually(is_there)
    await talk.say(agent_name, "Anything new?")
    texts = "\n".join(text for _, _, text in await talk.told(agent_name))
    assert words in texts
    return texts


async def test_a_plan_is_approved_by_a_coordinator_elsewhere_or_by_the_owner_and_the_first_answer_counts(
    desk: Home, laptop: Home
) -> None:
    with daemon_thread(desk) as first, daemon_thread(laptop) as second:
        async with first.client() as here, second.client() as there, second.client() as other:
            await there.say("lead", "hello")
            await there.say("bob", "hello")
            await meet(here)
            speech = await here.say("ada", "Plan A")
            assert (speech.text, 'from="lead@laptop"' in speech.of("tool_result")[0].output) == ("Go.", True)
            assert "&quot;approved&quot;: true" in speech.of("tool_result")[0].output
            assert not await here.asks()

            speech = here.start("ada", "Plan B")
            asked = await speech.until("ask_user")
            assert "Approve the plan of ada, which was sent to bob@laptop?\n\n2. glue" in asked.questions[0].question
            await until_unread(there)
            await here.reply("ada", "Approve")
            await speech.end()
            assert 'from="@owner"' in speech.of("tool_result")[0].output
            async with aclosing(await other.connection.subscribe()) as events:
                assert (await there.say("bob", "Late")).text == "Oh."
                refused = await anext(event async for event in events if event.kind == pb.BRIDGE_REFUSED)
            reason = f"the request {SECOND_PLAN} was answered before"
            assert (refused.content, refused.body.bridge_refused.reason) == (reason, reason)
            await until_told(there, "bob", f"ada@desk has not got the plan_approval_response: {reason}")
            assert [dead["reason"] for dead in second.cli_json("peers", "dead")["data"]] == [reason]
            assert first.cli_json("status")["data"]["broker"]["dropped"] == {"bridge": 1}


async def start_long_work(talk: Talking) -> str:
    run = (await talk.ask(start_run=pb.StartRunMsg(agent="bob", content="Long work"))).run
    return str(run.run_id)


async def wait_for(talk: Talking, run_id: str) -> pb.RunInfo:
    (run,) = (await talk.ask(wait_runs=pb.WaitRunsMsg(run_ids=[run_id], seconds=60))).run_list.runs
    return run


STOPPED = ("cancelled", "Stopped: ada@desk asked for it, and it was approved.")


@pytest.mark.parametrize("point", ["committed.outbox", "tool.result:2", "end.before"])
async def test_an_approved_shutdown_ends_a_goal_of_another_daemon_once_also_after_a_crash(
    desk: Home, laptop: Home, point: str
) -> None:
    """It is killed after it has approved and before its goal has ended."""
    with daemon_thread(desk) as first:
        async with first.client() as here:
            with running(laptop, MOOT_FAIL_AT=point) as dying:
                async with dying.client() as there:
                    run_id = await start_long_work(there)
                    await meet(here)
                    assert (await here.say("ada", "Stop bob")).text == "Asked."
                    with suppress(MootError, OSError):
                        await wait_for(there, run_id)
                assert dying.process.wait(60) == -signal.SIGKILL
            with running(laptop) as again:
                async with again.client() as there:
                    run = await wait_for(there, run_id)
                    assert (run.outcome, run.error) == STOPPED
                    texts = await until_told(here, "ada", "&quot;approved&quot;: true")
                    assert texts.count("shutdown_response") == 1
                    await until_empty(there)
                    assert not (await there.ask(list_goals=pb.ListGoalsMsg(agent="bob"))).goals.goals
