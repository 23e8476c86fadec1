"""moot demo peers: agents of two daemons write to each other over a real NATS server, and nothing is left behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from moot.cli.demo import two_daemons
from moot.domain.errors import Unavailable
from tests import fork_server
from tests.daemon_process import Home
from tests.terminal import terminal

COMMAND = [sys.executable, "-m", "moot", "demo", "peers"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "tmp").mkdir()
    return Home(tmp_path / "home")


def make_environment(home: Home) -> dict[str, str]:
    # Everything temporary is below a folder that this test knows.
    return home.environment(TMPDIR=find_folder(home))


def find_folder(home: Home) -> str:
    return str(home.path.parent / "tmp")


def list_left(home: Home) -> list[str]:
    """Return the files and the processes of a demo that has ended."""
    folder = str(home.path.parent)
    return [*os.listdir(find_folder(home)), *(line for line in _list_commands() if folder in line)]


def _list_commands() -> Iterator[str]:
    """Return command line and environment of each process, as far as they can be read; not those of this one."""
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) != os.getpid():
            try:
                yield ((process / "cmdline").read_bytes() + (process / "environ").read_bytes()).decode(errors="replace")
            except OSError:
                continue


def test_three_agents_and_a_coordinator_write_to_each_other_also_across_a_restart_of_nats(home: Home) -> None:
    done = fork_server.run(COMMAND, env=make_environment(home), stdin=subprocess.DEVNULL, timeout=100)

    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[0] == "The answers are scripted: no model that can use tools is configured."
    expected = [
        "desk: lead (coordinator), writer",
        "laptop: researcher, critic",
        "lead@desk → researcher@laptop: One fact about the sea, please.",
        "researcher@laptop → lead@desk: It covers 71 % of the Earth.",
        "lead@desk → writer@desk: One sentence about the sea, please. It covers 71 % of the Earth.",
        "critic@laptop → lead@desk: Good and short. Say how much we know.",
        "you → researcher@laptop: Thank you for the fact.",
        "writer has read it. The message to researcher@laptop waits in the store of desk.",
        "8 messages were sent, and each was read exactly once; 1 had waited.",
        "Scripted answers were shown, not a model's.",
    ]
    assert [line for line in lines if line in expected] == expected
    assert list_left(home) == []
    # Its home folder is not touched either.
    assert not home.path.exists()


def test_ctrl_c_stops_all_of_its_processes(home: Home) -> None:
    with terminal(home, "demo", "peers", TMPDIR=find_folder(home)) as screen:
        screen.wait_for("1. Two daemons find each other")
        # The NATS server and two daemons. Only root sees more of a daemon than that it is there.
        started = psutil.Process(screen.pid).children(recursive=True)
        assert len(started) >= 3
        screen.type("\x03")
        assert screen.wait_for_exit() != 0

    assert list_left(home) == []
    assert not [process for process in started if process.is_running()]


@pytest.mark.parametrize(
    ("lines", "name", "reason"),
    [
        ("", "scripted", "no model that can use tools is configured"),
        ('provider = "local"', "scripted", "no model that can use tools is configured"),
        ('provider = "openai"\napi_key = "env:KEY"', "mine", ""),
        (
            'provider = "openai"\napi_key = "secret:KEY"',
            "scripted",
            "the key of mine is in the vault of your daemon, which the demo does not read",
        ),
    ],
)
def test_a_configured_model_is_used_if_the_daemons_of_the_demo_can(
    tmp_path: Path, lines: str, name: str, reason: str
) -> None:
    file = tmp_path / "config.toml"
    if lines:
        file.write_text(f'default_model = "mine"\n[models.mine]\n{lines}\n')
    model = two_daemons.choose_model(file)
    assert (model.name, model.reason) == (name, reason)


def test_without_the_server_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing() -> Path:
        raise Unavailable("nats-server is not installed")

    monkeypatch.setattr(two_daemons, "find_server", find_nothing)
    with pytest.raises(Unavailable, match="nats-server is not installed") as raised:
        two_daemons.check_programs()
    assert raised.value.fix == "Run: pip install 'moot[nats,nats-server]'"
