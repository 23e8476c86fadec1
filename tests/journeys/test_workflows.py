"""Workflows of agents: what the tools `workflow_*` do, from the YAML to the report in the conversation that asked."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.talking import Talking
from tests.teaming import results
from tests.terminal import terminal

CONFIG = (
    PLAIN
    + """
[security.interceptor]
policy = "configured"
sensitive_tools = ["set_title"]
"""
)

OUTSIDE = '''
from moot.tools import tool


@tool(safety="safe", taint="web")
async def outside() -> str:
    """Read something from outside."""
    return "hello"
'''
SCRIPT = script(
    {"match": r"^call (?P<tool>\w+) (?P<args>.*)", "steps": [call("{tool}", "{args}"), say("Came of it: {result}")]},
    {"match": "^fail twice", "error": "it broke", "times": 2},
    {"match": "^fail twice", "reply": "third time lucky"},
    {"match": "^fail", "error": "it broke"},
    {"match": "^hang", "hang": True},
    {"match": "^approve", "steps": [call("set_title", title="Boats"), say("named")]},
    {"match": "^ask", "steps": [call("ask_user", questions=[{"question": "Which boat?"}]), say("{result}")]},
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


async def until(talk: Talking, sender: str, run_id: str, wanted: str, step_id: str = "") -> dict[str, Any]:
    """Wait until a workflow run, or a step of it, has a status; return the answer of workflow_status."""
    found: list[dict[str, Any]] = []

    async def has_it() -> bool:
        found[:] = [await status(talk, sender, run_id)]
        return (states(found[0])[step_id] if step_id else found[0]["status"]) == wanted

    await eventually(has_it)
    return found[0]


async def read_report(talk: Talking, sender: str, agent: str = "moot") -> str:
    """Wait for the report of a workflow, or of a step; return it."""
    found: list[str] = []

    async def is_there() -> bool:
        found[:] = [text for _, author, text in await talk.told(agent, sender) if author == "workflow"]
        return bool(found)

    await eventually(is_there)
    (report,) = found
    return report


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

        report = await read_report(talk, sender)
        assert report.startswith(f"Workflow demo ({run_id}) has ended: completed.")
        assert shown["join"] in report
        listed = await use(talk, sender, "workflow_list")
        assert listed["count"] == 1
        assert listed["runs"][0]["run_id"] == run_id
        other = await use(talk, f"{sender}-other", "workflow_list")
        assert other == {"runs": [], "count": 0}


async def test_a_step_waits_for_its_approval_and_goes_on_after_it(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        run_id = await start(talk, sender, flow(step("name", "approve this"), step("then", "go on", "name")))
        found = await until(talk, sender, run_id, "waiting for approval", "name")
        assert (found["status"], states(found)["then"]) == ("running", "pending")
        # It is asked in the conversation that started the workflow.
        (ask,) = [each for each in await talk.asks() if each.sender == sender]
        assert (ask.agent, ask.by.spawn_reason) == ("moot", "step name of workflow demo")
        await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision="once"))
        found = await until(talk, sender, run_id, "completed")
        assert found["step_statuses"][0]["result"] == "named"


def test_the_chat_that_started_a_workflow_asks_what_its_steps_ask(daemon: LiveDaemon, sender: str) -> None:
    source = flow(step("name", "approve this", agent="ada"), step("which", "ask which", "name"))
    with terminal(daemon.home, "chat", "moot", "--as", sender) as person:
        person.enter(f"call workflow_run {json.dumps({'yaml_content': source})}")
        person.wait_on_screen("allow set_title?")
        person.wait_on_screen("step name of workflow demo")
        person.enter("o")
        person.wait_on_screen("Which boat?")
        person.enter("the red one")
        person.wait_for("has ended: completed")
        person.type("\x04")
        assert person.wait_for_exit() == 0
    shown = daemon.cli_json("workflow", "show", "demo", "--as", sender)["data"]
    assert [each["result"] for each in shown["steps"]] == ["named", "the red one"]


async def test_what_a_teammate_of_a_step_asks_is_asked_there_too(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "lead.flow.yaml"
    home.write_script(
        script(
            lead("^let it be named", spawn("name it"), wait(), say("It said: {result}")),
            mate("^name", call("set_title", title="Boats"), say("named")),
            {"reply": "I was told."},
        )
    )
    home.write_config(CONFIG + "[agent]\nmultiAgent = true\n")
    with daemon_thread(home) as daemon:
        file.write_text(flow(step("lead", "let it be named")))
        assert daemon.cli("workflow", "run", str(file), "--report-to", "moot", "--bg").returncode == 0
        async with daemon.client() as talk:
            (ask,) = await eventually(talk.asks)
            assert (ask.agent, ask.sender, ask.by.agent) == ("moot", "user", "operator")
            await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=1, decision="once"))
            assert "It said:" in await read_report(talk, "user")


async def test_a_step_is_tried_again_and_a_failed_one_fails_the_workflow_without_its_dependents(
    daemon: LiveDaemon, sender: str
) -> None:
    async with daemon.client() as talk:
        again = flow(step("shaky", "fail twice", retry={"attempts": 3, "delay": "0.01s"}))
        found = await until(talk, sender, await start(talk, sender, again), "completed")
        (shaky,) = found["step_statuses"]
        assert (shaky["attempts"], shaky["result"]) == (3, "third time lucky")
        bad = flow(step("bad", "fail"), step("after", "never", "bad"), step("beside", "go"), name="bad")
        other = f"{sender}-2"
        run_id = await start(talk, other, bad)
        found = await until(talk, other, run_id, "failed")
        assert states(found) == {"bad": "failed", "after": "cancelled", "beside": "completed"}
        assert found["error"].startswith("step bad failed: model_error: ")
        report = await read_report(talk, other)
        assert f"Workflow bad ({run_id}) has ended: failed." in report
        assert "Not started: 1 of 3 steps." in report


async def test_steps_whose_condition_does_not_hold_are_skipped(daemon: LiveDaemon, sender: str) -> None:
    source = flow(
        step("a", "hello"),
        step("yes", "hello", "a", when='a.result contains "hello"'),
        step("no", "hello", "a", when='a.result contains "bye"'),
        step("join", "hello", "yes", "no", when="no.status == skipped"),
        step("after", "hello", "no"),
    )
    async with daemon.client() as talk:
        found = await until(talk, sender, await start(talk, sender, source), "completed")
    assert states(found) == {
        "a": "completed",
        "yes": "completed",
        "no": "skipped",
        "join": "completed",
        "after": "skipped",
    }


async def test_a_cancelled_workflow_stops_what_runs_and_starts_nothing_more(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        run_id = await start(talk, sender, flow(step("a", "hang"), step("b", "go", "a")))
        await until(talk, sender, run_id, "running", "a")
        nobody = await use(talk, f"{sender}-other", "workflow_cancel", run_id=run_id)
        assert "there is no workflow run" in nobody
        assert await use(talk, sender, "workflow_cancel", run_id=run_id) == {"status": "cancelled", "run_id": run_id}
        found = await until(talk, sender, run_id, "cancelled")
        assert states(found) == {"a": "cancelled", "b": "cancelled"}
        again = await use(talk, sender, "workflow_cancel", run_id=run_id)
        assert "not found or is not running" in again
        assert "has ended: cancelled." in await read_report(talk, sender)


async def test_a_step_that_takes_too_long_times_out(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        found = await until(talk, sender, await start(talk, sender, flow(step("a", "hang", timeout="0.1s"))), "failed")
    assert found["error"].startswith("step a failed: timeout: ")


async def test_results_are_delivered_as_the_file_says(daemon: LiveDaemon, sender: str) -> None:
    source = flow(step("a", "hello", deliver_to=["bob"]), deliver_to=["ada"])
    async with daemon.client() as talk:
        run_id = await start(talk, sender, source)
        assert "has ended: completed." in await read_report(talk, sender)
        assert f"Workflow demo ({run_id}) has ended: completed." in await read_report(talk, sender, "ada")
        of_step = await read_report(talk, sender, "bob")
        assert of_step == f"Step a of workflow demo ({run_id}) has ended: completed.\n\ndid: hello"


async def test_bad_input_is_refused_before_anything_is_stored(daemon: LiveDaemon, sender: str) -> None:
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("workflow_run", {}, "either file_path or yaml_content is required"),
        ("workflow_run", {"yaml_content": "x", "file_path": "y"}, "either file_path or yaml_content is required"),
        ("workflow_run", {"yaml_content": flow(step("a", "x", "b"))}, "depends on a step 'b' that does not exist"),
        ("workflow_run", {"yaml_content": flow(step("a", "x", agent="adda"))}, "Did you mean 'ada'?"),
        (
            "workflow_run",
            {"yaml_content": flow(step("a", "x"), step("b", "y", "a", when="{{a.result}} contains z"))},
            "no braces",
        ),
        ("workflow_run", {"file_path": "../x.flow.yaml"}, "outside"),
        ("workflow_status", {"run_id": 5}, "run_id must be a text"),
        ("workflow_list", {"limit": 0}, "limit must be at least 1"),
        ("workflow_run", {"yaml_content": flow(step("a", "{{a.result}}"))}, "of 'a' itself, which is not there yet"),
        ("workflow_status", {}, "missing run_id parameter"),
        ("workflow_status", {"run_id": "wf-none"}, "there is no workflow run 'wf-none'"),
        ("workflow_cancel", {"run_id": " "}, "missing run_id parameter"),
        ("workflow_save", {"name": "x"}, "missing yaml_content parameter"),
        ("workflow_save", {"yaml_content": "x"}, "missing name parameter"),
        ("workflow_save", {"name": "../x", "yaml_content": flow(step("a", "x"))}, "cannot be the name"),
        ("workflow_save", {"name": "x", "yaml_content": "steps: []"}, "the workflow has no name"),
    ]
    async with daemon.client() as talk:
        for tool, arguments, problem in refused:
            assert problem in str(await use(talk, sender, tool, **arguments)), (tool, arguments)
        assert await use(talk, sender, "workflow_list") == {"runs": [], "count": 0}


async def test_a_saved_workflow_and_a_file_can_be_run(daemon: LiveDaemon, sender: str, tmp_path: Path) -> None:
    (tmp_path / "mine.flow.yaml").write_text(flow(step("a", "from a file")))
    async with daemon.client() as talk:
        saved = await use(talk, sender, "workflow_save", name="daily", yaml_content=flow(step("a", "saved")))
        assert saved["status"] == "saved"
        # A name, not a path of the owner's files.
        assert saved["file_path"] == "daily"
        run = await use(talk, sender, "workflow_run", file_path=saved["file_path"])
        found = await until(talk, sender, run["run_id"], "completed")
        assert found["step_statuses"][0]["result"] == "did: saved"
        other = await use(talk, f"{sender}-other", "workflow_run", file_path=saved["file_path"])
        assert "run_id" not in str(other)
        told = await talk.say("moot", 'call workflow_run {"file_path": "mine.flow.yaml"}', sender, cwd=str(tmp_path))
        (run,) = results(told, "workflow_run")
        found = await until(talk, sender, run["run_id"], "completed")
        assert found["step_statuses"][0]["result"] == "did: from a file"


async def test_an_agent_is_told_when_a_workflow_that_it_saves_runs(daemon: LiveDaemon, sender: str) -> None:
    async with daemon.client() as talk:
        order = {"name": "daily", "yaml_content": flow(step("a", "saved"), schedule="every 6h")}
        assert "It runs next at 20" in (await use(talk, sender, "workflow_save", **order))["message"]
        assert (await use(talk, sender, "cron_pause", id="daily"))["status"] == "paused"
        again = await use(talk, sender, "workflow_save", **order)
        assert again["message"].endswith(" Its schedule is paused; cron_resume continues it.")


async def test_an_agent_has_no_other_work_and_sees_no_other_workflows(daemon: LiveDaemon, sender: str) -> None:
    """Otherwise it could have things done with tools that it does not have, and read what others were told."""
    async with daemon.client() as talk:

        async def ada(tool: str, **arguments: Any) -> Any:
            (result,) = results(await talk.say("ada", f"call {tool} {json.dumps(arguments)}", sender), tool)
            return result

        for source in (
            flow(step("a", "x", agent="bob")),
            flow(step("a", "x", agent="ada"), deliver_to=["bob"]),
        ):
            assert "ada cannot start work of" in await ada("workflow_run", yaml_content=source)
            assert "ada cannot start work of" in await ada("workflow_save", name="x", yaml_content=source)
        # It replaces only what it could have saved.
        mine = flow(step("a", "walk as ada", agent="ada"))
        await use(talk, sender, "workflow_save", name="ours", yaml_content=flow(step("a", "hello")))
        assert "is not only of ada. Choose another name." in await ada("workflow_save", name="ours", yaml_content=mine)
        assert "hello" in daemon.cli("workflow", "show", "ours", "--as", sender).stdout
        assert [(await ada("workflow_save", name="own", yaml_content=mine))["status"] for _ in "12"] == ["saved"] * 2
        theirs = await start(talk, sender, flow(step("a", "hello")))
        await until(talk, sender, theirs, "completed")
        assert "there is no workflow run" in await ada("workflow_status", run_id=theirs)
        assert "there is no workflow run" in await ada("workflow_cancel", run_id=theirs)
        own = (await ada("workflow_run", yaml_content=flow(step("a", "walk as ada", agent="ada"))))["run_id"]
        found = await until(talk, sender, own, "completed")
        assert found["step_statuses"][0]["result"] == "ada did walk"
        assert [each["run_id"] for each in (await ada("workflow_list"))["runs"]] == [own]


async def test_what_a_step_has_read_taints_those_that_are_given_its_result(home: Home) -> None:
    home.furnish(script=SCRIPT, config=CONFIG)
    (home.path / "tools").mkdir()
    (home.path / "tools" / "outside.py").write_text(OUTSIDE)
    source = flow(
        step("read", "call outside {}"),
        step("given", "say {{read.result}}", "read"),
        step("judged", "hello", "read", when='read.result contains "o"'),
        step("after", "hello", "read"),
        step("beside", "hello"),
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await until(talk, "user", await start(talk, "user", source), "completed")
            await read_report(talk, "user")
    query = "SELECT step, taint FROM runs JOIN workflow_attempts ON workflow_attempts.run_id = runs.id ORDER BY step"
    tainted = {name for name, taint in home.query(query) if "web" in taint}
    assert tainted == {"given", "judged"}
    assert "web" in home.query("SELECT taint FROM runs WHERE author = 'workflow'")[0][0]


async def test_deleting_the_conversation_that_started_a_workflow_keeps_its_results(
    daemon: LiveDaemon, sender: str
) -> None:
    async with daemon.client() as talk:
        run_id = await start(talk, sender, flow(step("a", "hello"), step("b", "approve {{a.result}}", "a")))
        await until(talk, sender, run_id, "waiting for approval", "b")
        daemon.cli("delete", "moot", "--as", sender, "--yes")
        shown = daemon.cli_json("workflow", "show", run_id)["data"]
        assert (shown["steps"][0]["state"], shown["steps"][0]["result"]) == ("completed", "did: hello")
        assert daemon.cli("workflow", "cancel", run_id).returncode == 0


async def test_a_step_cannot_start_a_workflow(daemon: LiveDaemon, sender: str) -> None:
    nested = f"call workflow_run {json.dumps({'yaml_content': flow(step('a', 'x'))})}"
    async with daemon.client() as talk:
        found = await until(talk, sender, await start(talk, sender, flow(step("a", nested))), "failed")
    error = found["step_statuses"][0]["error"]
    assert error.startswith("tool_error: Failed: workflow_run.")
    assert "a step of a workflow cannot start a workflow" in error
