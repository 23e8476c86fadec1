"""Runs from the command line, with a real daemon behind them: started, seen, joined, awaited and stopped."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests import fork_server
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import PATIENCE, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, made, mate, say, script, spawn, wait
from tests.terminal import terminal

CONFIG = (
    PLAIN
    + """
[agent]
multiAgent = true
[security.interceptor]
sensitive_tools = ["set_title"]
"""
)
SCRIPT = script(
    lead("^hand on", spawn("hang on", spawn_reason="it has time"), wait(), say("It said: {result}")),
    lead("^leave behind", spawn("hang on"), say("Left it to itself.")),
    lead("^let it be named", spawn("name it"), wait(), say("It said: {result}")),
    lead("^let both be named", spawn("both names"), wait(), say("It said: {result}")),
    mate("^both", call("set_title", title="Boats"), call("set_title", title="Ships"), say("named twice")),
    lead("^let go", spawn("name it"), say("Gone on.")),
    lead("^pay", spawn("earn it"), wait(), say("Paid."), usage={"prompt": 10, "completion": 1}),
    mate("^hang", hang=True),
    mate("^name", call("set_title", title="Boats"), say("named")),
    mate("^earn", reply="earned", usage={"prompt": 700, "completion": 7}),
    {"match": "hang", "hang": True},
    {"match": "^name", "calls": [made("set_title", title="Ships")], "after_tool": "Came of it: {result}"},
    {"match": "^which", "calls": [made("ask_user", questions=[{"question": "Which boat?"}])], "after_tool": "{result}"},
    {"match": "^list", "calls": [made("fs_list", path=".")], "after_tool": "Listed."},
    {"match": "^fail", "error": "the model is out"},
    {"match": "^again", "calls": [made("task_list")], "after_tool": ""},
    {"reply": "You said: {user}"},
)


def found(daemon: LiveDaemon, *arguments: str) -> list[dict[str, Any]]:
    return list(daemon.cli_json("ps", *arguments)["data"])


def start(daemon: LiveDaemon, text: str, *options: str) -> str:
    """A background run; its id."""
    done = daemon.cli("run", "--bg", text, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def of_sender(daemon: LiveDaemon, sender: str, *options: str) -> list[dict[str, Any]]:
    """The runs of one sender's trees."""
    return [run for run in found(daemon, *options) if run["root"]["sender"] == sender]


@contextmanager
def asking(daemon: LiveDaemon, text: str, sender: str) -> Iterator["subprocess.Popen[str]"]:
    """`moot ask moot TEXT` in the background of a test."""
    process = fork_server.start(
        [sys.executable, "-m", "moot", "ask", "moot", text, "--as", sender, "--json"],
        env=daemon.home.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


# ---- moot run -----------------------------------------------------------------------------------


def test_a_task_is_followed_to_its_answer(daemon: LiveDaemon) -> None:
    done = daemon.cli("run", "hello")
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")
    assert "works on it as arun-" in done.stderr


def test_a_followed_task_is_one_document_with_json(daemon: LiveDaemon) -> None:
    document = daemon.cli_json("run", "hello", "--agent", "ada")
    assert document["ok"]
    data = document["data"]
    assert (data["content"], data["outcome"], data["agent"]) == ("You said: hello", "completed", "ada")
    assert data["run_id"].startswith("arun-")


def test_a_task_in_the_background_is_waited_for_by_its_id(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "hello")
    assert run_id.startswith("arun-")
    done = daemon.cli("wait", run_id)
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")


def test_a_task_for_an_agent_that_is_not_there_is_refused(daemon: LiveDaemon) -> None:
    done = daemon.cli("run", "--bg", "hello", "--agent", "nobody")
    assert done.returncode == 6
    assert "there is no agent 'nobody'" in done.stderr


def test_a_task_may_be_given_some_of_the_agents_tools_and_no_others(daemon: LiveDaemon) -> None:
    refused = daemon.cli("run", "--bg", "hello", "--agent", "ada", "--tools", "fs_read,no_such_tool")
    assert refused.returncode == 2
    assert "ada has no tool 'no_such_tool'" in refused.stderr
    run_id = start(daemon, "hello", "--agent", "ada", "--tools", "fs_read,task_*")
    assert daemon.cli_json("show", run_id)["data"]["allowed_tools"] == ["fs_read", "task_*"]


def test_a_task_that_needs_another_tool_asks_for_it_first(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "list what is here", "--agent", "ada", "--tools", "fs_read")
    assert daemon.cli("wait", run_id).returncode == 3
    shown = daemon.cli_json("show", run_id)["data"]
    ask_id = shown["ask_id"]
    assert ask_id == f"grant-{run_id}-fs_list"
    assert (shown["grant_request_id"], shown["grant_attempt"], shown["grant_state"]) == (ask_id, 1, "pending")
    (listed,) = [each for each in found(daemon) if each["run_id"] == run_id]
    assert listed["grant_request_id"] == ask_id
    assert daemon.cli("inbox", "approve", ask_id, "--attempt", "1").returncode == 0
    assert daemon.cli("wait", run_id).returncode == 0
    assert daemon.cli_json("show", run_id)["data"]["granted_tools"] == ["fs_list"]


def test_what_a_run_is_for_is_told_without_names_nobody_needs(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "hand on")
    (child,) = eventually_below(daemon, run_id)
    shown = daemon.cli("show", child["run_id"]).stdout
    daemon.cli("stop", run_id)
    assert "moot as user (in the background)\n" in shown
    assert f"{run_id} · it has time\n" in shown
    assert "bg:" not in shown


def eventually_below(daemon: LiveDaemon, run_id: str) -> list[dict[str, Any]]:
    """Those a run has set to work, once there are any."""
    deadline = time.monotonic() + PATIENCE
    while not (below := [each for each in found(daemon) if each["parent"] == run_id]):
        assert time.monotonic() < deadline
    return below


def test_what_a_task_may_spend_is_kept_with_it(daemon: LiveDaemon) -> None:
    limits = ("--max-steps", "3", "--timeout", "9", "--max-tokens", "90000")
    run_id = start(daemon, "hello", *limits)
    assert daemon.cli_json("show", run_id)["data"]["limits"] == {"steps": 3, "seconds": 9.0, "tokens": 90000}


def test_the_working_directory_is_the_callers_own(daemon: LiveDaemon, tmp_path: Any) -> None:
    run_id = start(daemon, "hello", "--cwd", str(tmp_path))
    assert daemon.cli_json("show", run_id)["data"]["cwd"] == str(tmp_path)
    assert daemon.cli("run", "--bg", "hello", "--cwd", str(tmp_path / "none")).returncode == 2


def test_a_followed_task_that_waits_for_a_person_says_how_to_answer(daemon: LiveDaemon) -> None:
    done = daemon.cli("run", "name it", "--agent", "ada", "--json")
    assert done.returncode == 3
    data = json.loads(done.stdout)["data"]
    ask_id = data["approvals"][0]["ask_id"]
    assert daemon.cli("inbox", "approve", ask_id, "--attempt", "1").returncode == 0
    waited = daemon.cli("wait", data["run_id"])
    assert waited.returncode == 0
    assert waited.stdout.startswith("Came of it:")


def test_a_followed_task_that_fails_exits_with_one_and_says_why(daemon: LiveDaemon) -> None:
    done = daemon.cli("run", "fail")
    assert done.returncode == 1
    assert "the model is out" in done.stderr


def test_control_c_stops_a_task_that_is_followed(daemon: LiveDaemon) -> None:
    with terminal(daemon.home, "run", "hang please", "--agent", "ada") as person:
        person.wait_for("works on it as ")
        person.wait_for("Working")
        person.type("\x03")
        assert person.wait_for_exit() == 130
    stopped = [run for run in found(daemon, "-a") if run["instruction"] == "hang please"]
    assert [run["outcome"] for run in stopped] == ["cancelled"]


# ---- moot ps, show ------------------------------------------------------------------------------


async def test_runs_are_seen_with_what_they_do_and_what_they_wait_for(daemon: LiveDaemon, sender: str) -> None:
    with asking(daemon, "hand on", sender):
        turn, child = await eventually(lambda: _waiting(daemon, sender))
        assert (turn["kind"], turn["condition"], turn["last_action"]) == ("turn", "waiting_on_teammate", "agent_wait")
        assert turn["waiting_on"] == [child["run_id"]]
        assert (child["kind"], child["agent"], child["status"]) == ("teammate", "operator", "running")
        assert (child["parent"], child["chain"]) == (turn["run_id"], ["moot"])
        assert child["spawn_reason"] == "it has time"
        assert turn["steps"] == 2
        assert turn["tokens"] > 0
        assert turn["seconds"] >= turn.get("idle_seconds", 0)
        (tree,) = [run for run in found(daemon, "--tree") if run["run_id"] == turn["run_id"]]
        assert [each["run_id"] for each in tree["children"]] == [child["run_id"]]
        table = daemon.cli("ps").stdout
        assert child["run_id"] in table
        assert daemon.cli("stop", turn["run_id"]).returncode == 0


def _waiting(daemon: LiveDaemon, sender: str) -> list[dict[str, Any]]:
    """The turn and its teammate, once the one waits for the other."""
    runs = of_sender(daemon, sender)
    ready = len(runs) == 2 and runs[0]["condition"] == "waiting_on_teammate" and runs[1]["status"] == "running"
    return runs if ready else []


@pytest.mark.parametrize("columns", [80, 120])
def test_the_tree_fits_the_terminal(daemon: LiveDaemon, columns: int) -> None:
    run_id = start(daemon, f"name it, with a rather long description of what to do and why at {columns} columns")
    daemon.cli("wait", run_id)
    with terminal(daemon.home, "ps", "--tree", columns=columns) as person:
        person.wait_for("need")
        assert person.wait_for_exit() == 0
    rows = person.rows.text.splitlines()
    assert any(row.startswith("WHO ") and row.endswith("COST") for row in rows)
    assert any(run_id[:13] in row and "needs you" in row for row in rows)
    assert any("moot inbox approve ask-" in row for row in rows)
    assert max(map(len, rows)) <= columns
    daemon.cli("stop", run_id)


def test_watching_draws_again_until_control_c(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "hang around", "--agent", "ada")
    with terminal(daemon.home, "ps", "--watch", columns=100) as person:
        person.wait_for(run_id[:13])
        stopped = daemon.cli("stop", run_id)
        assert stopped.returncode == 0, stopped.stderr
        second = start(daemon, "hang about", "--agent", "ada")
        person.wait_for(second[:13])
        person.type("\x03")
        assert person.wait_for_exit() == 130
    assert b"\x1b[?1049l" in person.raw
    daemon.cli("stop", second)


def test_watching_needs_a_terminal(daemon: LiveDaemon) -> None:
    assert daemon.cli("ps", "--watch").returncode == 2


def test_runs_that_have_ended_are_shown_on_request_with_what_came_of_them(daemon: LiveDaemon, sender: str) -> None:
    daemon.cli("ask", "moot", "pay", "--as", sender)
    assert of_sender(daemon, sender) == []
    turn, child = of_sender(daemon, sender, "-a")
    assert (turn["kind"], turn["outcome"]) == ("turn", "completed")
    assert (child["outcome"], child["result"], child["delivery"]) == ("completed", "earned", "waited")
    shown = daemon.cli("show", child["run_id"]).stdout
    assert "moot → operator" in shown
    assert f"spawned by  {turn['run_id']}\n" in shown
    assert "fetched by its parent" in shown
    assert "earned" in shown


def test_an_id_may_be_shortened_and_an_unknown_one_is_not_found(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "hello")
    daemon.cli("wait", run_id)
    assert daemon.cli_json("show", run_id[:14])["data"]["run_id"] == run_id
    for command in ("show", "attach", "logs", "wait", "stop"):
        done = daemon.cli(command, "arun-0000000000000000")
        assert done.returncode == 6, (command, done.stderr)


# ---- moot attach, logs --------------------------------------------------------------------------


def test_a_run_is_joined_by_its_id_and_what_it_asks_is_answered_there(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "name it", "--agent", "ada")
    with terminal(daemon.home, "attach", run_id) as person:
        person.wait_for("o/r/c/a/d ›")
        person.enter("o")
        person.wait_for("Came of it:")
        assert person.wait_for_exit() == 0


def test_leaving_a_run_does_not_stop_it(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "hang on", "--agent", "ada")
    with terminal(daemon.home, "attach", run_id) as person:
        person.wait_for("press Enter")
        person.type("\x03")
        person.wait_for("The run continues.")
        assert person.wait_for_exit() == 130
    # Nothing of the moving line is left.
    assert "Detached. The run continues." in person.rows.text.splitlines()
    assert "Working" not in person.rows.text
    assert daemon.cli_json("show", run_id)["data"]["status"] == "running"
    daemon.cli("stop", run_id)


def test_a_run_that_has_ended_is_told_again(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "hello")
    daemon.cli("wait", run_id)
    done = daemon.cli("attach", run_id)
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")


async def test_a_conversation_is_joined_by_the_agents_name(daemon: LiveDaemon, sender: str) -> None:
    with asking(daemon, "hand on", sender):
        turn, _ = await eventually(lambda: _waiting(daemon, sender))
        with terminal(daemon.home, "attach", "moot", "--as", sender) as person:
            person.wait_for("wait for arun-")
            daemon.cli("stop", turn["run_id"])
            assert person.wait_for_exit() == 1


def test_logs_show_who_said_what_and_the_calls_between(daemon: LiveDaemon, sender: str) -> None:
    daemon.cli("ask", "moot", "pay", "--as", sender)
    turn, child = of_sender(daemon, sender, "-a")
    shown = daemon.cli("logs", child["run_id"]).stdout
    assert shown == "moot › earn it\noperator › earned\n"
    told = daemon.cli("logs", turn["run_id"]).stdout
    assert told.startswith("you › pay\n")
    assert "⚒ operator: " in told
    assert f"→ operator ({child['run_id'][:13]}) started" in told
    assert f"→ operator ({child['run_id'][:13]}) completed: earned" in told
    assert told.endswith("moot › Paid.\n")
    assert daemon.cli("logs", "moot", "--as", sender).stdout == told
    messages = daemon.cli_json("logs", child["run_id"])["data"]
    assert [message["content"] for message in messages] == ["earn it", "earned"]


def test_logs_follow_a_run_to_its_end(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "name it", "--agent", "ada")
    with terminal(daemon.home, "logs", "-f", run_id) as person:
        person.wait_for("⚒ title the conversation")
        (ask,) = [ask for ask in daemon.cli_json("inbox")["data"] if run_id in ask["ask_id"]]
        assert daemon.cli("inbox", "approve", ask["ask_id"], "--attempt", "1").returncode == 0
        person.wait_for("ada › Came of it:")
        assert person.wait_for_exit() == 0
    assert person.seen.count("name it") == 1


# ---- moot wait ----------------------------------------------------------------------------------


def test_a_wait_that_runs_out_of_time_leaves_the_run_alone(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "hang on", "--agent", "ada")
    done = daemon.cli("wait", run_id, "--timeout", "0.2", "--json")
    assert done.returncode == 124
    document = json.loads(done.stdout)
    assert document["error"]["type"] == "timed_out"
    assert document["data"]["timed_out"]
    assert document["data"]["runs"][0]["status"] == "running"
    daemon.cli("stop", run_id)


def test_a_wait_for_any_ends_with_the_first(daemon: LiveDaemon) -> None:
    slow, quick = start(daemon, "hang on", "--agent", "ada"), start(daemon, "hello")
    done = daemon.cli("wait", slow, quick, "--any", "--json")
    assert done.returncode == 0, done.stdout
    outcomes = [run.get("outcome") for run in json.loads(done.stdout)["data"]["runs"]]
    assert outcomes == [None, "completed"]
    daemon.cli("stop", slow)


def test_a_wait_for_several_is_judged_by_the_first_that_failed(daemon: LiveDaemon) -> None:
    good, bad = start(daemon, "hello"), start(daemon, "fail")
    done = daemon.cli("wait", good, bad)
    assert done.returncode == 1
    assert "model_error" in done.stderr
    assert "You said: hello" in done.stdout


def test_a_limit_that_ended_a_run_is_told_by_the_exit_code(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "again", "--agent", "ada", "--max-steps", "1")
    done = daemon.cli("wait", run_id, "--json")
    assert done.returncode == 5
    assert json.loads(done.stdout)["data"]["runs"][0]["limit"] == "steps"


def test_a_wait_without_a_terminal_comes_back_when_a_person_is_needed(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "let it be named")
    done = daemon.cli("wait", run_id)
    assert done.returncode == 3
    assert "moot inbox" in done.stderr
    (child,) = [run for run in found(daemon) if run["parent"] == run_id]
    assert child["needs_person"]
    assert daemon.cli("inbox", "approve", child["ask_id"], "--attempt", "1").returncode == 0
    again = daemon.cli("wait", run_id)
    assert again.returncode == 0, again.stderr
    assert "named" in again.stdout


def test_a_wait_on_a_terminal_shows_each_ask_as_it_comes(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "let both be named")
    with terminal(daemon.home, "wait", run_id, columns=200) as person:
        for _ in ("Boats", "Ships"):
            person.wait_for("waits for you: set_title")
            (asked,) = daemon.cli_json("inbox")["data"]
            assert daemon.cli("inbox", "approve", asked["ask_id"], "--attempt", "1").returncode == 0
        person.wait_for("named twice")
        assert person.wait_for_exit() == 0


# ---- moot stop ----------------------------------------------------------------------------------


async def test_stopping_a_turn_stops_what_it_set_to_work(daemon: LiveDaemon, sender: str) -> None:
    with asking(daemon, "hand on", sender) as process:
        turn, child = await eventually(lambda: _waiting(daemon, sender))
        document = daemon.cli_json("stop", turn["run_id"])
        told = {run["run_id"]: run["outcome"] for run in document["data"]}
        assert told == {turn["run_id"]: "cancelled", child["run_id"]: "cancelled"}
        out, _ = process.communicate(timeout=PATIENCE)
        assert json.loads(out)["data"]["outcome"] == "cancelled"
    assert of_sender(daemon, sender) == []


async def test_stopping_only_a_turn_leaves_what_it_set_to_work(daemon: LiveDaemon, sender: str) -> None:
    with asking(daemon, "hand on", sender):
        turn, child = await eventually(lambda: _waiting(daemon, sender))
        said = daemon.cli("stop", "--only", turn["run_id"]).stdout
        assert said == f"Stopped {turn['run_id']} (moot)\n"
        alive = [run for run in of_sender(daemon, sender) if run["kind"] == "teammate"]
        assert [run["run_id"] for run in alive] == [child["run_id"]]
        daemon.cli("stop", child["run_id"])


async def test_stopping_only_a_background_run_leaves_its_teammate(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "hand on")

    def child_of_it() -> str:
        return next((run["run_id"] for run in found(daemon) if run["parent"] == run_id), "")

    child = await eventually(child_of_it)
    assert daemon.cli("stop", "--only", run_id).returncode == 0
    assert daemon.cli_json("show", child)["data"]["status"] == "running"
    assert daemon.cli("stop", child).returncode == 0


def test_a_run_that_has_ended_cannot_be_stopped(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "hello")
    daemon.cli("wait", run_id)
    done = daemon.cli("stop", run_id)
    assert done.returncode == 1
    assert "has ended already: completed" in done.stderr


# ---- in line, and across restarts ---------------------------------------------------------------


async def test_a_run_in_line_is_seen_joined_and_stopped(home: Home) -> None:
    home.write_config(CONFIG.replace("multiAgent = true", "multiAgent = true\nmaxRunning = 1"))
    with daemon_thread(home) as daemon:
        first, second = start(daemon, "hang on", "--agent", "ada"), start(daemon, "hello")
        states = {run["run_id"]: run["condition"] for run in found(daemon)}
        assert states == {first: "", second: "queued"}
        with terminal(home, "attach", second) as person:
            person.wait_for("Queued at position 1")
            assert daemon.cli("stop", first).returncode == 0
            person.wait_for("You said: hello")
            assert person.wait_for_exit() == 0
        third, fourth = start(daemon, "hang on", "--agent", "ada"), start(daemon, "hello")
        assert daemon.cli_json("stop", fourth)["data"][0]["outcome"] == "cancelled"
        done = daemon.cli("wait", fourth)
        assert done.returncode == 1
        assert "stopped before it began" in done.stderr
        assert daemon.cli("logs", fourth).returncode == 0
        daemon.cli("stop", third)


def test_a_background_run_goes_on_after_a_restart_under_its_id(home: Home) -> None:
    with running(home) as daemon:
        run_id = start(daemon, "name it", "--agent", "ada")
        assert daemon.cli("wait", run_id).returncode == 3
        (before,) = daemon.cli_json("inbox")["data"]
        daemon.kill_9()
    with daemon_thread(home) as daemon:
        (after,) = daemon.cli_json("inbox")["data"]
        assert after["ask_id"] == before["ask_id"]
        assert daemon.cli("inbox", "approve", after["ask_id"], "--attempt", "1").returncode == 0
        done = daemon.cli("wait", run_id)
        assert done.returncode == 0
        assert done.stdout.startswith("Came of it:")


# ---- listings and usage -------------------------------------------------------------------------


def test_conversations_of_teammates_are_listed_only_on_request(daemon: LiveDaemon, sender: str) -> None:
    daemon.cli("ask", "moot", "pay", "--as", sender)
    _, child = of_sender(daemon, sender, "-a")
    senders = {each["sender"] for each in daemon.cli_json("conversations")["data"]}
    assert sender in senders
    assert not any(each.startswith("run:") for each in senders)
    everything = {each["sender"] for each in daemon.cli_json("conversations", "--all")["data"]}
    assert f"run:{child['run_id']}" in everything


def test_background_runs_take_one_line_for_each_agent_unless_all_are_asked_for(home: Home) -> None:
    with daemon_thread(home) as daemon:
        ids = [start(daemon, "pay") for _ in range(3)]
        daemon.cli("wait", *ids)
        daemon.cli("ask", "moot", "pay")
        listed = daemon.cli("conversations").stdout.splitlines()[1:]
        used = daemon.cli("usage").stdout.splitlines()[1:]
        assert len(listed) == 2
        (beside,) = [row for row in listed if "(background)" in row]
        assert beside.split()[:3] == ["moot", "user", "(background)"]
        assert beside.endswith("3 runs")
        assert len(used) == 4
        # Each of the three made three calls to a model, of ten tokens, and its teammate one of seven hundred.
        told = {tuple(row.split()[:3]) for row in used if "(background)" in row}
        assert told == {("moot", "user", "(background)"), ("└", "operator", "user")}
        (mate,) = [row for row in used if row.startswith("└ operator  user (background)")]
        assert mate.split()[5:8] == ["3", "2.1k", "21"]
        for command in ("conversations", "usage"):
            assert all(run_id in daemon.cli(command, "--all").stdout for run_id in ids)
            senders = {each["sender"] for each in daemon.cli_json(command)["data"]}
            assert {f"bg:{run_id}:user" for run_id in ids} <= senders


def test_what_teammates_used_is_counted_to_the_conversation_they_worked_for(daemon: LiveDaemon, sender: str) -> None:
    daemon.cli("ask", "moot", "pay", "--as", sender)
    rows = daemon.cli_json("usage", "moot", "--as", sender)["data"]
    assert [(row["agent"], row.get("root_agent")) for row in rows] == [("moot", None), ("operator", "moot")]
    assert (rows[1]["prompt"], rows[1]["completion"], rows[1]["runs"]) == (700, 7, 1)
    assert rows[1]["sender"] == sender
    table = daemon.cli("usage", "moot", "--as", sender).stdout.splitlines()
    assert table[1].startswith("moot ")
    assert table[2].startswith("└ operator")


def test_agent_status_says_whether_there_are_teammates(home: Home) -> None:
    with daemon_thread(home) as daemon:
        assert daemon.cli_json("agent", "status")["data"]["teammate_runtime"] == "dynamic-v1"
    home.write_config(PLAIN)
    with daemon_thread(home) as daemon:
        assert daemon.cli_json("agent", "status")["data"]["teammate_runtime"] is None
        # Work in the background needs no team.
        assert daemon.cli("run", "hello").stdout == "You said: hello\n"
