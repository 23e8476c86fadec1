"""Scheduled jobs and background tasks, as an agent makes them: they run once, and their results come back."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as BASE
from tests.daemon_process import Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.scripting import call, say, script

CONFIG = BASE + '[security.interceptor]\npolicy = "none"\n[project]\ninstructions = false\n'
TOOLS = (
    *("cron_add", "cron_list", "cron_pause", "cron_resume", "cron_remove", "cron_history"),
    *("bg_submit", "bg_status", "bg_list", "bg_result", "bg_cancel"),
)
SCRIPT = script(
    # What jobs and tasks are asked.
    {"match": "^count the beans", "reply": "Seven beans."},
    {"match": "^hang", "hang": True},
    # How results come back.
    {"match": "has ended", "reply": "Told."},
    # A call as the message says, with its arguments as JSON.
    *(
        {"match": rf"^call {name} (?P<arguments>\{{.*\}})$", "steps": [call(name, "{arguments}"), say("Called.")]}
        for name in TOOLS
    ),
    {"reply": "Heard: {user}"},
)

AGENT = """---
name: {name}
description: Keeps times.
prefixes: ["cron_*", "bg_*"]
---
You are {name}.
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = Home(tmp_path_factory.mktemp("schedules")).furnish(script=SCRIPT, config=CONFIG, agents=())
    for name in ("ada", "bob"):
        path = home.write_agent(name)
        path.write_text(AGENT.format(name=name), encoding="utf-8")
    with daemon_thread(home) as live:
        yield live


async def use(daemon: LiveDaemon, sender: str, tool: str, agent: str = "ada", **arguments: Any) -> Any:
    """What a tool answers an agent: the result as data, an error as text."""
    async with daemon.client() as talk:
        speech = await talk.say(agent, f"call {tool} {json.dumps(arguments)}", sender)
    (result,) = speech.of("tool_result")
    return json.loads(result.output) if result.output.startswith("{") else result.output


async def read_history(daemon: LiveDaemon, sender: str, agent: str = "ada") -> list[pb.HistoryMessage]:
    async with daemon.client() as talk:
        return list((await talk.ask(get_history=pb.GetHistoryMsg(agent=agent, sender=sender))).history.messages)


async def test_a_job_fires_at_its_time_and_its_result_comes_to_the_conversation(
    daemon: LiveDaemon, sender: str
) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    added = await use(
        daemon, sender, "cron_add", name="beans", schedule_type="at", schedule=soon, prompt="count the beans"
    )
    assert (added["status"], added["name"]) == ("created", "beans")

    def find_answer() -> Any:
        told = daemon.cli_json("history", "ada", "--as", sender)["data"]["messages"]
        return told if told[-1]["content"] == "Told." else None

    told = await eventually(find_answer)
    report = told[-2]
    assert (report["role"], report["agent"]) == ("user", "ada")
    assert report["content"].startswith("Schedule 'beans': ada (arun-")
    assert "Seven beans." in report["content"]
    listed = await use(daemon, sender, "cron_list")
    (job,) = listed["jobs"]
    assert (listed["count"], job["status"], job["last_status"]) == (1, "done", "completed")
    (entry,) = (await use(daemon, sender, "cron_history", job_id="beans"))["entries"]
    assert (entry["status"], entry["result"], entry["job_name"]) == ("completed", "Seven beans.", "beans")
    # The conversation that asked is told once.
    assert len([each for each in told if "has ended" in each["content"]]) == 1
