"""Groups of subcommands: what they do without one, the words they understand, and their help."""

import json
from collections.abc import Iterator

import click
import pytest

from moot.cli.main import COMMANDS, load_command
from tests.daemon_process import Home, call_cli
from tests.daemon_thread import DaemonThread, daemon_thread


@pytest.fixture
def daemon(home: Home) -> Iterator[DaemonThread]:
    with daemon_thread(home) as running:
        yield running


@pytest.mark.parametrize("group", ["peers", "graph", "secrets", "tokens", "cron", "bg", "rules", "tasks", "memory"])
def test_a_group_without_a_subcommand_lists_what_there_is(daemon: DaemonThread, group: str) -> None:
    done = daemon.cli(group, "--json")

    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["ok"] is True


def test_a_service_without_a_subcommand_shows_its_state(home: Home) -> None:
    assert call_cli(home, "service").stdout == call_cli(home, "service", "status").stdout


def test_common_words_are_understood_for_a_subcommand(daemon: DaemonThread) -> None:
    daemon.cli("tokens", "create", "laptop")

    assert [each["name"] for each in daemon.cli_json("tokens", "ls")["data"]] == ["laptop"]
    assert "Revoked laptop." in daemon.cli("tokens", "rm", "laptop").stdout
    assert "there is no rule 7" in daemon.cli("rules", "remove", "7").stderr
    assert "Did you mean: moot cron pause?" in daemon.cli("cron", "pauze", "x").stderr


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_help_of_every_group_shows_whole_sentences(width: int) -> None:
    for name, entry in COMMANDS.items():
        command = load_command(entry.target)
        if not isinstance(command, click.Group):
            continue
        shown = command.get_help(click.Context(command, info_name=name, terminal_width=width))
        assert "..." not in shown.partition("Commands:")[2], name
        assert max(map(len, shown.splitlines())) <= width, name
