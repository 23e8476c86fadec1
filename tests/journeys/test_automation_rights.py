"""Work that agents start has no more rights than they have: agents, modes, tools and taint of jobs and workflows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as BASE
from tests.daemon_process import Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.scripting import call, say, script
from tests.talking import Talking

CONFIG = BASE + '[security.interceptor]\nmode = "work"\n[project]\ninstructions = false\n'
WRITE = call("fs_write", path="made.txt", content="x")
SCRIPT = script(
    {"match": "^write", "steps": [WRITE, say("written")]},
    {"match": "^read outside", "steps": [call("outside"), say("yes")]},
    {"match": "has ended", "reply": "Told."},
    {"match": r"^call (?P<tool>\w+) (?P<arguments>\{.*)", "steps": [call("{tool}", "{arguments}"), say("{result}")]},
    {"reply": "Heard: {user}"},
)
# An agent that can start work, and nothing else.
STARTER = """---
name: starter
description: Starts things.
prefixes: ["cron_*", "bg_*", "workflow_*"]
---
You are starter.
"""
OUTSIDE = '''
from moot.tools import tool


@tool(safety="safe", taint="web")
async def outside() -> str:
    """Read something from outside."""
    return "yes"
'''
JOB = {"name": "beans", "schedule_type": "every", "schedule": "1h", "prompt": "write"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDaemon]:
    home = Home(tmp_path_factory.mktemp("rights")).furnish(script=SCRIPT, config=CONFIG, agents=("ada",))
    home.write_agent("starter").write_text(STARTER, encoding="utf-8")
    plugins = home.path / "tools"
    plugins.mkdir()
    (plugins / "outside.py").write_text(OUTSIDE, encoding="utf-8")
    with daemon_thread(home) as live:
        yield live


async def use(talk: Talking, by: str, sender: str, tool: str, cwd: Path | None = None, **arguments: Any) -> Any:
    """Return what a tool answers an agent: the result as data, an error as text."""
    message = f"call {tool} {json.dumps(arguments)}"
    speech = await talk.say(by, message, sender, **({"cwd": str(cwd)} if cwd else {}))
    (result,) = speech.of("tool_result")
    return json.loads(result.output) if result.output.startswith("{") else result.output


def flow(*steps: dict[str, Any], **top: Any) -> str:
    return json.dumps({"name": "demo", "steps": list(steps), **top})


async def run_flow(talk: Talking, agent: str, sender: str, source: str, cwd: Path | None = None) -> dict[str, Any]:
    """Run a workflow; return its state once it has ended or a step waits for a person."""
    run_id = (await use(talk, agent, sender, "workflow_run", cwd, yaml_content=source))["run_id"]
    found: list[Any] = []

    async def is_settled() -> bool:
        found[:] = [await use(talk, agent, f"{sender}", "workflow_status", run_id=run_id)]
        waits = any(each["status"] == "waiting for approval" for each in found[0]["step_statuses"])
        return found[0]["status"] != "running" or waits

    await eventually(is_settled)
    return dict(found[0])


async def set_mode(talk: Talking, agent: str, sender: str, mode: str) -> None:
    await talk.ask(mode=pb.ModeMsg(agent=agent, sender=sender, mode=mode))


@pytest.mark.parametrize(
    "source",
    [
        flow({"id": "a", "prompt": "write", "agent": "ada"}),
        # Without an agent it is the root agent, which has every tool.
        flow({"id": "a", "prompt": "write"}),
        flow({"id": "a", "prompt": "hi", "agent": "starter", "deliver_to": ["ada"]}),
        flow({"id": "a", "prompt": "hi", "agent": "starter"}, deliver_to=["ada"]),
    ],
)
async def test_an_agent_that_directs_nobody_has_no_other_agent_work_or_told(
    daemon: LiveDaemon, sender: str, source: str
) -> None:
    async with daemon.client() as talk:
        assert "starter cannot start work of" in await use(talk, "starter", sender, "workflow_run", yaml_content=source)
        saved = await use(talk, "starter", sender, "workflow_save", name="demo", yaml_content=source)
        assert "starter cannot start work of" in saved
        own = flow({"id": "a", "prompt": "hi", "agent": "starter"})
        assert (await run_flow(talk, "starter", sender, own))["status"] == "completed"


async def test_a_task_of_another_agent_does_not_leave_the_mode_of_the_conversation(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    async with daemon.client() as talk:
        await set_mode(talk, "moot", sender, "plan")
        for tool, arguments in (
            ("bg_submit", {"prompt": "write", "agent": "ada", "channel": "none"}),
            ("cron_add", {**JOB, "agent": "ada", "deliver_to": ["none"]}),
        ):
            assert "status" not in await use(talk, "moot", sender, tool, tmp_path, **arguments)
        # One whose result is told works in the mode of the conversation.
        task = (await use(talk, "moot", sender, "bg_submit", tmp_path, prompt="write", agent="ada"))["task_id"]
        await talk.ask(wait_runs=pb.WaitRunsMsg(run_ids=[task], seconds=30))
        await set_mode(talk, "moot", sender, "work")
        refused = await use(talk, "moot", sender, "cron_add", tmp_path, **JOB, agent="ada", deliver_to=["none"])
        assert "must be reported" in refused
    assert not (tmp_path / "made.txt").exists()


async def test_a_step_is_never_in_a_wider_mode_than_the_conversation_that_started_it(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    source = flow({"id": "a", "prompt": "write", "agent": "ada"})
    async with daemon.client() as talk:
        await set_mode(talk, "ada", sender, "free")
        await set_mode(talk, "moot", sender, "ask")
        found = await run_flow(talk, "moot", sender, source, tmp_path)
        assert found["step_statuses"][0]["status"] == "waiting for approval"
        assert not (tmp_path / "made.txt").exists()
        await use(talk, "moot", sender, "workflow_cancel", run_id=found["run_id"])
        # The other way round, the mode of the agent that works is the stricter one.
        await set_mode(talk, "ada", sender, "ask")
        await set_mode(talk, "moot", sender, "free")
        found = await run_flow(talk, "moot", sender, source, tmp_path)
        assert found["step_statuses"][0]["status"] == "waiting for approval"
        await use(talk, "moot", sender, "workflow_cancel", run_id=found["run_id"])


async def test_a_run_with_some_of_its_tools_gets_the_others_by_no_detour(daemon: LiveDaemon, sender: str) -> None:
    calls = {
        "bg_submit": {"prompt": "write"},
        "cron_add": JOB,
        "workflow_run": {"yaml_content": flow({"id": "a", "prompt": "write", "agent": "ada"})},
    }
    async with daemon.client() as talk:
        for tool, arguments in calls.items():
            asked = pb.StartRunMsg(
                agent="ada", content=f"call {tool} {json.dumps(arguments)}", sender=sender, tools=list(calls)
            )
            run = (await talk.ask(start_run=asked)).run
            await talk.ask(wait_runs=pb.WaitRunsMsg(run_ids=[run.run_id], seconds=30))
            ended = daemon.cli_json("show", run.run_id)["data"]
            assert "a run that has only some of its tools cannot start others" in ended["result"]


async def test_that_a_step_was_skipped_or_waits_carries_the_taint_of_what_decided_it(
    daemon: LiveDaemon, sender: str
) -> None:
    source = flow(
        {"id": "ask", "prompt": "read outside"},
        {"id": "no", "prompt": "hi", "depends_on": ["ask"], "when": 'ask.result == "no"'},
        {"id": "then", "prompt": "hi", "depends_on": ["no"], "when": "no.status == skipped"},
    )
    async with daemon.client() as talk:
        run_id = (await use(talk, "moot", sender, "workflow_run", yaml_content=source))["run_id"]

        async def is_tainted() -> bool:
            return [each.taint for each in await talk.conversations(sender=f"workflow:{run_id}.then:{sender}")] == [
                "web"
            ]

        await eventually(is_tainted)
