"""Scheduled jobs and background tasks, as an agent makes them: they run once, and their results come back."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from moot.daemon.clock import ManualClock, SystemClock
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Unavailable
from moot.domain.message import assistant
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.store.sqlite import open_store
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as BASE
from tests.daemon_process import Home, LiveDaemon, call_cli, eventually, running
from tests.daemon_thread import DaemonThread, daemon_thread
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
TAINTED = {"name": "beans", "schedule_type": "every", "schedule": "1h", "prompt": "count the beans"}
OUTSIDE = '''
from moot.tools import tool


@tool(safety="safe", taint="web")
async def outside() -> str:
    """Read something from outside."""
    return "hello"
'''


WORKFLOW = "name: counted\nsteps:\n  - id: one\n    agent: ada\n    prompt: count the beans\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = Home(tmp_path_factory.mktemp("schedules")).furnish(script=SCRIPT, config=CONFIG, agents=())
    for name in ("ada", "bob"):
        path = home.write_agent(name)
        path.write_text(AGENT.format(name=name), encoding="utf-8")
    boss = AGENT.format(name="boss").replace("prefixes:", "role: coordinator\nprefixes:")
    home.write_agent("boss").write_text(boss, encoding="utf-8")
    with daemon_thread(home) as live:
        yield live


async def use(daemon: LiveDaemon, sender: str, tool: str, by: str = "ada", **arguments: Any) -> Any:
    """What a tool answers an agent: the result as data, an error as text."""
    async with daemon.client() as talk:
        speech = await talk.say(by, f"call {tool} {json.dumps(arguments)}", sender)
    (result,) = speech.of("tool_result")
    return json.loads(result.output) if result.output.startswith("{") else result.output


async def read_history(daemon: LiveDaemon, sender: str, agent: str = "ada") -> list[pb.HistoryMessage]:
    async with daemon.client() as talk:
        return list((await talk.ask(get_history=pb.GetHistoryMsg(agent=agent, sender=sender))).history.messages)


async def wait_for_report(daemon: LiveDaemon, sender: str, agent: str = "ada") -> list[dict[str, Any]]:
    """The history, once the agent has been told a result."""

    def find_answer() -> Any:
        told = daemon.cli_json("history", agent, "--as", sender).get("data", {}).get("messages")
        return told if told and told[-1]["content"] == "Told." else None

    found: list[dict[str, Any]] = await eventually(find_answer)
    return found


async def test_a_job_fires_at_its_time_and_its_result_comes_to_the_conversation(
    daemon: LiveDaemon, sender: str
) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    added = await use(
        daemon, sender, "cron_add", name="beans", schedule_type="at", schedule=soon, prompt="count the beans"
    )
    assert (added["status"], added["name"]) == ("created", "beans")

    told = await wait_for_report(daemon, sender)
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


async def test_a_job_is_listed_replaced_paused_resumed_and_removed(daemon: LiveDaemon, sender: str) -> None:
    job = {"name": "beans", "schedule_type": "every", "schedule": "1h30m", "prompt": "count the beans"}
    added = await use(daemon, sender, "cron_add", **job, timezone="Europe/Berlin", timeout="10m", missed="skip")
    again = await use(daemon, sender, "cron_add", **job | {"schedule_type": "cron", "schedule": "0 8 * * *"})
    assert (again["status"], again["id"]) == ("updated", added["id"])
    (listed,) = (await use(daemon, sender, "cron_list"))["jobs"]
    assert (listed["schedule"], listed["agent"], listed["enabled"]) == ("0 8 * * *", "ada", True)
    paused = await use(daemon, sender, "cron_pause", id="beans")
    assert (paused["status"], paused["id"]) == ("paused", added["id"])
    assert (await use(daemon, sender, "cron_list"))["jobs"][0]["status"] == "paused"
    assert (await use(daemon, sender, "cron_resume", id=added["id"]))["status"] == "resumed"
    # Neither another agent nor another sender knows of it.
    assert (await use(daemon, sender, "cron_list", by="bob"))["count"] == 0
    assert "there is no job" in await use(daemon, f"{sender}2", "cron_remove", id=added["id"])
    assert "there is no job 'bean'" in await use(daemon, sender, "cron_pause", id="bean")
    assert "cannot start work of bob" in await use(daemon, sender, "cron_add", **job, agent="bob")
    assert (await use(daemon, sender, "cron_remove", id="beans"))["status"] == "removed"
    assert (await use(daemon, sender, "cron_list"))["count"] == 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"prompt": None}, "missing prompt parameter"),
        ({"name": ""}, "missing name parameter"),
        ({"schedule": "2020-01-01T00:00:00Z", "schedule_type": "at"}, "is in the past"),
        ({"schedule": "* * */20 * 1L"}, "never fires"),
        ({"timezone": "Europe/Berln"}, "Did you mean 'Europe/Berlin'"),
        ({"deliver_to": ["telegram:7"]}, "telegram"),
        ({"timeout": "0s"}, "is out of range"),
    ],
)
async def test_a_job_that_cannot_be_is_refused_and_nothing_is_stored(
    daemon: LiveDaemon, sender: str, change: dict[str, Any], problem: str
) -> None:
    job = {"name": "beans", "schedule_type": "cron", "schedule": "0 8 * * *", "prompt": "count the beans", **change}
    given = {name: value for name, value in job.items() if value is not None}
    assert problem in await use(daemon, sender, "cron_add", **given)
    assert daemon.cli_json("cron", "--as", sender)["data"] == []


async def test_a_task_is_listed_also_when_many_other_runs_have_ended_since(tmp_path: Path) -> None:
    home = Home(tmp_path).furnish(script=SCRIPT, config=CONFIG, agents=())
    home.write_agent("ada").write_text(AGENT.format(name="ada"), encoding="utf-8")
    with daemon_thread(home) as daemon:
        task = (await use(daemon, "user", "bg_submit", prompt="count the beans", channel="none"))["task_id"]
        assert daemon.cli("wait", task).stdout == "Seven beans.\n"
    store = await open_store(home.store, SystemClock())

    async def turn(number: int) -> None:
        key, run_id = ConversationKey("ada", f"user{number % 7}"), f"run-{number}"
        await store.begin(RunRequest(id=run_id, key=key, speaker="ada", content="hello"), now=time.time())
        await store.end(key, run_id, RunEnd(outcome=Outcome.COMPLETED), [assistant("hello")], now=time.time())

    await asyncio.gather(*map(turn, range(510)))
    await store.close()
    with daemon_thread(home) as daemon:
        assert [each["run_id"] for each in daemon.cli_json("bg")["data"]] == [task]
        listed = await use(daemon, "user", "bg_list")
        assert [each["id"] for each in listed["tasks"]] == [task]


async def test_a_background_task_is_followed_and_its_result_comes_back_once(daemon: LiveDaemon, sender: str) -> None:
    submitted = await use(daemon, sender, "bg_submit", prompt="count the beans")
    assert submitted["status"] == "submitted"

    told = await wait_for_report(daemon, sender)
    assert "Background task: ada (arun-" in told[-2]["content"]
    task = submitted["task_id"]
    assert await use(daemon, sender, "bg_result", task_id=task) == {"task_id": task, "result": "Seven beans."}
    state = await use(daemon, sender, "bg_status", task_id=task)
    assert (state["status_text"], state["result"], state["id"]) == ("done", "Seven beans.", task)
    # It is a run like those of `moot run --bg`.
    assert [run["run_id"] for run in daemon.cli_json("bg")["data"] if run["run_id"] == task] == [task]
    assert [run["run_id"] for run in daemon.cli_json("bg", "--as", sender)["data"]] == [task]
    assert daemon.cli_json("bg", "list", "--as", f"{sender}2")["data"] == []
    assert daemon.cli("bg", "result", task).stdout == "Seven beans.\n"
    assert "there is no background task" in await use(daemon, sender, "bg_status", by="bob", task_id=task)
    assert "there is no background task" in await use(daemon, f"{sender}2", "bg_result", task_id=task)
    hanging = (await use(daemon, sender, "bg_submit", prompt="hang on", channel="none"))["task_id"]
    assert "is running, not done" in (await use(daemon, sender, "bg_result", task_id=hanging)).replace(
        "pending", "running"
    )
    assert daemon.cli("bg", "result", hanging).returncode == 1
    assert [each["id"] for each in (await use(daemon, sender, "bg_list"))["tasks"]] == [hanging, task]
    assert (await use(daemon, sender, "bg_cancel", task_id=hanging)) == {"status": "cancelled", "task_id": hanging}
    listed = (await use(daemon, sender, "bg_list"))["tasks"]
    assert [(each["id"], each["status_text"]) for each in listed] == [(hanging, "cancelled"), (task, "done")]
    # Nobody is told of one that was to be fetched.
    assert [each for each in await read_history(daemon, sender) if f"({hanging})" in each.content] == []


def test_a_person_schedules_runs_and_removes_jobs(daemon: LiveDaemon, sender: str) -> None:
    mine = ("--agent", "ada", "--as", sender)
    assert "Added beans: next " in daemon.cli("cron", "add", "beans", "count the beans", "--every", "1h", *mine).stdout
    replaced = daemon.cli("cron", "add", "beans", "count the beans", "--cron", "@daily", "--tz", "Asia/Tokyo", *mine)
    assert (replaced.returncode, "Replaced beans" in replaced.stdout) == (0, True)
    (job,) = daemon.cli_json("cron", "list", "--as", sender)["data"]
    assert (job["schedule"], job["timezone"], job["status"]) == ("@daily", "Asia/Tokyo", "active")
    run_id = daemon.cli_json("cron", "run", "beans", "--as", sender)["data"]["run_id"]
    assert daemon.cli("wait", run_id).stdout.strip() == "Seven beans."
    (entry,) = daemon.cli_json("cron", "history", "beans", "--as", sender)["data"]
    assert (entry["run_id"], entry["status"], entry["manual"]) == (run_id, "completed", True)
    shown = daemon.cli("cron", "show", "beans", "--as", sender).stdout
    assert "@daily (Asia/Tokyo)" in shown
    assert "Seven beans." in shown
    assert daemon.cli("cron", "pause", "beans", "--as", sender).stdout == "Paused beans.\n"
    assert "Resumed beans: next" in daemon.cli("cron", "resume", job["id"][:-4], "--as", sender).stdout
    assert daemon.cli("cron", "show", "beens", "--as", sender).returncode == 6
    assert daemon.cli("cron", "add", "two", "x", "--every", "1h", "--at", "2027-01-01T00:00:00Z", *mine).returncode == 2
    # It goes with the conversation that it belongs to.
    assert "1 scheduled job" in daemon.cli("delete", "ada", "--as", sender, "--yes").stdout
    assert daemon.cli_json("cron", "--as", sender)["data"] == []


async def test_a_job_in_main_mode_keeps_its_conversation_and_one_without_delivery_reports_nothing(
    daemon: LiveDaemon, sender: str
) -> None:
    options = ("--agent", "ada", "--as", sender, "--session", "main", "--deliver", "none", "--every", "1h")
    assert daemon.cli("cron", "add", "beans", "count the beans", *options).returncode == 0
    runs = []
    for _ in range(2):
        runs.append(daemon.cli_json("cron", "run", "beans", "--as", sender)["data"]["run_id"])
        assert daemon.cli("wait", runs[-1]).returncode == 0
    keys = {daemon.cli_json("show", run_id)["data"]["sender"] for run_id in runs}
    (conversation,) = keys
    assert conversation.startswith("cron:cron-")
    assert len(await read_history(daemon, conversation)) == 4
    assert daemon.cli("history", "ada", "--as", sender).returncode == 6


async def test_a_run_that_waits_for_an_approval_shows_so_and_is_not_joined_by_another(home: Home) -> None:
    home.write_config(BASE + '[security.interceptor]\nsensitive_tools = ["set_title"]\n')
    home.write_script(
        script(
            {"match": "^name", "steps": [call("set_title", title="Beans"), say("Named.")]},
            {"match": "has ended", "reply": "Told."},
        )
    )
    home.write_agent("ada")
    with daemon_thread(home) as daemon:
        assert daemon.cli("cron", "add", "titles", "name it", "--agent", "ada", "--every", "1h").returncode == 0
        assert daemon.cli("cron", "run", "titles").returncode == 0

        def find_waiting() -> Any:
            (job,) = daemon.cli_json("cron")["data"]
            return job["last"] if job["last"]["status"] == "waiting" else None

        waiting = await eventually(find_waiting)
        assert "set_title" in waiting["waiting_for"]
        assert "has not ended" in daemon.cli("cron", "run", "titles").stderr
        # A firing of the schedule is recorded, and has no run. Reloading has it look at the clock again.
        home.change("UPDATE cron_jobs SET next_at = next_at - 4000")
        assert daemon.cli("reload").returncode == 0

        def find_skipped() -> Any:
            newest = daemon.cli_json("cron", "history")["data"]
            return newest if len(newest) == 2 else None

        statuses = {each["status"] for each in await eventually(find_skipped)}
        assert statuses == {"skipped", "waiting"}
        # The question is shown where the job belongs.
        (ask,) = daemon.cli_json("inbox")["data"]
        assert (ask["agent"], ask["sender"]) == ("ada", "user")
        assert daemon.cli("inbox", "approve", ask["ask_id"], "--attempt", "1").returncode == 0
        assert daemon.cli("wait", waiting["run_id"]).stdout.strip() == "Named."


async def test_a_scheduled_workflow_with_a_step_that_waits_for_an_approval_shows_so(home: Home, tmp_path: Path) -> None:
    home.write_config(BASE + '[security.interceptor]\nsensitive_tools = ["set_title"]\n')
    home.write_script(
        script(
            {"match": "^name", "steps": [call("set_title", title="Beans"), say("Named.")]},
            {"match": "has ended", "reply": "Told."},
            {"match": "^list", "steps": [call("cron_list"), say("{result}")]},
        )
    )
    home.write_agent("ada")
    (tmp_path / "titles.flow.yaml").write_text("name: titles\nsteps: [{id: one, agent: ada, prompt: name it}]\n")
    with daemon_thread(home) as daemon:
        scheduled = daemon.cli("workflow", "schedule", str(tmp_path / "titles.flow.yaml"), "--every", "1h")
        assert scheduled.returncode == 0, scheduled.stderr
        assert daemon.cli("cron", "run", "titles").returncode == 0

        def find_status(status: str) -> Any:
            (job,) = daemon.cli_json("cron")["data"]
            return job["last"] if job["last"]["status"] == status else None

        waiting = await eventually(lambda: find_status("waiting"))
        assert "set_title" in waiting["waiting_for"]
        assert '"last_status":"waiting"' in daemon.cli("ask", "moot", "list").stdout
        (ask,) = daemon.cli_json("inbox")["data"]
        assert daemon.cli("inbox", "approve", ask["ask_id"], "--attempt", "1").returncode == 0
        assert (await eventually(lambda: find_status("completed")))["result"] == "Named."


async def test_schedules_can_be_turned_off(home: Home) -> None:
    home.write_config(CONFIG + "[cron]\nenabled = false\n[background]\nenabled = false\n")
    home.write_script(SCRIPT)
    home.write_agent("ada").write_text(AGENT.format(name="ada"), encoding="utf-8")
    with daemon_thread(home) as daemon:
        off = daemon.cli("cron", "add", "beans", "count the beans", "--agent", "ada", "--every", "1h")
        assert "schedules are turned off" in off.stderr
        async with daemon.client() as talk:
            speech = await talk.say("ada", "call cron_list {}", "user")
        (result,) = speech.of("tool_result")
        assert "There is no tool 'cron_list' here" in result.output
        assert "bg_submit" not in result.output
        home.write_config(CONFIG)
        assert daemon.cli("reload").returncode == 0
        assert daemon.cli("cron", "add", "beans", "count the beans", "--agent", "ada", "--every", "1h").returncode == 0
        assert (await use(daemon, "user", "cron_list"))["count"] == 1


async def test_what_a_tainted_run_schedules_is_tainted(home: Home) -> None:
    home.write_config(CONFIG)
    home.write_script(
        script({"match": "^read", "steps": [call("outside"), call("cron_add", json.dumps(TAINTED)), say("Scheduled.")]})
    )
    path = home.write_agent("ada")
    path.write_text(AGENT.format(name="ada").replace('"bg_*"', '"outside"'), encoding="utf-8")
    (home.path / "tools").mkdir(exist_ok=True)
    (home.path / "tools" / "outside.py").write_text(OUTSIDE, encoding="utf-8")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("ada", "read it", "user")).outcome == "completed"
        (job,) = daemon.cli_json("cron")["data"]
        assert "web" in job["taint"]
        run_id = daemon.cli_json("cron", "run", "beans")["data"]["run_id"]
        assert daemon.cli("wait", run_id).returncode == 0
        ((taint,),) = home.query("SELECT taint FROM runs WHERE id = ?", run_id)
        assert "web" in taint


async def test_a_workflow_that_is_due_while_the_daemon_stops_runs_at_the_next_start(home: Home) -> None:
    home.furnish(script=SCRIPT, config=CONFIG, agents=("ada",))
    clock = ManualClock()
    due = datetime.fromtimestamp(clock.now() + 2, UTC).isoformat()
    flow = json.dumps({"name": "beans", "steps": [{"id": "a", "agent": "ada", "prompt": "count the beans"}]})
    job = pb.SaveCronJobMsg(agent="ada", name="j", schedule_type="at", schedule=due, workflow=flow)
    daemon = DaemonThread.start(home, clock)
    async with daemon.client() as talk:
        await talk.ask(save_cron_job=job)
        # A run in flight keeps the daemon from stopping at once.
        held = talk.start("ada", "hang")
        await daemon.wait_for_event(held, "start")
        daemon.terminate()

        async def is_stopping() -> bool:
            try:
                await talk.say("ada", "hello", "other")
            except Unavailable:
                return True
            return False

        await eventually(is_stopping)
        await asyncio.to_thread(daemon.advance, 3)
    daemon.stop()
    with daemon_thread(home, ManualClock(clock.now())) as back:
        async with back.client() as talk:

            async def find_firing() -> Any:
                return (await talk.ask(list_firings=pb.ListFiringsMsg(job="j"))).firings.firings

            (firing,) = await eventually(find_firing)
            assert (firing.skipped, bool(firing.run_id)) == ("", True)


async def test_a_job_continues_after_the_clock_is_set_back_and_no_instant_fires_twice(home: Home) -> None:
    home.furnish(script=SCRIPT, config=CONFIG, agents=("ada",))
    every_minute = {"schedule_type": "cron", "schedule": "* * * * *", "timezone": "UTC", "prompt": "count the beans"}
    job = pb.SaveCronJobMsg(agent="ada", name="beans", **every_minute)

    async def list_due_times(daemon: DaemonThread) -> list[float]:
        async with daemon.client() as talk:
            listed = (await talk.ask(list_firings=pb.ListFiringsMsg(job="beans"))).firings.firings
        return sorted(each.due_at for each in listed)

    async def wait_for_firings(daemon: DaemonThread, count: int) -> list[float]:
        async def find() -> Any:
            await asyncio.to_thread(daemon.advance, 10)
            found = await list_due_times(daemon)
            return found if len(found) >= count else None

        found: list[float] = await eventually(find)
        return found

    clock = ManualClock(now=1_000_000)
    with daemon_thread(home, clock) as daemon:
        async with daemon.client() as talk:
            await talk.ask(save_cron_job=job)
        before = await wait_for_firings(daemon, 2)
    with daemon_thread(home, ManualClock(now=1_000_000)) as daemon:
        after = await wait_for_firings(daemon, 3)
        assert after[:2] == before
        assert len(set(after)) == len(after)
    # A clock that was ahead by months does not stop it for months.
    with daemon_thread(home, ManualClock(now=800_000)) as daemon:
        assert min(await wait_for_firings(daemon, len(after) + 1)) == 800_040


async def test_results_for_the_owner_come_to_the_conversation_with_moot(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    mine = ("--as", sender, "--agent", "ada", "--every", "1h", "--deliver", "owner")
    added = daemon.cli_json("cron", "add", "beans", "count the beans", *mine)["data"]
    assert added["deliver_to"] == "owner"
    daemon.cli_json("cron", "run", "beans", "--as", sender)
    told = await wait_for_report(daemon, sender, "moot")
    assert told[-2]["content"].startswith("Schedule 'beans': ada (arun-")
    assert "Seven beans." in told[-2]["content"]
    # Not in the conversation that owns the job, which still lists it.
    assert await read_history(daemon, sender) == []
    (job,) = (await use(daemon, sender, "cron_list"))["jobs"]
    assert job["deliver_to"] == ["owner"]
    # The same for a workflow.
    file = tmp_path / "counted.flow.yaml"
    file.write_text(WORKFLOW)
    daemon.cli_json("workflow", "schedule", str(file), *mine)
    daemon.cli_json("cron", "run", "counted", "--as", sender)
    told = await eventually(lambda: _find_two(daemon, sender))
    assert told[-2]["content"].startswith("Workflow counted (wf-")
    (firing,) = daemon.cli_json("cron", "history", "counted", "--as", sender)["data"]
    assert (firing["status"], firing["result"]) == ("completed", "Seven beans.")
    assert "Seven beans." in daemon.cli("cron", "history", "counted", "--as", sender).stdout
    (entry, *_) = (await use(daemon, sender, "cron_history"))["entries"]
    assert (entry["job_name"], entry["result"]) == ("counted", "Seven beans.")
    # An agent that directs nobody cannot have its words told to another one.
    refused = await use(daemon, sender, "cron_add", **TAINTED | {"name": "mine"}, deliver_to=["owner"])
    assert "ada cannot tell moot results" in refused


async def test_the_result_of_a_task_for_the_owner_comes_to_the_conversation_with_moot(
    daemon: LiveDaemon, sender: str
) -> None:
    asked = {"prompt": "count the beans", "channel": "owner"}
    submitted = await use(daemon, sender, "bg_submit", by="boss", **asked)
    assert "in the conversation with moot" in submitted["message"]
    told = await wait_for_report(daemon, sender, "moot")
    assert "Seven beans." in told[-2]["content"]
    # Not in the conversation that it works for, which can still look at it.
    assert not any("has ended" in each.content for each in await read_history(daemon, sender, "boss"))
    state = await use(daemon, sender, "bg_status", by="boss", task_id=submitted["task_id"])
    assert (state["status_text"], state["origin_channel"]) == ("done", "owner")
    assert "ada cannot tell moot results" in await use(daemon, sender, "bg_submit", **asked)
    assert "Name conversation, owner or none" in await use(daemon, sender, "bg_submit", prompt="x", channel="tg:1")


def _find_two(daemon: LiveDaemon, sender: str) -> Any:
    told = daemon.cli_json("history", "moot", "--as", sender)["data"]["messages"]
    return told if [each["content"] for each in told].count("Told.") == 2 else None


async def test_results_for_the_owner_wait_for_a_daemon_that_was_killed(home: Home) -> None:
    home.furnish(script=SCRIPT, config=CONFIG, agents=())
    home.write_agent("ada").write_text(AGENT.format(name="ada"), encoding="utf-8")
    with running(home, MOOT_FAIL_AT="teammate.delivered") as daemon:
        chosen = ("--agent", "ada", "--every", "1h", "--deliver", "owner")
        call_cli(home, "cron", "add", "beans", "count the beans", *chosen)
        call_cli(home, "cron", "run", "beans")
        daemon.reap()
    with daemon_thread(home) as live:
        told = await wait_for_report(live, "user", "moot")
    assert len([each for each in told if "has ended" in each["content"]]) == 1


async def test_revoking_a_token_stops_its_schedules_and_names_them(daemon: LiveDaemon) -> None:
    daemon.cli_json("tokens", "new", "visitor")
    job = {"schedule_type": "every", "schedule": "1h", "prompt": "count the beans"}
    await use(daemon, "visitor", "cron_add", name="beans", **job)
    await use(daemon, "visitor", "cron_add", name="often", **job)

    told = daemon.cli("tokens", "revoke", "visitor").stdout

    assert told.strip() == "Revoked visitor. Paused its scheduled jobs: beans, often."
    listed = daemon.cli_json("cron", "--as", "visitor")["data"]
    assert [(each["status"], each["next_at"]) for each in listed] == [("paused", None)] * 2
    # A run that has begun before cannot start them again.
    assert "was revoked" in await use(daemon, "visitor", "cron_resume", id="beans")
    daemon.cli_json("tokens", "new", "visitor")
    assert [each["status"] for each in daemon.cli_json("cron", "--as", "visitor")["data"]] == ["paused", "paused"]


async def test_jobs_are_shown_as_off_while_schedules_are(tmp_path: Path) -> None:
    home = Home(tmp_path).furnish(script=SCRIPT, config=CONFIG, agents=("ada",))
    with daemon_thread(home) as live:
        live.cli("cron", "add", "beans", "count", "--every", "1h", "--agent", "ada")
    home.write_config(CONFIG + "[cron]\nenabled = false\n")
    with daemon_thread(home) as live:
        listed = live.cli("cron")
        assert listed.stdout.splitlines()[1].split()[:3] == ["beans", "off", "-"]
        assert "Schedules are off" in listed.stderr
        assert "state        off" in live.cli("cron", "show", "beans").stdout


async def test_a_job_with_one_conversation_goes_on_when_that_was_let_go_of_after_its_time(home: Home) -> None:
    """The daemon does not remember messages that are gone."""
    home.furnish(script=SCRIPT, config=CONFIG + "[traces]\nkeep_days = 0.01\n", agents=("ada",))
    with daemon_thread(home, ManualClock()) as daemon:
        options = ("--agent", "ada", "--every", "30d", "--session", "main", "--deliver", "none")
        daemon.cli_json("cron", "add", "beans", "count the beans", *options)

        def fire() -> str:
            daemon.advance(1)
            run_id: str = daemon.cli_json("cron", "run", "beans")["data"]["run_id"]
            assert daemon.cli("wait", run_id).returncode == 0
            return run_id

        first, second = fire(), fire()

        def is_gone() -> bool:
            daemon.advance(600)
            return daemon.cli("trace", second).returncode == 6

        await eventually(is_gone)
        assert daemon.cli("trace", first).returncode == 6
        run_id = fire()
        assert daemon.home.query("SELECT outcome, error FROM runs WHERE id = ?", run_id) == [("completed", "")]
        assert daemon.home.query("SELECT last_seq FROM conversations WHERE sender LIKE 'cron:%'") == [(2,)]
