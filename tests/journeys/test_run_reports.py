"""What comes of a run after its end, and how runs that ended or went on after a restart are found and told."""

import json
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, made, mate, say, script, spawn, wait

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
    lead("^let go", spawn("name it"), say("Gone on.")),
    lead("^hurry", spawn("hang"), wait(), say("Never.")),
    lead("has ended", say("I heard.")),
    mate("^name it", call("set_title", title="Boats"), say("named")),
    mate("^hang", hang=True),
    {"match": "^name", "calls": [made("set_title", title="Ships")], "after_tool": "Came of it: {result}"},
    {"match": "^again", "calls": [made("task_list")], "after_tool": ""},
    {"match": "^hang", "hang": True},
    {"reply": "You said: {user}"},
)


def start(daemon: LiveDaemon, text: str, *options: str) -> str:
    done = daemon.cli("run", "--bg", text, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def shown(daemon: LiveDaemon, run_id: str) -> dict[str, Any]:
    return dict(daemon.cli_json("show", run_id)["data"])


async def child_of(daemon: LiveDaemon, run_id: str, **state: str) -> dict[str, Any]:
    """The one that a run set to work, once it is as said."""

    def found() -> dict[str, Any] | None:
        below = [run for run in daemon.cli_json("ps", "-a")["data"] if run["parent"] == run_id]
        return next((run for run in below if all(run.get(key) == value for key, value in state.items())), None)

    run: dict[str, Any] = await eventually(found)
    return run


async def traces(daemon: LiveDaemon, *, failed: bool = False) -> list[pb.TraceInfo]:
    async with daemon.client() as talk:
        return list((await talk.ask(list_traces=pb.ListTracesMsg(failed=failed))).trace_list.traces)


# ---- after the end ------------------------------------------------------------------------------


async def test_what_is_reported_after_the_end_of_a_background_run_is_found_with_it(daemon: LiveDaemon) -> None:
    run_id = start(daemon, "let go")
    child = await child_of(daemon, run_id, condition="blocked_waiting_approval")
    # It has ended, but who works for it waits for a person.
    assert daemon.cli("wait", run_id).returncode == 3
    assert daemon.cli("inbox", "approve", child["ask_id"], "--attempt", "1").returncode == 0

    def later() -> list[dict[str, Any]]:
        told = shown(daemon, run_id).get("later", [])
        return told if len(told) == 2 else []

    report, answer = await eventually(later)
    assert (report["role"], report["agent"]) == ("user", "operator")
    assert "has ended: completed" in report["content"]
    assert (answer["role"], answer["content"]) == ("assistant", "I heard.")
    # The result is still what it said itself.
    assert shown(daemon, run_id)["result"] == "Gone on."
    page = daemon.cli("show", run_id).stdout
    assert page.index("Gone on.") < page.index("afterwards") < page.index("I heard.")
    assert daemon.cli("logs", run_id).stdout.endswith("moot › I heard.\n")

    # The turn it was answered in is a run like any other, also by the beginning of its id.
    (turn,) = [trace.run_id for trace in await traces(daemon) if run_id in trace.sender and trace.run_id != run_id]
    assert turn.startswith("run-")
    assert shown(daemon, turn[:-3])["run_id"] == turn


async def test_a_report_that_nothing_is_left_to_answer_with_is_kept_and_is_no_failure(home: Home) -> None:
    with daemon_thread(home) as daemon:
        done = daemon.cli("run", "hurry", "--timeout", "2", "--json")
        assert done.returncode == 5
        run_id = json.loads(done.stdout)["data"]["run_id"]
        child = await child_of(daemon, run_id, delivery="sent")

        def told() -> list[dict[str, Any]]:
            return [each for each in shown(daemon, run_id).get("later", []) if each.get("outcome")]

        (report,) = await eventually(told)
        assert child["run_id"] in report["content"]
        assert report["outcome"] == "completed"
        assert "budget of the turn it belongs to is used up" in report["error"]
        failed = {trace.run_id for trace in await traces(daemon, failed=True)}
        assert failed == {run_id, child["run_id"]}


# ---- ids ----------------------------------------------------------------------------------------


def test_an_id_that_is_too_short_is_said_to_be_that(daemon: LiveDaemon) -> None:
    for _ in range(2):
        daemon.cli("wait", start(daemon, "hello"))
    for command in ("show", "logs", "wait", "stop", "trace"):
        done = daemon.cli(command, "arun-")
        assert done.returncode == 2, (command, done.stderr)
        assert "is ambiguous: " in done.stderr or "more than one run begins with" in done.stderr


async def test_the_turn_of_a_person_is_found_by_the_beginning_of_its_id(daemon: LiveDaemon, sender: str) -> None:
    assert daemon.cli("ask", "ada", "hello", "--as", sender).returncode == 0
    (turn,) = [trace.run_id for trace in await traces(daemon) if trace.sender == sender]
    assert shown(daemon, turn[:-2])["result"] == "You said: hello"
    assert daemon.cli("show", "run-zzzzzz").returncode == 6


# ---- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("run",), ("ask",)])
@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (("--max-steps", "1"), "--max-steps"),
        (("--timeout", "0.2"), "--max-seconds"),
        (("--max-tokens", "1"), "--max-tokens"),
    ],
)
def test_what_a_limit_ended_names_the_flag_that_allows_more(
    daemon: LiveDaemon, sender: str, command: tuple[str, ...], options: tuple[str, str], flag: str
) -> None:
    text = "hang" if flag == "--max-seconds" else "again"
    who = ("--agent", "ada") if command == ("run",) else ()
    done = daemon.cli(*command, *([] if who else ["ada"]), text, *who, "--as", sender, *options)
    assert done.returncode == 5, done.stderr
    assert f"Allow more with {flag}, " in done.stderr
    listed = daemon.cli(*command, "--help").stdout
    assert flag in listed


# ---- across restarts ----------------------------------------------------------------------------


async def test_the_time_of_a_run_counts_on_after_a_restart(home: Home) -> None:
    with running(home) as daemon:
        run_id = start(daemon, "name it", "--agent", "ada")
        assert daemon.cli("ask", "ada", "name it").returncode == 3

        def old() -> dict[str, float]:
            times = {run["run_id"]: run["seconds"] for run in daemon.cli_json("ps")["data"]}
            return times if len(times) == 2 and min(times.values()) > 3 else {}

        before = await eventually(old)
        daemon.kill_9()
    with daemon_thread(home) as again:

        def back() -> list[dict[str, Any]]:
            found = again.cli_json("ps")["data"]
            return found if len(found) == 2 and all(run.get("ask_id") for run in found) else []

        runs = await eventually(back)
        assert {run["run_id"] for run in runs} == set(before)
        for run in runs:
            assert run["seconds"] > before[run["run_id"]]
        asked = next(run["ask_id"] for run in runs if run["run_id"] == run_id)
        assert again.cli("inbox", "approve", asked, "--attempt", "1").returncode == 0
        assert again.cli("wait", run_id).returncode == 0
        assert shown(again, run_id)["seconds"] > before[run_id]
