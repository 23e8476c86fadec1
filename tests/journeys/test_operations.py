"""What an operator uses: the daemon's log, the pages of the documentation, a taken port, and removing everything."""

import asyncio
import json
import shutil
import socket
import sys
from pathlib import Path

import pytest

from moot.cli.connect import ensure_running
from moot.cli.main import COMMANDS
from moot.client import daemon_process
from moot.daemon.paths import Paths
from tests.daemon_process import Home, call_cli, eventually, run_cli, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.terminal import terminal

MODEL = """default_model = "m"
[models.m]
provider = "openai"
base_url = "URL/v1"
model = "m"
window = 32000
retries = 1
[listen]
http = "127.0.0.1:0"
tcp = "off"
"""


class AsyncAnswer:
    """A coroutine function that returns one value."""

    def __init__(self, value: int) -> None:
        self._value = value

    async def __call__(self, _: Paths) -> int:
        return self._value


def read_log(home: Home, *options: str) -> list[str]:
    done = call_cli(home, "logs", "--daemon", "--json", *options)
    return [entry["message"] for entry in json.loads(done.stdout)["data"]]


def test_the_log_has_starts_reloads_rejected_tokens_retries_failures_and_stops(home: Home, provider: Provider) -> None:
    home.write_config(MODEL.replace("URL", provider.url))
    with running(home) as daemon:
        daemon.cli("reload")
        provider.program({"status": 503, "headers": {"Retry-After": "0"}}, {"status": 401})
        assert daemon.cli("ask", "ada", "hello").returncode == 1
        host, port = (
            json.loads(daemon.cli("status", "--json").stdout)["data"]["http"].removeprefix("http://").split(":")
        )
        with socket.create_connection((host, int(port))) as client:
            client.sendall(
                f"GET /v1/models HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer moot_wrong\r\n\r\n".encode()
            )
            assert b" 401 " in client.recv(4096).split(b"\r\n")[0]

    said = "\n".join(read_log(home))
    assert "starts (pid" in said
    assert "moot is ready: unix:" in said
    assert "reloaded the configuration" in said
    assert "retry 1 in" in said
    assert "of ada: model_error: " in said
    assert "rejected a token: it is unknown" in said
    assert said.rstrip().endswith("stopped")
    worse = read_log(home, "--level", "warning", "-n", "2")
    assert len(worse) == 2
    assert "moot is ready" not in "".join(worse)


def test_the_log_can_be_followed_across_its_rotation(home: Home) -> None:
    log = home.log
    with daemon_thread(home) as daemon, terminal(home, "logs", "--daemon", "-f") as person:
        daemon.cli("reload")
        person.wait_for("reloaded the configuration")
        log.rename(log.with_name("moot.log.1"))
        log.write_text('{"at":"2030-01-01T00:00:00.000Z","level":"error","message":"after the rotation"}\n')
        person.wait_for("after the rotation")
        person.type("\x03")
        person.wait_for_exit()


async def test_the_output_of_a_daemon_in_the_background_is_rotated_while_it_is_written(home: Home) -> None:
    console = home.log.with_name("console.log")
    console.parent.mkdir(parents=True, exist_ok=True)
    console.write_text("before the start\n" * 600_000)
    with daemon_thread(home), console.open("ab") as writer:
        assert console.stat().st_size == 0
        first = console.with_name("console.log.1")
        assert first.read_text().startswith("before the start\n")
        assert first.stat().st_mode & 0o777 == 0o600
        # A child such as an embedded model keeps the file open across a rotation.
        writer.write(b"while it runs\n" * 700_000)
        writer.flush()
        await eventually(lambda: console.stat().st_size == 0)
        writer.write(b"afterwards\n")
        writer.flush()
        assert console.read_text() == "afterwards\n"
        assert first.read_text().startswith("while it runs\n")
        assert console.with_name("console.log.2").read_text().startswith("before the start\n")


def test_a_run_or_the_daemon_must_be_named(home: Home) -> None:
    assert call_cli(home, "logs").returncode == 2


def test_the_pages_of_the_documentation_are_shown(home: Home) -> None:
    listed = json.loads(call_cli(home, "help", "--json").stdout)["data"]
    assert {"quickstart", "approvals", "operations"} <= {entry["topic"] for entry in listed}
    assert call_cli(home, "help", "approvals").stdout.startswith("# Approvals")
    # A section is found too, in the singular and in the plural.
    for topic in ("modes", "mode"):
        section = call_cli(home, "help", topic).stdout
        assert section.startswith("## Modes")
        assert "moot help approvals`)" in section
    assert "# Rules" not in section
    missed = json.loads(call_cli(home, "help", "aprovals", "--json").stdout)["error"]
    assert missed["fix"] == "Did you mean 'approvals'? `moot help` lists the topics."
    command = json.loads(call_cli(home, "help", "backup", "--json").stdout)["error"]
    assert command["fix"].startswith("It is a command: `")
    assert "moot backup --help` describes it" in command["fix"]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_page_fits_the_window_and_breaks_between_words(home: Home, columns: int) -> None:
    with terminal(home, "help", "doctor", columns=columns, no_color="1", PAGER="cat") as person:
        assert person.wait_for_exit() == 0
    shown = person.rows.text
    title, _, first, second, *_ = shown.split("\n")
    assert title == "Doctor"
    # Prose fills the rows, wherever the file breaks its lines.
    assert columns // 2 < len(first) < columns <= len(f"{first} {second.split()[0]} ")
    assert not any(mark in shown for mark in ("**", "](", "|---"))


def test_a_taken_default_port_is_reported_and_not_replaced_by_another(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home.write_config(MODEL.replace('http = "127.0.0.1:0"\n', "").replace("URL", "http://127.0.0.1:9"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr("moot.daemon.listen.http.HTTP_PORT", port)
        with daemon_thread(home) as daemon:
            shown = daemon.cli("status", "--json")
            status = json.loads(shown.stdout)["data"]
            assert (shown.returncode, status["http"]) == (78, "")
            started = daemon.cli("up")
            assert started.returncode == 78
            assert "error: the daemon runs without a listener." in started.stderr
            assert f"cannot listen on 127.0.0.1:{port}" in status["problems"][0]
            assert "listen.http" in json.loads(call_cli(home, "doctor", "--json").stdout)["error"]["message"]
            # So does a command that has started the daemon by itself.
            monkeypatch.setattr(daemon_process, "is_answering", AsyncAnswer(False))
            monkeypatch.setattr(daemon_process, "start", AsyncAnswer(1))
            asyncio.run(ensure_running(Paths.find(home.environment())))
            assert f"warning: listen.http: cannot listen on 127.0.0.1:{port}" in " ".join(
                capsys.readouterr().err.split()
            )


def test_uninstalling_keeps_everything_unless_it_is_purged(home: Home) -> None:
    with running(home):
        dry = json.loads(run_cli(home, "uninstall", "--purge", "--dry-run", "--json", HOME=str(home.path)).stdout)[
            "data"
        ]
        assert str(home.path / "data") in dry["deleted"]
        assert (home.path / "data").exists()
        refused = run_cli(home, "uninstall", "--purge", "--json", HOME=str(home.path))
        assert "--yes" in json.loads(refused.stdout)["error"]["fix"]
        kept = json.loads(run_cli(home, "uninstall", "--json", HOME=str(home.path), MOOT_DEV="./dev moot").stdout)[
            "data"
        ]
        assert kept["deleted"] == []
        # A checkout has all it has installed in its environment.
        assert kept["program"] == f"rm -r {sys.prefix}"
        assert call_cli(home, "status").returncode == 69
    purged = run_cli(home, "uninstall", "--purge", "--yes", "--json", HOME=str(home.path))
    assert purged.returncode == 0
    assert [path.name for path in home.path.iterdir() if path.name not in ("script.toml",)] == []


def test_a_purge_leaves_no_empty_folder_of_moot(home: Home, tmp_path: Path) -> None:
    user = tmp_path / "user"
    (user / ".config" / "other").mkdir(parents=True)
    shutil.copytree(home.path, user / ".config" / "moot")
    outside = {"MOOT_HOME": "", "HOME": str(user), "XDG_RUNTIME_DIR": "", "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": ""}
    outside["XDG_STATE_HOME"] = ""
    assert run_cli(home, "up", **outside).returncode == 0
    script = user / ".config" / "moot" / "script.toml"
    # What Moot has not made stays, and is named.
    assert json.loads(run_cli(home, "uninstall", "--purge", "--yes", "--json", **outside).stdout)["data"]["kept"] == [
        str(script)
    ]
    script.unlink()
    purged = run_cli(home, "uninstall", "--purge", "--yes", "--json", **outside)
    assert purged.returncode == 0, purged.stdout + purged.stderr
    assert [path for path in user.rglob("*") if path.name == "moot"] == []
    assert (user / ".config" / "other").exists()
    assert str(user / ".config" / "moot") in json.loads(purged.stdout)["data"]["deleted"]


def test_the_license_and_the_security_policy_are_part_of_the_project() -> None:
    root = Path(__file__).parents[2]
    assert "Apache License" in (root / "LICENSE").read_text()
    assert "moot doctor" in (root / "SECURITY.md").read_text()


# Commands that do not talk to the daemon of this home, only stop or examine it, or do not end by themselves.
_SILENT = frozenset(
    [
        "serve",
        "up",
        "down",
        "service",
        "demo",
        "init",
        "doctor",
        "help",
        "uninstall",
        "restore",
        "chat",
        "completion",
        "skills",
        "project",
        "events",
        "acp",
        "nats",
    ]
)
_ARGUMENTS = {
    "ask": ("ada", "hello"),
    "run": ("hello",),
    "reply": ("ada", "yes"),
    "logs": ("run-1",),
    "wait": ("run-1",),
    "attach": ("run-1",),
    "show": ("run-1",),
    "stop": ("run-1",),
    "replay": ("run-1",),
    "export": ("ada",),
    "import": ("FILE",),
    "graph": ("types",),
    "delete": ("ada", "--json"),
    "backup": ("FOLDER/copy.zip",),
    "cwd": ("ada",),
    "kill": ("ada",),
    "compact": ("ada",),
    "trust": ("ada",),
    "undo": ("ada",),
    "history": ("ada",),
    "archives": ("ada",),
    "recall": ("ada", "sea"),
    "secrets": ("list",),
    "tokens": ("list",),
    "mcp": ("list",),
    "peers": ("list",),
}


def test_every_command_says_that_the_daemon_has_another_version(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file.jsonl").write_text("")
    monkeypatch.setattr("moot.daemon.requests.exchange.__version__", "9.9.9")
    with daemon_thread(home) as daemon:
        silent = []
        for name in sorted(COMMANDS.keys() - _SILENT):
            given = [
                text.replace("FILE", str(tmp_path / "file.jsonl")).replace("FOLDER", str(tmp_path))
                for text in _ARGUMENTS.get(name, ())
            ]
            told = daemon.cli(name, *given).stderr
            if name not in _ARGUMENTS and "Missing argument" in told:
                told = daemon.cli(name, "ada").stderr
            elif name not in _ARGUMENTS and told.startswith("Usage:"):
                told = daemon.cli(name, "list").stderr
            if "the daemon is version 9.9.9" not in told or "moot down; moot up" not in told:
                silent.append((name, told))
        assert silent == []
