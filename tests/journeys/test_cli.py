"""The command line against a real daemon: what a script, or a person in a hurry, relies on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from moot.domain.agent import ROLES
from tests import fork_server
from tests.daemon_process import CONFIG, PATIENCE, Home, LiveDaemon, call_cli, run_cli

SCRIPT = """
[[rule]]
match = "hang"
hang = true

[[rule]]
match = "which colour"
calls = [{ name = "ask_user", arguments = { questions = [
  { question = "Which colour?", header = "Colour", options = [{ label = "Red" }, { label = "Blue" }] } ] } }]
after_tool = "You chose {result}."

[[rule]]
match = "call forever"
calls = [{ name = "set_title", arguments = { title = "Again" } }]
after_tool = ""

[[rule]]
match = "fail"
error = "the model is out of order"

[[rule]]
agent = "bob"
reply = "Bob heard: {user}"

[[rule]]
reply = "Heard: {user}"
"""

# Holds a daemon's lock and, told to stop, leaves it to a child: one daemon after the other, with no moment between.
DYNASTY = """
import fcntl, os, signal, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)

def reign():
    with open(sys.argv[2] + ".new", "w") as pid:
        pid.write(str(os.getpid()))
    os.replace(sys.argv[2] + ".new", sys.argv[2])

def abdicate(*_):
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    reign()

signal.signal(signal.SIGTERM, abdicate)
reign()
print("ready", flush=True)
while True:
    signal.pause()
"""


def data(done: "subprocess.CompletedProcess[str]") -> Any:
    """The data of the one document on stdout."""
    document = json.loads(done.stdout)
    assert document["ok"] is True, document
    return document["data"]


@pytest.fixture
def own(home: Home) -> Any:
    """A home whose daemon the commands start themselves; stopped afterwards."""
    yield home
    run_cli(home, "down", "--now")


# ---- the daemon comes and goes ----


def test_a_command_starts_the_daemon_says_so_on_stderr_and_down_stops_it(own: Home) -> None:
    asked = run_cli(own, "ask", "ada", "Hello")
    status = data(call_cli(own, "status", "--json"))
    stopped = run_cli(own, "down")

    assert (asked.returncode, asked.stdout) == (0, "Heard: Hello\n")
    assert "starting it" in asked.stderr
    assert status["pid"] > 0
    assert stopped.returncode == 0
    assert not own.socket.exists()
    assert call_cli(own, "status").returncode == 69
    assert data(run_cli(own, "down", "--json")) == {"stopped": False}
    again = run_cli(own, "down")
    assert (again.stdout, again.stderr) == ("The daemon is not running.\n", "")


def test_up_says_once_that_it_is_up(own: Home) -> None:
    up = run_cli(own, "up")

    assert up.stdout.count("\n") == 1
    assert up.stdout.startswith("The daemon is up (pid ")
    assert up.stderr == "Starting the daemon\n"


def test_nothing_in_the_working_directory_is_imported_when_the_daemon_starts(own: Home, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("moot", "json", "sitecustomize"):
        (project / f"{name}.py").write_text(f"raise SystemExit({name!r} ' of the project was imported')")
    command = [sys.executable, "-P", "-m", "moot", "up"]
    up = subprocess.run(
        command, cwd=project, env=own.environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert up.returncode == 0, up.stderr
    assert up.stdout.startswith("The daemon is up (pid ")


@pytest.mark.parametrize("path", [":/nowhere", "/nowhere:", "."])
def test_the_daemon_ignores_a_pythonpath_that_means_the_working_directory(own: Home, tmp_path: Path, path: str) -> None:
    """The command itself cannot: Python reads the variable before it runs."""
    project = tmp_path / "project"
    project.mkdir()
    seen = tmp_path / "imported-by"
    (project / "sitecustomize.py").write_text(
        f"import sys\nwith open({str(seen)!r}, 'a') as file: print(sys.orig_argv[-1], file=file)\n"
    )
    up = subprocess.run(
        [sys.executable, "-P", "-m", "moot", "up"],
        cwd=project,
        env=own.environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert up.returncode == 0, up.stderr
    assert seen.read_text().split() == ["up"]


def test_up_twice_is_one_daemon(own: Home) -> None:
    first = data(run_cli(own, "up", "--json"))
    second = data(run_cli(own, "up", "--json"))

    assert (first["started"], second["started"]) == (True, False)
    assert first["pid"] == second["pid"]


def test_commands_that_start_the_daemon_at_the_same_moment_share_it(own: Home) -> None:
    command = [sys.executable, "-m", "moot", "ask", "ada", "Hello", "--json"]
    started = [
        fork_server.start(
            [*command, "--as", f"s{n}"],
            env=own.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for n in range(3)
    ]
    outputs = [process.communicate(timeout=PATIENCE) for process in started]

    assert [process.returncode for process in started] == [0, 0, 0], outputs
    assert len(data(call_cli(own, "conversations", "--json"))) == 3
    # One that was started in vain could come up later, once the first is told to stop.
    assert "already serves" not in (own.path / "logs" / "console.log").read_text(encoding="utf-8")


def test_down_also_stops_a_daemon_that_takes_the_place_of_the_first(own: Home) -> None:
    lock, pid = own.path / "data" / "moot.lock", own.path / "run" / "moot.pid"
    lock.parent.mkdir()
    pid.parent.mkdir()
    command = [sys.executable, "-c", DYNASTY, str(lock), str(pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"

        assert data(run_cli(own, "down", "--json")) == {"stopped": True}

    assert int(pid.read_text()) != first.pid


def test_a_daemon_that_cannot_start_shows_why(own: Home) -> None:
    own.write_config('default_model = "scripted"\nmodels = 3\n')

    done = run_cli(own, "ask", "ada", "Hello", "--json")

    error = json.loads(done.stdout)["error"]
    assert done.returncode == 78
    assert error["type"] == "bad_config"
    assert "config.toml:2" in error["message"]


def test_down_never_signals_a_process_that_only_inherited_the_pid(own: Home) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        (own.path / "run").mkdir()
        (own.path / "run" / "moot.pid").write_text(str(stranger.pid))

        assert data(run_cli(own, "down", "--json")) == {"stopped": False}
        assert stranger.poll() is None
        stranger.communicate(b"\n")

    assert stranger.returncode == 0


def test_down_now_does_not_wait_for_a_run_in_flight(own: Home) -> None:
    run_cli(own, "up")
    hanging = fork_server.start(
        [sys.executable, "-m", "moot", "ask", "ada", "hang"],
        env=own.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _until_active(own)
    assert run_cli(own, "down", "--now").returncode == 0
    assert hanging.wait(PATIENCE) in (1, 69)


def test_a_home_with_a_very_long_path_works(tmp_path: Path) -> None:
    home = Home(tmp_path / ("long" * 30)).furnish(script=SCRIPT)
    try:
        assert len(str(home.socket)) > 107
        assert run_cli(home, "ask", "ada", "Hello").stdout == "Heard: Hello\n"
    finally:
        assert run_cli(home, "down", "--now").returncode == 0


# ---- asking ----


def test_ask_and_history_name_who_spoke(daemon: LiveDaemon, sender: str) -> None:
    mine = data(daemon.cli("ask", "ada", "Hello", "--as", sender, "--json"))
    guest = data(daemon.cli("ask", "ada", "And you?", "--guest", "bob", "--as", sender, "--json"))
    history = data(daemon.cli("history", "ada", "--as", sender, "--json"))["messages"]

    assert (mine["agent"], mine["content"], mine["outcome"]) == ("ada", "Heard: Hello", "completed")
    assert (guest["agent"], guest["outcome"]) == ("bob", "completed")
    assert [(each["seq"], each["role"], each["agent"]) for each in history] == [
        (1, "user", ""),
        (2, "assistant", ""),
        (3, "user", ""),
        (4, "assistant", "bob"),
    ]
    assert history[0]["outcome"] == "completed"


def test_ask_reads_stdin(daemon: LiveDaemon, sender: str) -> None:
    assert daemon.cli("ask", "ada", "-", "--as", sender, stdin="from a pipe").stdout == "Heard: from a pipe\n"
    assert daemon.cli("ask", "ada", "--as", sender, stdin="again").stdout == "Heard: again\n"


def test_ask_appends_what_is_piped_to_its_text(daemon: LiveDaemon, sender: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("from a file\n")
    ask = [sys.executable, "-m", "moot", "ask", "ada", "Sum up:", "--as", sender]
    with notes.open() as file:
        from_file = fork_server.run(ask, env=daemon.home.environment(), stdin=file, timeout=PATIENCE, check=True)

    assert from_file.stdout == "Heard: Sum up:\n\nfrom a file\n"
    assert daemon.cli("ask", "ada", "Sum up:", "--as", sender, stdin="piped").stdout == "Heard: Sum up:\n\npiped\n"
    assert daemon.cli("ask", "ada", "Sum up:", "--as", sender, stdin=" \n").stdout == "Heard: Sum up:\n"


def test_ask_does_not_wait_for_a_pipe_that_stays_silent(daemon: LiveDaemon, sender: str) -> None:
    with fork_server.start(
        [sys.executable, "-m", "moot", "ask", "ada", "Hello", "--as", sender],
        env=daemon.home.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        # The pipe is still open for writing when the command is done.
        assert process.wait(PATIENCE) == 0
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == "Heard: Hello\n"
        assert "continuing without it" in process.stderr.read()


def test_the_same_message_id_is_one_turn(daemon: LiveDaemon, sender: str) -> None:
    first = data(daemon.cli("ask", "ada", "once", "--as", sender, "--message-id", "m1", "--json"))
    again = data(daemon.cli("ask", "ada", "once", "--as", sender, "--message-id", "m1", "--json"))

    assert first["content"] == again["content"]
    assert len(data(daemon.cli("history", "ada", "--as", sender, "--json"))["messages"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (("ask", "ghost", "hi"), 6, "not_found"),
        (("ask", "ada", "hi", "--guest", "ghost"), 6, "not_found"),
        (("ask", "ada", "hi", "--guest", "ada"), 2, "bad_request"),
        (("ask", "ada", ""), 2, "bad_request"),
        (("ask", "ada", "hi", "--as", "run:1"), 2, "bad_request"),
        (("history", "ada", "--as", "nobody"), 6, "not_found"),
        (("archives", "ada", "7"), 6, "not_found"),
        (("reply", "ada", "text", "--as", "nobody"), 6, "not_found"),
        (("ask", "ada", "fail", "--as", "failing"), 1, "model_error"),
        (("ask", "ada", "call forever", "--as", "limited", "--max-steps", "1"), 5, "limit"),
        (("ask", "ada", "hang", "--as", "timed", "--max-seconds", "0.2"), 5, "timeout"),
        (("usage", "nobody"), 6, "not_found"),
        (("usage", "ada", "--as", "nobody"), 6, "not_found"),
    ],
)
def test_every_failure_is_one_document_with_its_exit_code(
    daemon: LiveDaemon, arguments: tuple[str, ...], code: int, kind: str
) -> None:
    done = daemon.cli(*arguments, "--json")

    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"], document["error"]["type"]) == (code, False, kind)
    assert document["error"]["message"]
    assert document["error"]["fix"]


def test_a_question_leaves_the_run_waiting_until_reply_answers_it(daemon: LiveDaemon, sender: str) -> None:
    asked = daemon.cli("ask", "ada", "which colour", "--as", sender)
    waiting = data(daemon.cli("status", "--json"))["active"]
    replied = daemon.cli("reply", "ada", "Blue", "--as", sender)

    assert asked.returncode == 3
    assert "1. Red" in asked.stderr
    assert [each["waiting"] for each in waiting if each["sender"] == sender] == [True]
    assert replied.returncode == 0
    _until_idle(daemon, sender)
    assert data(daemon.cli("history", "ada", "--as", sender, "--json"))["messages"][-1]["content"] == "You chose Blue."


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [(("2",), "Blue"), (("2", "--literal"), "2"), (("7",), "7"), (("two of them",), "two of them")],
)
def test_reply_takes_the_number_of_an_option(
    daemon: LiveDaemon, sender: str, arguments: tuple[str, ...], chosen: str
) -> None:
    daemon.cli("ask", "ada", "which colour", "--as", sender)

    replied = data(daemon.cli("reply", "ada", *arguments, "--as", sender, "--json"))

    assert replied["content"] == chosen
    _until_idle(daemon, sender)
    assert (
        data(daemon.cli("history", "ada", "--as", sender, "--json"))["messages"][-1]["content"]
        == f"You chose {chosen}."
    )


def test_reply_knows_whose_question_it_answers_without_as(own: Home) -> None:
    run_cli(own, "ask", "ada", "which colour")

    assert data(call_cli(own, "reply", "ada", "1", "--json"))["content"] == "Red"


def test_status_shows_open_questions_and_how_to_answer_them(daemon: LiveDaemon, sender: str) -> None:
    daemon.cli("ask", "ada", "which colour", "--as", sender)

    shown = daemon.cli("status").stdout
    asks = [ask for ask in data(daemon.cli("status", "--json"))["asks"] if ask["sender"] == sender]
    daemon.cli("kill", "ada", "--as", sender)

    assert "Colour: Which colour?\n    1. Red\n    2. Blue\n" in shown
    assert f"moot reply ada --as '{sender}'" in shown or f"moot reply ada --as {sender}" in shown
    assert [option["label"] for option in asks[0]["questions"][0]["options"]] == ["Red", "Blue"]
    assert asks[0]["reply"].startswith("moot reply ada --as ")


def test_kill_says_whether_anything_ran(daemon: LiveDaemon, sender: str) -> None:
    daemon.cli("ask", "ada", "which colour", "--as", sender)

    killed = data(daemon.cli("kill", "ada", "--as", sender, "--json"))
    _until_idle(daemon, sender)
    idle = daemon.cli("kill", "ada", "--as", sender, "--json")

    assert (killed["killed"], data(idle)["killed"], idle.returncode) == (True, False, 0)
    assert daemon.cli("kill", "ada", "--as", sender).stdout == "ada has no active run here.\n"


def test_ctrl_c_kills_the_run_and_exits_130(daemon: LiveDaemon, sender: str) -> None:
    process = fork_server.start(
        [sys.executable, "-m", "moot", "ask", "ada", "hang", "--as", sender, "--json"],
        env=daemon.home.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _until_active(daemon.home, sender)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)

    assert process.returncode == 130
    assert json.loads(out)["data"]["outcome"] == "cancelled"
    assert data(daemon.cli("history", "ada", "--as", sender, "--json"))["messages"][0]["outcome"] == "cancelled"


def test_ctrl_c_on_a_message_that_still_waits_does_not_kill_the_run_before_it(daemon: LiveDaemon, sender: str) -> None:
    def ask(text: str) -> "subprocess.Popen[str]":
        return fork_server.start(
            [sys.executable, "-m", "moot", "ask", "ada", text, "--as", sender],
            env=daemon.home.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    first = ask("hang")
    _until_active(daemon.home, sender)
    second = ask("me too")
    assert second.stderr is not None
    assert "position 1" in second.stderr.readline()
    second.send_signal(signal.SIGINT)
    _, left = second.communicate(timeout=PATIENCE)

    assert second.returncode == 130
    assert "stays in the queue" in left
    assert [each["queued"] for each in _active(daemon.home, sender)] == [1]
    daemon.cli("kill", "ada", "--as", sender)
    first.communicate(timeout=PATIENCE)
    _until_idle(daemon, sender)
    told = data(daemon.cli("history", "ada", "--as", sender, "--json"))["messages"]
    assert [each["content"] for each in told] == ["hang", "me too", "Heard: me too"]


def test_kill_from_another_terminal_ends_the_run(daemon: LiveDaemon, sender: str) -> None:
    process = fork_server.start(
        [sys.executable, "-m", "moot", "ask", "ada", "hang", "--as", sender],
        env=daemon.home.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _until_active(daemon.home, sender)

    assert daemon.cli("kill", "ada", "--as", sender).returncode == 0
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 1


# ---- looking and keeping ----


def test_compacted_history_can_be_browsed_recalled_exported_and_imported(
    daemon: LiveDaemon, sender: str, tmp_path: Path
) -> None:
    daemon.cli("ask", "ada", "The lighthouse is red", "--as", sender)
    daemon.cli("ask", "ada", "And you?", "--guest", "bob", "--as", sender)
    compacted = data(daemon.cli("compact", "ada", "--as", sender, "--json"))
    archives = data(daemon.cli("archives", "ada", "--as", sender, "--json"))
    archive = data(daemon.cli("archives", "ada", "1", "--as", sender, "--json"))
    recalled = data(daemon.cli("recall", "ada", "lighthouse", "--as", sender, "--json"))

    assert compacted["number"] == 1
    assert [each["number"] for each in archives] == [1]
    assert [each["agent"] for each in archive["messages"]] == ["", "", "", "bob"]
    assert recalled[0]["number"] == 1
    assert "lighthouse" in daemon.cli("archives", "ada", "1", "--as", sender).stdout

    file = tmp_path / "kept.jsonl"
    assert data(daemon.cli("export", "ada", "--as", sender, "-o", str(file), "--json"))["messages"] == 4
    assert daemon.cli("export", "ada", "--as", sender, "-o", str(file)).returncode == 1
    imported = data(daemon.cli("import", str(file), "--as", f"{sender}-copy", "--json"))
    assert (imported["messages"], imported["archives"], imported["skipped"]) == (4, 1, [])
    copy = data(daemon.cli("history", "ada", "--as", f"{sender}-copy", "--all", "--json"))["messages"]
    original = data(daemon.cli("history", "ada", "--as", sender, "--all", "--json"))["messages"]
    kept = ("seq", "role", "content", "agent", "archive")
    assert [[each.get(key) for key in kept] for each in copy] == [[each.get(key) for key in kept] for each in original]


def test_conversations_and_usage_are_lists(daemon: LiveDaemon, sender: str) -> None:
    daemon.cli("ask", "ada", "Hello", "--as", sender)

    listed = data(daemon.cli("conversations", "--as", sender, "--json"))
    same = data(daemon.cli("convo", "list", "--as", sender, "--json"))
    used = data(daemon.cli("usage", "ada", "--as", sender, "--json"))

    assert [(each["agent"], each["sender"], each["messages"]) for each in listed] == [("ada", sender, 2)]
    assert listed == same
    assert [(each["model"], each["runs"]) for each in used] == [("scripted", 1)]
    assert sender in daemon.cli("conversations").stdout


def test_delete_shows_first_and_deletes_only_when_told_to(daemon: LiveDaemon, sender: str) -> None:
    daemon.cli("ask", "ada", "Hello", "--as", sender)

    preview = data(daemon.cli("delete", "ada", "--as", sender, "--json"))
    refused = daemon.cli("delete", "ada", "--as", sender)
    still_there = daemon.cli("history", "ada", "--as", sender).returncode
    deleted = data(daemon.cli("delete", "ada", "--as", sender, "--yes", "--json"))

    assert (preview["messages"], preview["deleted"]) == (2, False)
    assert (refused.returncode, still_there) == (2, 0)
    assert f"2 messages, 0 archives and 1 run of ada as {sender}." in refused.stderr
    assert deleted["deleted"] is True
    assert daemon.cli("history", "ada", "--as", sender).returncode == 6


def test_the_feed_shows_what_happens_elsewhere(daemon: LiveDaemon, sender: str) -> None:
    feed = fork_server.start(
        [sys.executable, "-m", "moot", "events", "-n", "3", "--ndjson"],
        env=daemon.home.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert feed.stderr is not None
    assert "Following" in feed.stderr.readline()
    daemon.cli("ask", "ada", "Hello", "--as", sender)
    out, _ = feed.communicate(timeout=PATIENCE)

    events = [json.loads(line) for line in out.splitlines()]
    assert [each["sender"] for each in events] == [sender] * 3
    assert events[0]["kind"] == "started"


def test_agents_are_listed_and_a_broken_file_makes_status_exit_78(own: Home) -> None:
    broken = own.write_agent("cyd")
    broken.write_text("---\nname: [\n---\n", encoding="utf-8")

    listed = call_cli(own, "agents", "--json")
    status = call_cli(own, "status", "--json")

    assert (listed.returncode, json.loads(listed.stdout)["error"]["type"]) == (78, "bad_config")
    assert {"ada", "bob", "moot"} <= {each["name"] for each in json.loads(listed.stdout)["data"]}
    assert status.returncode == 78
    document = json.loads(status.stdout)
    assert (document["ok"], document["error"]["type"]) == (False, "bad_config")
    assert any(str(broken) in flaw for flaw in document["data"]["flaws"])
    assert "You are ada." in call_cli(own, "agents", "show", "ada").stdout
    assert call_cli(own, "agents", "show", "ghost").returncode == 6
    for command in (("ask", "cyd", "hi"), ("ask", "ada", "hi", "--guest", "cyd"), ("agents", "show", "cyd")):
        refused = run_cli(own, *command, "--json")
        assert (refused.returncode, json.loads(refused.stdout)["error"]["type"]) == (78, "bad_config")
        assert str(broken) in json.loads(refused.stdout)["error"]["message"]


def test_a_token_opens_the_tcp_door_for_its_own_sender_only(own: Home) -> None:
    own.write_config(CONFIG.replace('tcp = "off"', 'tcp = "127.0.0.1:0"'))
    token = data(call_cli(own, "tokens", "new", "bot", "--json"))["token"]
    address = data(call_cli(own, "status", "--json"))["tcp"]

    def remote(*arguments: str, secret: str) -> "subprocess.CompletedProcess[str]":
        return fork_server.run(
            [sys.executable, "-m", "moot", "--address", address, *arguments],
            env=own.environment(MOOT_TOKEN=secret),
            timeout=PATIENCE,
        )

    asked = data(remote("ask", "ada", "Hello", "--json", secret=token))
    assert asked["content"] == "Heard: Hello"
    assert [each["sender"] for each in data(call_cli(own, "conversations", "--json"))] == ["bot"]
    assert remote("ask", "ada", "Hello", "--as", "user", secret=token).returncode == 4
    assert remote("ask", "ada", "Hello", secret="moot_wrong").returncode == 4
    none = remote("ask", "ada", "Hello", secret="")
    assert none.returncode == 4
    assert "export MOOT_TOKEN=" in none.stderr
    assert remote("tokens", "list", secret=token).returncode == 4
    # What a token is not told is left out, and not shown as nothing.
    status = remote("status", secret=token).stdout
    assert status.startswith("Moot ")
    assert not any(absent in status for absent in ("pid", "connection", " MB"))
    assert "(pid " in call_cli(own, "status").stdout
    assert call_cli(own, "tokens", "revoke", "bot").returncode == 0
    assert remote("ask", "ada", "Hello", secret=token).returncode == 4


def test_a_backup_is_restored_with_the_daemon_down(own: Home, tmp_path: Path) -> None:
    run_cli(own, "ask", "ada", "Before")
    backed_up = data(call_cli(own, "backup", str(tmp_path / "copy.db"), "--json"))
    run_cli(own, "ask", "ada", "After")
    refused = call_cli(own, "restore", str(tmp_path / "copy.db"), "--yes")
    run_cli(own, "down")
    unasked = call_cli(own, "restore", str(tmp_path / "copy.db"))
    preview = data(call_cli(own, "restore", str(tmp_path / "copy.db"), "--json"))
    absent = call_cli(own, "restore", str(tmp_path / "absent.db"), "--json")
    untouched = not list((own.path / "data").glob("*before-restore*"))
    restored = call_cli(own, "restore", str(tmp_path / "copy.db"), "--yes", "--json")
    history = data(call_cli(own, "history", "ada", "--json"))["messages"]

    assert backed_up["bytes"] == os.path.getsize(tmp_path / "copy.db")
    assert refused.returncode == 1
    assert (unasked.returncode, "--yes" in unasked.stderr, absent.returncode) == (2, True, 6)
    assert (preview["restored"], preview["bytes"], untouched) == (False, backed_up["bytes"], True)
    assert Path(data(restored)["kept"]).exists()
    assert [each["content"] for each in history] == ["Before", "Heard: Before"]


def test_reload_takes_a_new_agent_and_names_what_is_broken(own: Home) -> None:
    run_cli(own, "up")
    own.write_agent("dora")
    good = call_cli(own, "reload", "--json")
    own.write_config("default_model = 3\n")
    bad = call_cli(own, "reload", "--json")
    told = call_cli(own, "reload").stderr

    assert data(good)["agents"] == 5 + len(ROLES)
    document = json.loads(bad.stdout)
    assert (bad.returncode, document["ok"], document["error"]["type"]) == (78, False, "bad_config")
    assert "config.toml:1" in document["data"]["flaws"][0]
    assert "the last valid one is still used" in document["error"]["fix"]
    assert "the last valid one is still used" in told
    own.write_config("no_such_key = 1\nmultiAgent = true\n" + CONFIG)
    unknown = call_cli(own, "reload")
    assert "unknown key `multiAgent`, ignored; did you mean `multiAgent` in [agent]?" in unknown.stderr
    assert unknown.returncode == 0
    assert "unknown key `no_such_key`, ignored" in unknown.stderr
    assert "The rest of the configuration is used." in unknown.stderr
    assert "last good" not in unknown.stderr
    own.write_config()


def _active(home: Home, sender: str) -> list[Any]:
    active = data(call_cli(home, "status", "--json"))["active"]
    return [each for each in active if sender in ("", each["sender"])]


def _until_active(home: Home, sender: str = "") -> None:
    deadline = time.monotonic() + PATIENCE
    while not _active(home, sender):
        assert time.monotonic() < deadline


def _until_idle(daemon: LiveDaemon, sender: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while _active(daemon.home, sender):
        assert time.monotonic() < deadline
