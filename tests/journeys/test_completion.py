"""The shell completes commands, options and names; a daemon that is down is neither started nor waited for."""

import subprocess
from pathlib import Path

import pytest

from tests.daemon_process import Home, LiveDaemon, call_cli, run_cli

SCRIPT = '[[rule]]\nmatch = "ask me"\nhang = true\n[[rule]]\nreply = "Heard: {user}"\n'


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
