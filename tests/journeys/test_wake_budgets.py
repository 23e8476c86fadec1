"""Runs that woken agents start: their mail counts in the budgets of the same thread, so that it comes to an end."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, eventually
from tests.daemon_thread import daemon_thread
from tests.journeys.test_peers import SCRIPTED, agent, allow
from tests.scripting import call, say, script
from tests.talking import Talking

AGENTS = ("ada", "bob")
CONFIG = SCRIPTED.replace('http = "off"', 'http = "off"\n[security.interceptor]\npolicy = "none"')
# Beyond the first, with `max_hops = 3` of the configuration.
MOST_HOPS = 3


def start_workflow(name: str) -> dict[str, Any]:
    source = {"name": "relay", "steps": [{"id": "only", "agent": name, "prompt": "RELAY the news"}]}
    return call("workflow_run", yaml_content=json.dumps(source))


STARTERS = {
    "background task": lambda _: call("bg_submit", prompt="RELAY the news", channel="none"),
    "reported background task": lambda _: call("bg_submit", prompt="RELAY the news"),
    "workflow": start_workflow,
}


async def count_unread(talk: Talking) -> dict[str, int]:
    goals = (await talk.ask(list_goals=pb.ListGoalsMsg())).goals.goals
    return {goal.agent: goal.unread for goal in goals if goal.kind == "interactive"}


def list_hops(home: Home) -> list[int]:
    return [hops for (hops,) in home.query("SELECT hops FROM mail ORDER BY hops")]


@pytest.mark.parametrize("starter", STARTERS)
async def test_runs_that_woken_agents_start_are_in_the_same_budget(home: Home, starter: str) -> None:
    rules: list[dict[str, Any]] = []
    for name, other in (("ada", "bob"), ("bob", "ada")):
        allow(home, name, "wake: true")
        rules += [
            agent(name, "RELAY", call("send_to_peer", to=other, message="the news"), say("Sent.")),
            agent(name, "begin|PEER", call("tool_search", query=starter), STARTERS[starter](name), say("Started.")),
            agent(name, ".", say("I see.")),
        ]
    home.write_script(script(*rules))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("bob", "hello")
            await talk.say("ada", "begin")

            async def has_come_to_an_end() -> bool:
                # The last one wakes nobody, and waits.
                waits = await count_unread(talk) == {"ada": 1, "bob": 0} and await talk.is_idle()
                return waits and list_hops(home)[-1] == MOST_HOPS

            await eventually(has_come_to_an_end)
            assert home.query("SELECT count(DISTINCT thread) FROM mail") == [(1,)]
            assert set(list_hops(home)) == {0, 1, 2, MOST_HOPS}


async def test_a_schedule_for_one_time_is_in_the_budget_of_the_run_that_made_it(home: Home) -> None:
    allow(home, "bob", "wake: true")
    soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    job = {"name": "later", "schedule_type": "at", "schedule": soon, "prompt": "RELAY the news"}
    later = call("cron_add", json.dumps(job))
    home.write_script(
        script(
            agent("ada", "begin", call("send_to_peer", to="bob", message="the news"), say("Sent.")),
            agent("bob", "RELAY", call("send_to_peer", to="ada", message="the news"), say("Sent.")),
            agent("bob", "PEER", call("tool_search", query="schedule a job"), later, say("Later.")),
            agent("bob", ".", say("I see.")),
        )
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("bob", "hello")
            await talk.say("ada", "begin")
            await eventually(lambda: len(home.query("SELECT id FROM mail WHERE from_agent = 'bob'")) == 1)
            sent = home.query("SELECT from_agent, hops, thread FROM mail ORDER BY number")
            assert [(name, hops) for name, hops, _ in sent] == [("ada", 0), ("bob", 1)]
            assert len({thread for _, _, thread in sent}) == 1


async def test_mail_that_waits_wakes_an_agent_that_may_be_woken_after_a_reload(home: Home) -> None:
    home.write_script(script(agent("bob", ".", say("I see."))))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("bob", "hello")
            await talk.ask(send_mail=pb.SendMailMsg(agent="bob", content="the news"))
            assert await count_unread(talk) == {"bob": 1}
            allow(home, "bob", "wake: true")
            assert daemon.cli("reload").returncode == 0

            async def is_read() -> bool:
                return await count_unread(talk) == {"bob": 0}

            await eventually(is_read)
