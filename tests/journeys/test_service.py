"""moot service: the unit file starts a daemon that reports when it is ready, and is removed again."""

import configparser
import json
import os
import plistlib
import pwd
import shlex
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from moot.cli.commands import uninstall
from moot.cli.main import run
from moot.cli.setup.unit_files import launchd_agent, systemd_user_unit
from tests.daemon_process import Home, call_cli, run_cli, running

SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$SYSTEMCTL_LOG"
case "$*" in *is-active*) echo active;; esac
"""
PROXY_VARIABLES = [case(f"{kind}_proxy") for kind in ("http", "https", "all", "no") for case in (str.lower, str.upper)]


@pytest.fixture
def machine(home: Home, tmp_path: Path) -> dict[str, str]:
    """The environment of a machine whose systemctl writes down what it is told."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "systemctl").write_text(SYSTEMCTL)
    (programs / "systemctl").chmod(0o755)
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "SYSTEMCTL_LOG": str(tmp_path / "systemctl.log"),
        "XDG_CONFIG_HOME": str(tmp_path / "config with space"),
    }


def read_unit(path: Path) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read(path)
    return unit


def test_a_dry_run_prints_the_file_and_the_commands_and_changes_nothing(home: Home, machine: dict[str, str]) -> None:
    done = run_cli(home, "service", "install", "--dry-run", "--json", **machine)

    data = json.loads(done.stdout)["data"]
    assert "Type=notify" in data["text"]
    assert data["commands"] == ["systemctl --user daemon-reload", "systemctl --user enable --now moot.service"]
    assert not Path(data["path"]).exists()
    assert not Path(machine["SYSTEMCTL_LOG"]).exists()


def test_a_service_of_another_user_has_none_of_the_folders_of_who_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root / ".cargo/bin", other / ".local/bin"):
        folder.mkdir(parents=True)
    account = pwd.struct_passwd(("other", "x", os.getuid() + 1, 1, "", str(other), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", {"other": account}.__getitem__)
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.setenv("PATH", f"{root}/.cargo/bin:/usr/sbin:/usr/bin:/usr/sbin")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / ".config"))
    monkeypatch.setenv("MOOT_HOME", "/srv/moot")
    assert run(["service", "install", "--system", "--user", "other", "--dry-run"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Environment=")]
    path = f"{other}/.local/bin:/usr/sbin:/usr/bin"
    assert lines == ['Environment="MOOT_HOME=/srv/moot"', f'Environment="PATH={path}"']


def test_a_service_of_a_user_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--dry-run", "--json"):
        assert run(["service", "install", "--system", "--user", "no-such-user", option]) == 2
    assert "there is no user 'no-such-user' on this machine" in "".join(capsys.readouterr())


def test_the_variables_of_a_proxy_are_kept_but_not_one_with_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    proxies = {"HTTP_PROXY": "http://one:3128", "https_proxy": "http://two:3128", "no_proxy": "localhost,.lan"}
    for name, value in {**proxies, "HTTPS_PROXY": "http://ada:hush@three:3128"}.items():
        monkeypatch.setenv(name, value)
    assert run(["service", "install", "--dry-run"]) == 0
    printed = capsys.readouterr()
    for name, value in proxies.items():
        assert f'"{name}={value}"' in printed.out or f"<key>{name}</key>" in printed.out
    assert "hush" not in printed.out
    noted = " ".join(printed.err.split())
    assert "HTTPS_PROXY is left out: it has a password, and other users can read the service file." in noted
    assert '`proxy = "secret:NAME"` in [network]' in noted
    assert run(["service", "status"]) in (0, 1)
    assert "HTTPS_PROXY" not in capsys.readouterr().err


def test_where_systemd_does_not_answer_nothing_is_written_or_stopped(home: Home, machine: dict[str, str]) -> None:
    program = Path(machine["PATH"].partition(":")[0]) / "systemctl"
    program.write_text("#!/bin/sh\necho Failed to connect to bus: No medium found >&2\nexit 1\n")
    with running(home) as daemon:
        done = run_cli(home, "service", "install", "--json", **machine)
        error = json.loads(done.stdout)["error"]
        assert (done.returncode, daemon.cli("status").returncode) == (69, 0)
        assert error["message"] == "systemd does not answer here: Failed to connect to bus: No medium found"
        assert "`moot up`" in error["fix"]
    assert not Path(machine["XDG_CONFIG_HOME"], "systemd").exists()


def test_the_installed_unit_starts_a_daemon_that_reports_when_it_is_ready_and_when_it_stops(
    home: Home, machine: dict[str, str], tmp_path: Path
) -> None:
    data = json.loads(run_cli(home, "service", "install", "--json", **machine).stdout)["data"]
    unit = read_unit(Path(data["path"]))
    asked, *done = Path(machine["SYSTEMCTL_LOG"]).read_text().splitlines()
    assert (asked, done) == (
        "--user is-active moot.service",
        ["--user daemon-reload", "--user enable --now moot.service"],
    )
    assert json.loads(run_cli(home, "service", "status", "--json", **machine).stdout)["data"]["active"] is True

    # What systemd would do with the unit.
    address = f"\0moot-test-{os.getpid()}-{tmp_path.name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        environment = dict(line.split("=", 1) for line in shlex.split(unit["Service"]["Environment"]))
        process = subprocess.Popen(
            shlex.split(unit["Service"]["ExecStart"]),
            env=home.environment(**environment, NOTIFY_SOCKET=address.replace("\0", "@", 1)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            ready = manager.recv(4096).decode()
            assert ready.startswith("READY=1\nSTATUS=moot is ready: unix:")
            assert call_cli(home, "status").returncode == 0
            process.send_signal(signal.SIGTERM)
            assert manager.recv(4096).decode() == "STOPPING=1"
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()

    removed = run_cli(home, "service", "uninstall", "--json", **machine)
    assert json.loads(removed.stdout)["data"]["removed"] is True
    assert not Path(data["path"]).exists()
    assert run_cli(home, "service", "status", **machine).returncode == 1


def test_words_of_the_unit_are_quoted() -> None:
    service = systemd_user_unit(("/a b/python", "-m", "moot"), {"X": '50% "$HOME"'}, config=Path("/c"))

    assert 'ExecStart="/a b/python" "-m" "moot"' in service.text
    assert 'Environment="X=50%% \\"$$HOME\\""' in service.text


def test_launchd_restarts_a_daemon_that_failed_and_not_one_that_was_stopped() -> None:
    service = launchd_agent(("/p", "-m", "moot", "serve"), {"MOOT_HOME": "/h"}, home=Path("/Users/me"), uid=501)

    document = plistlib.loads(service.text.encode())
    assert document["ProgramArguments"] == ["/p", "-m", "moot", "serve"]
    assert document["KeepAlive"] == {"SuccessfulExit": False}
    assert service.stop == (("launchctl", "bootout", "gui/501/moot.daemon"),)


def test_without_a_service_manager_it_says_what_else_to_do(home: Home, tmp_path: Path) -> None:
    done = run_cli(home, "service", "install", "--json", PATH=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))

    assert done.returncode != 0
    assert "moot up" in json.loads(done.stdout)["error"]["fix"]
    assert not (tmp_path / "systemd").exists()


def test_uninstalling_names_the_command_that_removes_the_service(home: Home, machine: dict[str, str]) -> None:
    installed = json.loads(run_cli(home, "service", "install", "--json", **machine).stdout)["data"]

    refused = json.loads(run_cli(home, "uninstall", "--json", **machine).stdout)
    assert installed["path"] in refused["error"]["message"]
    assert refused["error"]["fix"].endswith("moot service uninstall")
    assert json.loads(run_cli(home, "uninstall", "--dry-run", "--json", **machine).stdout)["data"]["service"]

    assert run_cli(home, "service", "uninstall", **machine).returncode == 0
    assert run_cli(home, "uninstall", **machine).returncode == 0


def test_a_service_file_is_removed_where_the_service_manager_is_gone(home: Home, machine: dict[str, str]) -> None:
    installed = json.loads(run_cli(home, "service", "install", "--json", **machine).stdout)["data"]
    without = machine | {"PATH": str(Path(machine["SYSTEMCTL_LOG"]).parent)}

    assert "systemctl is missing" in run_cli(home, "service", "status", **without).stdout
    removed = run_cli(home, "service", "uninstall", **without)
    assert removed.returncode == 0, removed.stderr
    assert not Path(installed["path"]).exists()


def test_the_file_is_named_if_systemd_does_not_answer_when_the_service_is_removed(
    home: Home, machine: dict[str, str]
) -> None:
    installed = json.loads(run_cli(home, "service", "install", "--json", **machine).stdout)["data"]
    program = Path(machine["PATH"].partition(":")[0]) / "systemctl"
    program.write_text("#!/bin/sh\necho Failed to connect to bus: No medium found >&2\nexit 1\n")

    error = json.loads(run_cli(home, "service", "uninstall", "--json", **machine).stdout)["error"]
    assert "No medium found" in error["message"]
    assert f"rm {shlex.quote(installed['path'])}" in error["fix"]


def test_a_system_service_is_shown_without_the_user_it_runs_as(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert run(["service", "status", "--system"]) == 1
    assert "not installed (/etc/systemd/system/moot.service)" in capsys.readouterr().out
    assert run(["service", "uninstall", "--system", "--dry-run"]) == 0


def test_uninstalling_names_the_option_that_removes_the_service_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = tmp_path / "moot.service"
    unit.write_text("[Unit]\n")
    monkeypatch.setattr(uninstall, "SYSTEM_UNITS", tmp_path)
    for name in ("HOME", "MOOT_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert run(["uninstall", "--dry-run"]) == 0
    assert f"moot service uninstall --system ({unit})" in capsys.readouterr().out
