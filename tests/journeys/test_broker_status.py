"""The broker of a daemon: it starts without one, says what is wrong, connects when it can, and follows a reload."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.js.api import RePublish

from moot.broker.nats_stream import make_stream_config
from moot.daemon.configured_broker import make_broker_name
from tests.contracts.broker_kit import STORE, Recorder, make_broker_message, publish
from tests.contracts.test_nats_problems import Connection, wait_until
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, call_cli, eventually, run_cli, spawn
from tests.daemon_thread import DaemonThread, daemon_thread
from tests.nats_server import NatsServer, nats_server


def read_broker(daemon: DaemonThread) -> Any:
    return daemon.cli_json("status")["data"]["broker"]


def configure(home: Home, url: str, **settings: str) -> None:
    lines = [f'{key} = "{value}"' for key, value in {"url": url, **settings}.items()]
    home.write_config(f"{PLAIN}\n[broker]\n" + "\n".join(lines) + "\n")


async def test_a_daemon_has_no_broker_by_default_and_reports_what_is_wrong_with_one(home: Home, tmp_path: Path) -> None:
    with daemon_thread(home) as daemon:
        assert read_broker(daemon) is None
        assert "broker" not in daemon.cli("status").stdout

    server = NatsServer(tmp_path / "nats")
    server.start()
    server.kill()
    configure(home, server.url, name="laptop")
    with daemon_thread(home) as daemon:
        found = await eventually(lambda: "no NATS server" in read_broker(daemon)["problem"] and read_broker(daemon))
        assert (found["url"], found["name"], found["connected"]) == (server.url, "laptop", False)
        assert "Not connected to the broker" in daemon.cli("status").stdout
        findings = {
            each["check"]: each for each in json.loads(daemon.cli("doctor", "--json").stdout)["data"]["findings"]
        }
        assert findings["broker"]["level"] == "error"
        assert "no NATS server answers" in findings["broker"]["message"]

        server.start()
        try:
            await eventually(lambda: read_broker(daemon)["connected"])
            assert (
                f"Connected to the broker at {server.url} as laptop, with 0 other daemons."
                in daemon.cli("status").stdout
            )
            # A reload connects under the new name; no restart is needed.
            configure(home, server.url, name="desk")
            assert daemon.cli_json("reload")["data"]["restart"] == []
            await eventually(lambda: read_broker(daemon)["connected"])
            assert read_broker(daemon)["name"] == "desk"
            server.kill()
            await eventually(lambda: not read_broker(daemon)["connected"])
        finally:
            server.kill()
        home.write_config(PLAIN)
        daemon.cli_json("reload")
        assert read_broker(daemon) is None


async def test_a_daemon_that_has_left_the_broker_lists_no_other_agents(home: Home, tmp_path: Path) -> None:
    """Nothing could be sent to them, and they would stay listed: nobody hears what becomes of their daemon."""
    other = Home(tmp_path / "other").furnish(agents=("eve",))
    with nats_server(tmp_path / "nats") as server:
        configure(home, server.url, name="laptop")
        configure(other, server.url, name="desk")
        with daemon_thread(home) as daemon, daemon_thread(other):
            await eventually(lambda: "eve@desk" in daemon.cli("peers", "list").stdout)
            home.write_config(PLAIN)
            daemon.cli_json("reload")
            assert "eve@desk" not in daemon.cli("peers", "list").stdout
            configure(home, server.url, name="laptop")
            daemon.cli_json("reload")
            await eventually(lambda: "eve@desk" in daemon.cli("peers", "list").stdout)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('url = "http://x"', "must be"),
        ('url = "nats://me:secret@x:4222"', "without a password"),
        ('name = "My Laptop"', "a-z"),
        ('credentials = "SUABC"', "file:PATH"),
        ("max_outbox = 0", "between"),
        ('url = "nats://host:65536"', "HOST:PORT"),
    ],
)
def test_a_wrong_section_is_refused_with_its_line(home: Home, line: str, reason: str) -> None:
    home.write_config(f"[broker]\n{line}\n")
    done = call_cli(home, "doctor", "--json")
    assert done.returncode != 0
    assert "config.toml:2" in done.stdout
    assert reason in done.stdout
    assert "secret@" not in done.stdout


@pytest.mark.parametrize(
    ("host", "name"), [("Ana's MacBook.local", "ana-s-macbook"), ("", "moot"), ("---", "moot"), ("a" * 80, "a" * 63)]
)
def test_a_daemon_is_named_after_its_machine(host: str, name: str) -> None:
    assert make_broker_name(host) == name


def test_nats_dev_runs_a_server_until_it_is_interrupted(home: Home, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "moot", "nats", "dev", "--port", "0", "--dir", str(tmp_path / "nats"), "--json")
    process = spawn(home, command=command)
    try:
        assert process.stdout is not None
        data = json.loads(process.stdout.readline())["data"]
        assert data["config"] == ["[broker]", f'url = "{data["url"]}"']
        os.kill(data["pid"], 0)
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 0
        with pytest.raises(ProcessLookupError):
            os.kill(data["pid"], 0)
    finally:
        process.kill()
        process.communicate()


class Guarded:
    """A server with the configuration that `moot nats config` has written, and the credentials beside it."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.folder = folder

    def write(self, *names: str) -> Any:
        done = run_cli(
            self.home, "nats", "config", *names, "--dir", str(self.folder), "--listen", "127.0.0.1:4222", "--json"
        )
        return json.loads(done.stdout)["data"]

    def seed(self, name: str) -> str:
        return (self.folder / f"{name}.nk").read_text().strip()


async def test_a_daemon_can_act_only_under_its_own_name(home: Home, tmp_path: Path) -> None:
    guarded = Guarded(home, tmp_path / "nats")
    written = guarded.write("laptop", "desk")
    assert written["daemons"][0]["config"][2:] == [
        'name = "laptop"',
        f'credentials = "file:{guarded.folder}/laptop.nk"',
    ]
    assert {file.name: file.stat().st_mode & 0o777 for file in guarded.folder.iterdir()} == {
        "laptop.nk": 0o600,
        "desk.nk": 0o600,
        "nats-server.conf": 0o600,
    }
    before = guarded.seed("laptop")
    assert [each["name"] for each in guarded.write("laptop", "desk", "evil")["daemons"]] == ["laptop", "desk", "evil"]
    assert guarded.seed("laptop") == before
    with nats_server(tmp_path / "data", "-c", str(guarded.folder / "nats-server.conf")) as server:
        await _exchange(server, guarded)
        await _impersonate(server, guarded)
        anonymous = Client()
        with pytest.raises(nats.errors.Error, match="Authorization Violation"):
            await anonymous.connect(server.url, allow_reconnect=False, error_cb=_ignore)
        await anonymous.close()


async def _ignore(_error: Exception) -> None:
    """What a raw client reports beside what it raises."""


async def _exchange(server: NatsServer, guarded: Guarded) -> None:
    """Everything that daemons do is allowed."""
    laptop = Connection(server.url, credentials=guarded.seed("laptop"))
    desk = Connection(server.url, credentials=guarded.seed("desk"), name="desk")
    async with laptop as sender, desk as receiver:
        there = Recorder()
        receiver.observe_presence(there.hear)
        await wait_until(lambda: sender.is_connected and receiver.is_connected)
        async with receiver.consume(STORE, there.handle):
            await publish(sender, make_broker_message("hello"), message_id="a")
            await sender.announce(b"here")
            await there.wait_until(lambda: there.bodies and there.presence)
        # It was acknowledged.
        async with receiver.consume(STORE, there.handle):
            await there.wait_until(lambda: not there.batches[-1].arrivals)
        assert there.bodies == ["hello"]
        assert there.presence == [("laptop", b"here")]
        assert receiver.problem == ""


async def _impersonate(server: NatsServer, guarded: Guarded) -> None:
    """What another daemon may do, this one may not; each attempt is refused by the server."""
    errors: list[str] = []

    async def note(error: Exception) -> None:
        errors.append(str(error).lower())

    async with Connection(server.url, credentials=guarded.seed("desk"), name="desk") as desk:
        there = Recorder()
        desk.observe_presence(there.hear)
        await wait_until(lambda: desk.is_connected)
        async with desk.consume(STORE, there.handle):
            await there.wait_until(lambda: there.batches)
            evil = await nats.connect(server.url, nkeys_seed_str=guarded.seed("evil"), error_cb=note)
            attempts = [
                "moot.presence.laptop",
                "$JS.API.CONSUMER.DELETE.MOOT.desk",
                "$JS.API.CONSUMER.CREATE.MOOT.desk.agent.>",
                "$JS.API.CONSUMER.MSG.NEXT.MOOT.desk",
                "$JS.API.STREAM.DELETE.MOOT",
                "$JS.API.STREAM.PURGE.MOOT",
                "$JS.API.STREAM.UPDATE.MOOT",
                "$JS.API.STREAM.MSG.GET.MOOT",
                "$JS.ACK.MOOT.desk.1.1.1.1.1",
                "_INBOX.desk.x",
            ]
            for subject in attempts:
                await evil.publish(subject, b"{}")
            for subject in ("_INBOX.desk.>", "agent.inbox.*", ">"):
                await evil.subscribe(subject)
            await evil.flush()
            # The answers are read one after the other, also after the flush.
            await wait_until(lambda: len(errors) >= len(attempts) + 3)
            refused = "\n".join(errors)
            assert [subject for subject in attempts if f'publish to "{subject.lower()}"' not in refused] == []
            assert refused.count("subscription to") == 3
            # Under its own name it is heard, and nothing came before.
            await evil.publish("moot.presence.evil", b"here")
            await there.wait_until(lambda: there.presence)
            assert there.presence == [("evil", b"here")]
            await evil.close()
        assert desk.problem == ""


async def test_a_name_that_the_credentials_do_not_allow_is_reported(home: Home, tmp_path: Path) -> None:
    guarded = Guarded(home, tmp_path / "nats")
    guarded.write("laptop")
    with nats_server(tmp_path / "data", "-c", str(guarded.folder / "nats-server.conf")) as server:
        configure(home, server.url, name="desk", credentials=f"file:{guarded.folder}/laptop.nk")
        with daemon_thread(home) as daemon:
            found = await eventually(lambda: "does not allow" in read_broker(daemon)["problem"] and read_broker(daemon))
            assert not found["connected"]
            # The same at each attempt, so that it is logged once.
            assert found["problem"].endswith(" to subscribe to _inbox.desk.>")
            configure(home, server.url, name="laptop", credentials="secret:NATS")
            daemon.cli_json("reload")
            await eventually(lambda: "moot secrets set NATS" in read_broker(daemon)["problem"])
            daemon.cli("secrets", "set", "NATS", stdin=guarded.seed("laptop"))
            await eventually(lambda: read_broker(daemon)["connected"])


@pytest.mark.parametrize("kind", ["seed", "creds"])
async def test_mistyped_credentials_are_reported_and_used_once_they_are_corrected(
    home: Home, tmp_path: Path, kind: str
) -> None:
    guarded = Guarded(home, tmp_path / "nats")
    guarded.write("laptop")
    seed, file = guarded.seed("laptop").strip(), tmp_path / "laptop.nk"
    # No digit of base32, such as an O that was read as 0.
    mistyped = seed[:-1] + "0"
    file.write_text(mistyped if kind == "seed" else make_creds(mistyped))
    with nats_server(tmp_path / "data", "-c", str(guarded.folder / "nats-server.conf")) as server:
        configure(home, server.url, name="laptop", credentials=f"file:{file}")
        with daemon_thread(home) as daemon:
            await eventually(lambda: "the credentials of the broker are not valid" in read_broker(daemon)["problem"])
            assert mistyped not in json.dumps(read_broker(daemon)) + home.log.read_text(encoding="utf-8")
            file.write_text(seed)
            await eventually(lambda: read_broker(daemon)["connected"])
    assert home.failures() == []


def make_creds(seed: str) -> str:
    """A file of the tools of NATS."""
    return (
        "-----BEGIN NATS USER JWT-----\nheader.claims.signature\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


def test_a_configuration_of_a_server_is_kept_when_a_daemon_is_added(home: Home, tmp_path: Path) -> None:
    guarded = Guarded(home, tmp_path / "nats")
    assert guarded.write("laptop")["earlier"] == guarded.write("laptop")["earlier"] == ""
    file, kept = guarded.folder / "nats-server.conf", guarded.folder / "nats-server.conf.old"
    changed = file.read_text() + "max_payload: 2000000\n"
    file.write_text(changed)
    assert guarded.write("laptop", "desk")["earlier"] == str(kept)
    assert (kept.read_text(), "max_payload" in file.read_text()) == (changed, False)
    shown = run_cli(home, "nats", "config", "laptop", "--dir", str(guarded.folder)).stdout
    assert f"The earlier configuration is {kept}" in " ".join(shown.split())


@pytest.mark.parametrize("text", ["junk", "SUANOSEED", "é"])
def test_credentials_that_are_none_are_named(home: Home, tmp_path: Path, text: str) -> None:
    (tmp_path / "laptop.nk").write_text(text)
    done = run_cli(home, "nats", "config", "laptop", "--dir", str(tmp_path))
    assert (done.returncode, str(tmp_path / "laptop.nk") in done.stderr) == (2, True), done.stderr
    assert "bug in Moot" not in done.stderr


async def test_a_stream_that_a_daemon_may_not_put_right_is_reported(home: Home, tmp_path: Path) -> None:
    """A daemon that connected first has made a stream that copies all messages to it."""
    guarded = Guarded(home, tmp_path / "nats")
    guarded.write("laptop", "evil")
    with nats_server(tmp_path / "data", "-c", str(guarded.folder / "nats-server.conf")) as server:
        evil = await nats.connect(server.url, nkeys_seed_str=guarded.seed("evil"), inbox_prefix="_INBOX.evil")
        try:
            copying = RePublish(src=">", dest="_INBOX.evil.>")
            await evil.jetstream().add_stream(make_stream_config(1 << 26).evolve(republish=copying))
        finally:
            await evil.close()
        configure(home, server.url, name="laptop", credentials=f"file:{guarded.folder}/laptop.nk")
        with daemon_thread(home) as daemon:
            found = await eventually(
                lambda: "nats stream rm MOOT" in read_broker(daemon)["problem"] and read_broker(daemon)
            )
            assert not found["connected"]
