"""The shell completes commands, options and names; a daemon that is down is neither started nor waited for."""

import os
import subprocess
from pathlib import Path

import pytest

from moot.cli.project_sender import derive_sender
from tests.daemon_process import Home, LiveDaemon, call_cli, run_cli
from tests.scripting import call, say, script

SCRIPT = script(
    {"match": "ask me", "hang": True},
    {"match": "^make", "steps": [call("exec", command="make all"), say("Done.")]},
    {"reply": "Heard: {user}"},
)


def complete(home: Home, *words: str) -> list[str]:
    """What bash would offer for the last of these words."""
    line = " ".join(("moot", *words))
    done = run_cli(home, _MOOT_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words)))
    assert done.stderr == ""
    return [offered.partition(",")[2] for offered in done.stdout.splitlines() if offered]


def test_commands_options_and_names_are_completed(daemon: LiveDaemon) -> None:
    home = daemon.home
    assert complete(home, "conv") == ["conversations"]
    assert complete(home, "tokens", "re") == ["revoke"]
    assert complete(home, "history", "--he") == ["--here", "--help"]
    assert complete(home, "history", "ad") == ["ada"]
    assert complete(home, "chat", "--guest", "b") == ["bob"]
    assert complete(home, "ask", "ada", "--guest", "b") == ["bob"]
    assert complete(home, "models", "use", "ada", "scr") == ["scripted"]
    daemon.cli("tokens", "new", "laptop")
    assert complete(home, "tokens", "revoke", "l") == ["laptop"]
    daemon.cli("ask", "ada", "hello", "--as", "tg:7")
    assert complete(home, "history", "ada", "--as", "tg") == ["tg:7"]
    (run,) = [each["run_id"] for each in daemon.cli_json("ps", "-a")["data"]]
    assert complete(home, "show", "run-") == [run]
    # It has ended: there is nothing to stop.
    assert complete(home, "stop", "run-") == []


def test_numbers_of_rules_and_archives_are_completed(daemon: LiveDaemon, sender: str) -> None:
    home = daemon.home
    assert complete(home, "rules", "rm", "") == []
    assert daemon.cli("ask", "ada", "make it", "--as", sender).returncode == 3
    (ask,) = daemon.cli_json("inbox")["data"]
    assert daemon.cli("inbox", "approve", ask["ask_id"], "--attempt", "1", "--always", "--yes").returncode == 0
    (rule,) = daemon.cli_json("rules")["data"]
    assert complete(home, "rules", "rm", "") == [str(rule["number"])]

    for _ in range(2):
        daemon.cli("ask", "bob", "hello", "--as", sender)
        assert daemon.cli("new", "bob", "--as", sender).returncode == 0
    for command in ("archives", "resume"):
        assert complete(home, command, "b") == ["bob"]
        assert complete(home, command, "bob", "--as", sender, "") == ["1", "2"]
        assert complete(home, command, "bob", "--as", "another", "") == []
    assert complete(home, "recall", "b") == ["bob"]
    project = derive_sender(sender, os.getcwd())
    daemon.cli("ask", "bob", "hello", "--as", project)
    daemon.cli("new", "bob", "--as", project)
    assert complete(home, "archives", "bob", "--as", sender, "--here", "") == ["1"]


@pytest.mark.parametrize("command", [("chat",), ("ask", "ada", "hello"), ("run", "x"), ("project",), ("cron", "add")])
def test_bash_completes_the_folder_of_cwd(home: Home, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "projects" / "app").mkdir(parents=True)
    (tmp_path / "projects" / "apple.txt").touch()
    line = [*command, "--cwd", f"{tmp_path}/projects/ap"]
    done = run_cli(
        home, _MOOT_COMPLETE="bash_complete", COMP_WORDS=" ".join(("moot", *line)), COMP_CWORD=str(len(line))
    )
    assert done.stdout.startswith("dir,")
    # The script hands folders over to bash, which knows them best.
    script = call_cli(home, "completion", "bash").stdout
    asked = f'compgen -d -- "{tmp_path}/projects/ap"'
    found = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    assert ("compopt -o dirnames" in script, found) == (True, [f"{tmp_path}/projects/app"])


def test_without_a_daemon_nothing_is_offered_and_none_is_started(home: Home) -> None:
    assert complete(home, "history", "a") == []
    assert complete(home, "con") == ["conversations"]
    assert complete(home, "help", "appr") == ["approvals"]
    assert not home.socket.exists()


@pytest.mark.parametrize(
    ("shell", "part"), [("bash", "complete -o nosort"), ("zsh", "#compdef moot"), ("fish", "complete")]
)
def test_the_script_of_each_shell_is_printed(home: Home, shell: str, part: str) -> None:
    done = call_cli(home, "completion", shell)
    assert done.returncode == 0
    assert part in done.stdout
    assert run_cli(home, "completion", SHELL=f"/bin/{shell}").stdout == done.stdout
    assert "Name one: bash, zsh, fish." in run_cli(home, "completion", SHELL="/bin/tcsh").stderr
