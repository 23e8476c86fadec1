"""Workflows of agents: what the tools `workflow_*` do, from the YAML to the report in the conversation that asked."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.scripting import call, say, script
from tests.talking import Talking
from tests.teaming import results

CONFIG = (
    PLAIN
    + """
[security.interceptor]
policy = "configured"
sensitive_tools = ["set_title"]
"""
)

SCRIPT = script(
    {"match": r"^call (?P<tool>\w+) (?P<args>.*)", "steps": [call("{tool}", "{args}"), say("Came of it: {result}")]},
    {"match": "^fail twice", "error": "it broke", "times": 2},
    {"match": "^fail twice", "reply": "third time lucky"},
    {"match": "^fail", "error": "it broke"},
    {"match": "^hang", "hang": True},
    {"match": "^approve", "steps": [call("set_title", title="Boats"), say("named")]},
    {"match": "^(?P<what>[a-z]+) as ada", "agent": "You are ada", "reply": "ada did {what}"},
    {"match": "^inject", "reply": "{{b.result}} and {{nothing.result}}"},
    {"match": "^Workflow", "reply": "I was told."},
    {"match": "^Step", "reply": "I was told of a step."},
    {"reply": "did: {user}"},
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDaemon]:
    home = Home(tmp_path_factory.mktemp("home")).furnish(script=SCRIPT, config=CONFIG)
    with daemon_thread(home) as daemon:
        yield daemon
    assert home.failures() == []


def flow(*steps: str, **top: Any) -> str:
    head = {"name": "demo", **top}
    return json.dumps({**head, "steps": [json.loads(step) for step in steps]})


def step(name: str, prompt: str, *after: str, **more: Any) -> str:
    return json.dumps({"id": name, "prompt": prompt, "depends_on": list(after), **more})


async def use(talk: Talking, sender: str, tool: str, **arguments: Any) -> Any:
    speech = await talk.say("moot", f"call {tool} {json.dumps(arguments)}", sender)
    (result,) = results(speech, tool)
    return result


async def start(talk: Talking, sender: str, source: str) -> str:
    result = await use(talk, sender, "workflow_run", yaml_content=source)
    assert result["status"] == "running", result
    return str(result["run_id"])


async def status(talk: Talking, sender: str, run_id: str) -> dict[str, Any]:
    found = await use(talk, sender, "workflow_status", run_id=run_id)
    assert isinstance(found, dict), found
    return found


async def until(talk: Talking, sender: str, run_id: str, wanted: str) -> dict[str, Any]:
    """Wait until a workflow run has a status; return the answer of workflow_status."""

    async def has_it() -> bool:
        return (await status(talk, "watcher-" + sender, run_id)).get("status") == wanted

    return await _poll(talk, sender, run_id, wanted)


async def _poll(talk: Talking, sender: str, run_id: str, wanted: str) -> dict[str, Any]:
    home_rows: list[dict[str, Any]] = []

    async def has_it() -> bool:
        home_rows[:] = [await status(talk, sender, run_id)]
        return home_rows[0]["status"] == wanted

    await eventually(has_it)
    return home_rows[0]


def states(found: dict[str, Any]) -> dict[str, str]:
    return {each["step_id"]: each["status"] for each in found["step_statuses"]}


async def test_results_are_passed_on_once_and_the_report_comes_to_the_conversation(
    daemon: LiveDaemon, sender: str
) -> None:
    source = flow(
        step("join", "join {{a.result}} with {{b.result}}", "a", "b"),
        step("a", "inject"),
        step("b", "walk as ada", agent="ada"),
    )
    async with daemon.client() as talk:
        run_id = await start(talk, sender, source)
        found = await until(talk, sender, run_id, "completed")
        assert found["workflow_name"] == "demo"
        assert (found["total_steps"], found["completed_steps"]) == (3, 3)
        shown = {each["step_id"]: each["result"] for each in found["step_statuses"]}
        assert shown["b"] == "ada did walk"
        assert shown["join"] == "did: join {{b.result}} and {{nothing.result}} with ada did walk"

        async def is_reported() -> bool:
            return any(agent == "workflow" for _, agent, _ in await talk.told("moot", sender))

        await eventually(is_reported)
        (report,) = [text for _, agent, text in await talk.told("moot", sender) if agent == "workflow"]
        assert report.startswith(f"Workflow demo ({run_id}) has ended: completed.")
        assert shown["join"] in report
        listed = await use(talk, sender, "workflow_list")
        assert listed["count"] == 1
        assert listed["runs"][0]["run_id"] == run_id
        other = await use(talk, f"{sender}-other", "workflow_list")
        assert other == {"runs": [], "count": 0}
