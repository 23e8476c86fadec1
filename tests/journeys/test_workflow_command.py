"""`moot workflow`: a person runs, follows, saves, schedules and cancels workflows."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, eventually
from tests.daemon_thread import daemon_thread
from tests.scripting import call, say, script

CONFIG = PLAIN + '[security.interceptor]\npolicy = "configured"\nsensitive_tools = ["set_title"]\n'
SCRIPT = script(
    {"match": "^approve", "steps": [call("set_title", title="Boats"), say("named")]},
    {"match": "^fail", "error": "it broke"},
    {"match": "^hang", "hang": True},
    {"match": "^Workflow", "reply": "I was told."},
    {"match": "^(?P<what>[a-z]+) as ada", "agent": "You are ada", "reply": "ada did {what}"},
    {"reply": "did: {user}"},
)
DIAMOND = """\
name: diamond
description: Four steps.
steps:
  - {id: start, prompt: begin}
  - {id: left, prompt: "walk as ada", agent: ada, depends_on: [start]}
  - {id: right, prompt: "go with {{start.result}}", depends_on: [start]}
  - {id: end, prompt: "join {{left.result}} and {{right.result}}", depends_on: [left, right]}
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveDaemon]:
    home = Home(tmp_path_factory.mktemp("home")).furnish(script=SCRIPT, config=CONFIG)
    with daemon_thread(home) as daemon:
        yield daemon
    assert home.failures() == []


def write(folder: Path, text: str, name: str = "x.flow.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def hang(folder: Path, name: str) -> str:
    return write(folder, f"name: {name}\nsteps: [{{id: a, prompt: hang}}, {{id: b, prompt: x, depends_on: a}}]")


def test_a_time_that_has_passed_is_found_before_saving(daemon: LiveDaemon, sender: str, tmp_path: Path) -> None:
    late = write(tmp_path, DIAMOND.replace("steps:", "schedule: at 2020-01-31T08:00:00+01:00\nsteps:"))
    for command in ("check", "save"):
        refused = daemon.cli("workflow", command, late, "--as", sender)
        assert refused.returncode != 0
        assert "2020-01-31T08:00:00+01:00 is in the past" in refused.stderr
    # It can still be looked at, and run now.
    assert daemon.cli("workflow", "show", late, "--as", sender).returncode == 0


def test_a_person_runs_a_file_and_sees_its_graph_and_results(daemon: LiveDaemon, sender: str, tmp_path: Path) -> None:
    file = write(tmp_path, DIAMOND)
    ran = daemon.cli("workflow", "run", file, "--as", sender)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0].startswith("diamond  completed  4/4 steps")
    drawn = [line.split()[:2] for line in lines[3:7]]
    assert drawn == [["✓", "start"], ["├─✓", "left"], ["✓", "│"], ["✓─╯", "end"]]
    assert lines[-1] == "did: join ada did walk and did: go with did: begin"
    # The newest run of a workflow is found by its name, and a run by the beginning of its id.
    shown = daemon.cli_json("workflow", "show", "diamond", "--as", sender)["data"]
    assert (shown["status"], [step["state"] for step in shown["steps"]]) == ("completed", ["completed"] * 4)
    assert daemon.cli_json("workflow", "show", shown["run_id"][:-2], "--as", sender)["data"] == shown
    step = daemon.cli("workflow", "show", shown["run_id"], "--step", "left")
    assert step.stdout == "ada did walk\n"
    assert "no step 'lft'" in daemon.cli("workflow", "show", shown["run_id"], "--step", "lft").stderr
    (listed,) = daemon.cli_json("workflow", "history", "--as", sender)["data"]
    assert (listed["run_id"], listed["name"], listed["status"]) == (shown["run_id"], "diamond", "completed")
    assert daemon.cli_json("workflow", "history", "--as", f"{sender}2")["data"] == []
    # What was not run is shown as a plan.
    plan = daemon.cli("workflow", "show", file, "--ascii").stdout.splitlines()
    assert plan[3:7] == [
        "o   start  moot  begin",
        "|-o left   ada   walk as ada",
        "o | right  moot  go with {{start.result}}",
        "o-' end    moot  join {{left.result}} and {{right.result}}",
    ]


async def test_a_failed_workflow_has_an_exit_code_and_a_cancelled_one_says_so(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    failed = daemon.cli("workflow", "run", write(tmp_path, "name: bad\nsteps: [{id: a, prompt: fail}]"), "--as", sender)
    assert failed.returncode == 1
    assert "step a failed: model_error" in failed.stdout
    run_id = daemon.cli("workflow", "run", "--bg", hang(tmp_path, "slow"), "--as", sender).stdout.strip()
    assert run_id.startswith("wf-")
    once = daemon.cli("workflow", "show", run_id).stdout
    assert "slow  running  0/2 steps" in once
    assert daemon.cli("workflow", "cancel", "slow", "--as", f"{sender}2").returncode == 6
    assert daemon.cli("workflow", "cancel", "slow", "--as", sender).stdout == f"Cancelled {run_id}.\n"
    # Until its steps have stopped it can be cancelled again.
    await eventually(lambda: daemon.cli_json("workflow", "show", run_id)["data"]["status"] == "cancelled")
    assert daemon.cli_json("workflow", "cancel", run_id)["ok"] is False


async def test_a_workflow_that_waits_for_a_person_says_so_without_a_terminal(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    file = write(tmp_path, "name: ask\nsteps: [{id: a, prompt: approve}]")
    waiting = daemon.cli("workflow", "run", file, "--as", sender)
    assert (waiting.returncode, "waits for you" in waiting.stderr) == (3, True)
    (run,) = daemon.cli_json("workflow", "history", "ask", "--as", sender)["data"]
    assert "1 step waiting for you: moot inbox" in daemon.cli("workflow", "show", run["run_id"]).stdout
    (ask,) = [each for each in daemon.cli_json("inbox")["data"] if run["run_id"] in str(each)]
    assert daemon.cli("inbox", "approve", ask["ask_id"], "--attempt", "1").returncode == 0

    def is_completed() -> bool:
        return bool(daemon.cli_json("workflow", "show", run["run_id"])["data"]["status"] == "completed")

    await eventually(is_completed)


def test_mistakes_are_told_with_their_lines_and_nothing_is_stored(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    bad = write(tmp_path, "name: bad\nsteps:\n  - id: a\n    prompt: x\n    agent: adda\n    depends_on: [b]\n")
    for command in (("run",), ("check",), ("save",), ("schedule", "--every", "1h"), ("show",)):
        refused = daemon.cli("workflow", command[0], bad, *command[1:], "--as", sender)
        assert refused.returncode == 2, command
        assert "x.flow.yaml:5:12: there is no agent 'adda'. Did you mean 'ada'?" in refused.stderr
        assert "x.flow.yaml:6:18: step 'a' depends on a step 'b' that does not exist." in refused.stderr
    for name, text, code in (("none.yaml", None, 6), ("empty.yaml", "", 2), ("big.yaml", "#" * 1_048_577, 2)):
        path = write(tmp_path, text, name) if text is not None else str(tmp_path / name)
        assert daemon.cli("workflow", "run", path, "--as", sender).returncode == code, name
    assert daemon.cli("workflow", "run", "nothing", "--as", sender).returncode == 6
    assert daemon.cli("workflow", "show", "wf-none", "--as", sender).returncode == 6
    past = ("--at", "2020-01-01T00:00:00Z")
    assert "is in the past" in daemon.cli("workflow", "schedule", write(tmp_path, DIAMOND), *past).stderr
    for listing in (("workflow",), ("workflow", "history"), ("cron",)):
        assert daemon.cli_json(*listing, "--as", sender)["data"] == []
    assert daemon.cli("workflow", "check", write(tmp_path, DIAMOND)).stdout == "diamond: 4 steps, no mistakes.\n"


async def test_a_saved_workflow_runs_by_itself_and_its_report_comes_to_the_conversation(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    timed = DIAMOND.replace("steps:", "schedule: every 6h\ntimezone: Asia/Tokyo\nsteps:")
    mine = ("--as", sender)
    saved = daemon.cli("workflow", "save", write(tmp_path, timed), "--name", "tea", *mine)
    assert saved.stdout.startswith("Saved tea. Scheduled: 20"), saved.stderr
    (job,) = daemon.cli_json("cron", *mine)["data"]
    assert (job["name"], job["schedule"], job["timezone"], job["workflow"]) == ("tea", "6h", "Asia/Tokyo", True)
    (listed,) = daemon.cli_json("workflow", "list", *mine)["data"]
    assert (listed["name"], listed["job"]["id"], listed["last"]) == ("tea", job["id"], None)
    assert "tea" in daemon.cli("workflow", *mine).stdout
    assert "name: diamond" in daemon.cli("cron", "show", "tea", *mine).stdout

    run_id = daemon.cli_json("cron", "run", "tea", *mine)["data"]["run_id"]
    assert run_id.startswith("wf-")

    def find_report() -> Any:
        told = daemon.cli_json("history", "moot", *mine)
        return told["ok"] and [each for each in told["data"]["messages"] if each["content"].startswith("Workflow")]

    (report,) = await eventually(find_report)
    assert f"Workflow diamond ({run_id}) has ended: completed." in report["content"]
    (firing,) = daemon.cli_json("cron", "history", "tea", *mine)["data"]
    assert (firing["run_id"], firing["status"], firing["manual"]) == (run_id, "completed", True)
    assert daemon.cli_json("workflow", "show", run_id)["data"]["job_id"] == job["id"]

    # Saving it without a schedule keeps that and changes the text; a paused one stays paused.
    assert daemon.cli("cron", "pause", "tea", *mine).returncode == 0
    assert daemon.cli("workflow", "save", write(tmp_path, DIAMOND), "--name", "tea", *mine).returncode == 0
    kept = daemon.cli_json("cron", "show", "tea", *mine)["data"]
    assert (kept["status"], kept["schedule"], "every 6h" in kept["workflow"]) == ("paused", "6h", False)
    again = daemon.cli("workflow", "save", write(tmp_path, timed.replace("6h", "8h")), "--name", "tea", *mine)
    assert again.stdout.startswith("Saved tea. Scheduled: paused.")
    kept = daemon.cli_json("cron", "show", "tea", *mine)["data"]
    assert (kept["status"], kept["schedule"], kept["next_at"]) == ("paused", "8h", None)
    assert daemon.cli("cron", "resume", "tea", *mine).returncode == 0
    assert daemon.cli_json("cron", "show", "tea", *mine)["data"]["next_at"]
    removed = daemon.cli("workflow", "remove", "tea", "--yes", *mine)
    assert "It is still scheduled" in removed.stdout
    assert daemon.cli_json("workflow", *mine)["data"] == []


def test_a_workflow_is_scheduled_from_a_file_and_a_prompt_of_that_name_is_not_replaced(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    mine = ("--as", sender)
    file = write(tmp_path, DIAMOND)
    assert daemon.cli("workflow", "schedule", file, *mine).returncode == 2
    done = daemon.cli("workflow", "schedule", file, "--cron", "0 8 * * MON-FRI", "--tz", "Europe/Berlin", *mine)
    assert done.stdout.startswith("Scheduled diamond: next 20"), done.stderr
    again = daemon.cli("workflow", "schedule", file, "--every", "1h", "--deliver", "none", *mine)
    assert again.stdout.startswith("Rescheduled diamond")
    (job,) = daemon.cli_json("cron", *mine)["data"]
    assert (job["schedule_type"], job["deliver_to"], job["workflow"]) == ("every", "none", True)
    assert daemon.cli("cron", "add", "plain", "say hello", "--every", "1h", *mine).returncode == 0
    timed = write(tmp_path, DIAMOND.replace("steps:", "schedule: '@daily'\nsteps:").replace("diamond", "plain"))
    refused = daemon.cli("workflow", "save", timed, *mine)
    assert "there is a job 'plain' with a prompt" in refused.stderr
    for taken in (("cron", "add", "diamond", "say hello"), ("workflow", "schedule", file, "--name", "plain")):
        refused = daemon.cli(*taken, "--every", "2h", *mine)
        assert refused.returncode != 0
        assert "Choose another name, or remove that job first." in refused.stderr
    jobs = daemon.cli_json("cron", *mine)["data"]
    assert [(each["name"], each.get("workflow", False), each["schedule"]) for each in jobs] == [
        ("diamond", True, "1h"),
        ("plain", False, "1h"),
    ]
    assert daemon.cli_json("workflow", *mine)["data"] == []


def test_a_step_of_an_agent_that_is_gone_is_shown_as_failed(home: Home, tmp_path: Path) -> None:
    home.furnish(script=SCRIPT, config=CONFIG)
    with daemon_thread(home) as daemon:
        daemon.cli("workflow", "schedule", write(tmp_path, DIAMOND), "--every", "1h")
        (home.path / "agents" / "ada" / "AGENT.md").unlink()
        daemon.cli("reload")
        run_id = daemon.cli_json("cron", "run", "diamond")["data"]["run_id"]

        async def find_end() -> Any:
            shown = daemon.cli_json("workflow", "show", run_id)["data"]
            return shown if shown["status"] == "failed" else None

        shown = asyncio.run(eventually(find_end))
        states = {each["id"]: (each["state"], each["error"]) for each in shown["steps"]}
        assert states["left"] == ("failed", "there is no agent 'ada'. `moot agents` lists them.")
        assert states["end"][0] == "cancelled"
