"""What an assistant sends is the result of its run, wherever a result is read: by tools, commands and later steps."""

import json
from typing import Any

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG, Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.talking import Talking
from tests.teaming import results

SENT = "The boats are in.\n\nAll of them."
MESSAGES = [call("send_user_message", message=text, status="normal") for text in SENT.split("\n\n")]
FLOW = {
    "name": "boats",
    "steps": [
        {"id": "look", "agent": "ada", "prompt": "look out"},
        {"id": "pass", "prompt": "given {{look.result}}", "depends_on": ["look"]},
    ],
}
JOB = {"name": "look", "schedule_type": "every", "schedule": "1h", "prompt": "look out", "agent": "ada"}


async def use(talk: Talking, tool: str, **arguments: Any) -> Any:
    (result,) = results(await talk.say("moot", f"call {tool} {json.dumps(arguments)}", "user"), tool)
    return result


async def wait_for(talk: Talking, run_id: str) -> str:
    asked = pb.WaitRunsMsg(run_ids=[run_id], seconds=30)
    (info,) = (await talk.ask(wait_runs=asked)).run_list.runs
    return str(info.result)


async def check_results(daemon: LiveDaemon, talk: Talking, task: str, flow: str) -> None:
    """Check that all that shows the result of a run shows what was sent."""
    assert (await use(talk, "bg_result", task_id=task))["result"] == SENT
    assert [each["result"] for each in (await use(talk, "bg_list"))["tasks"]] == [SENT]
    assert [each["result"] for each in (await use(talk, "cron_history"))["entries"]] == [SENT]
    assert [each["result"] for each in daemon.cli_json("cron", "history")["data"]] == [SENT]
    steps = (await use(talk, "workflow_status", run_id=flow))["step_statuses"]
    assert [each["result"] for each in steps] == [SENT, f"Heard: given {SENT}"]
    shown = {each["run_id"]: each["result"] for each in daemon.cli_json("ps", "-a")["data"] if each["agent"] == "ada"}
    assert set(shown.values()) == {SENT}
    assert len(shown) == 3


async def test_the_messages_of_an_assistant_are_the_result_of_its_run_everywhere(home: Home) -> None:
    home.furnish(
        config=CONFIG,
        script=script(
            {"match": r"^call (?P<tool>\w+) (?P<args>.*)", "steps": [call("{tool}", "{args}"), say("Done.")]},
            {"match": "^look out", "steps": [*MESSAGES, say("secret end")]},
            {"match": "has ended", "reply": "Told."},
            {"reply": "Heard: {user}"},
        ),
    )
    home.write_agent("ada", role="assistant")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            task = (await use(talk, "bg_submit", prompt="look out", agent="ada"))["task_id"]
            await use(talk, "cron_add", **JOB)
            fired = daemon.cli_json("cron", "run", "look")["data"]["run_id"]
            flow = (await use(talk, "workflow_run", yaml_content=json.dumps(FLOW)))["run_id"]
            assert [await wait_for(talk, run_id) for run_id in (task, fired)] == [SENT, SENT]

            async def has_ended() -> bool:
                return (await use(talk, "workflow_status", run_id=flow))["status"] == "completed"

            await eventually(has_ended)
            await check_results(daemon, talk, task, flow)
    # What was in memory is read from the store.
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await check_results(daemon, talk, task, flow)
    assert home.failures() == []


async def test_who_waits_for_a_task_of_an_assistant_gets_its_messages(home: Home) -> None:
    home.furnish(
        config=CONFIG + "[agent]\nmultiAgent = true\n",
        script=script(
            lead("^let ada look", spawn("submit it", "automator"), wait(), say("Heard.")),
            lead(r"^wait for (?P<task>\S+)", wait("{task}"), say("Waited.")),
            mate("^submit it", call("bg_submit", prompt="look out", agent="ada"), say("Submitted.")),
            {"match": "^look out", "steps": [*MESSAGES, say("secret end")]},
            {"match": "has ended", "reply": "Told."},
        ),
    )
    home.write_agent("ada", role="assistant")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("moot", "let ada look", "user")
            (task,) = [each["run_id"] for each in daemon.cli_json("bg")["data"]]
            (waited,) = results(await talk.say("moot", f"wait for {task}", "user"), "agent_wait")
    assert waited["result"] == SENT
