"""`moot events` and `moot peers watch` across lost connections: nothing lost, nothing twice, and a person is told."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.daemon_process import CONFIG, Home, running, spawn
from tests.daemon_thread import daemon_thread
from tests.raw_client import tcp_address
from tests.scripting import call, say, script
from tests.terminal import terminal

LISTENING = CONFIG.replace('tcp = "off"', 'tcp = "127.0.0.1:0"')
NEW = (sys.executable, "-m", "moot")
FOLLOW = (*NEW, "events", "--ndjson")


def read_turn(command: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    """The printed events up to the end of a turn."""
    assert command.stdout is not None
    events = []
    for line in command.stdout:
        events.append(json.loads(line))
        if events[-1]["kind"] == "done":
            return events
    raise AssertionError(f"it ended: {command.communicate()[1]}")


def wait_for_note(command: "subprocess.Popen[str]", note: str) -> None:
    assert command.stderr is not None
    assert any(note in line for line in command.stderr), f"it ended without: {note}"


def interrupt(command: "subprocess.Popen[str]") -> tuple[int, str, str]:
    command.send_signal(signal.SIGINT)
    out, err = command.communicate()
    return command.returncode, out, err


def test_following_goes_on_behind_a_restart_with_the_gap_in_between(home: Home) -> None:
    home.furnish()
    with running(home) as daemon:
        following = spawn(home, command=FOLLOW)
        wait_for_note(following, "Following. Ctrl-C stops.")
        daemon.cli("ask", "ada", "before")
        before = read_turn(following)
        daemon.kill_9()
        wait_for_note(following, "Lost the connection to the daemon; waiting for it.")
    with running(home) as daemon:
        wait_for_note(following, "Connected again.")
        daemon.cli("ask", "ada", "behind")
        gap, *behind = read_turn(following)
        assert interrupt(following) == (130, "", "\n")
    assert (gap["kind"], gap["first_seq"]) == ("gap", before[-1]["seq"] + 1)
    assert behind[0]["seq"] == gap["last_seq"] + 1
    assert [event["kind"] for event in behind] == [event["kind"] for event in before]


def test_control_c_ends_the_wait_for_a_daemon(home: Home) -> None:
    home.furnish()
    with running(home) as daemon, terminal(home, "events") as person:
        person.wait_for("Following. Ctrl-C stops.")
        daemon.kill_9()
        person.wait_for("Lost the connection to the daemon; waiting for it. Ctrl-C stops.")
        person.type("\x03")
        assert person.wait_for_exit() == 130
        assert "Traceback" not in person.seen


def test_watched_messages_go_on_when_the_daemon_is_back(home: Home) -> None:
    home.furnish()
    with running(home) as daemon:
        daemon.cli("ask", "bob", "hello")
        with terminal(home, "peers", "watch", columns=60) as person:
            person.wait_for("Following. Ctrl-C stops.")
            daemon.kill_9()
            person.wait_for("Lost the connection to the daemon; waiting for it. Ctrl-C")
            person.wait_for("\nstops.")
            with running(home) as again:
                person.wait_for("Connected again.")
                person.wait_for("Some messages may not have been shown: the daemon does not")
                again.cli("peers", "send", "bob", "the tide is in")
                person.wait_for("the tide is in")
            person.type("\x03")
            assert person.wait_for_exit() == 130
            assert "Traceback" not in person.seen


class Wire:
    """Passes bytes between a client and a daemon, and can cut every connection."""

    def __init__(self, host: str, port: int) -> None:
        self._to = host, port
        self._open: set[asyncio.StreamWriter] = set()
        self.is_up = True

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_up:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection(*self._to)
        self._open |= {writer, far_writer}
        await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:
            pass
        writer.close()

    def cut(self) -> None:
        self.is_up = False
        for writer in self._open:
            writer.close()
        self._open.clear()


@asynccontextmanager
async def wire(address: str) -> AsyncIterator[tuple[Wire, str]]:
    host, port = address.rsplit(":", 1)
    between = Wire(host, int(port))
    server = await asyncio.start_server(between.take, "127.0.0.1", 0)
    try:
        yield between, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        between.cut()
        server.close()


async def test_no_event_is_lost_or_doubled_when_only_the_connection_breaks(home: Home) -> None:
    home.furnish(config=LISTENING)
    with daemon_thread(home) as daemon:
        token = daemon.cli_json("tokens", "new", "far", "--sender", "user")["data"]["token"]
        async with daemon.client() as talk, wire(tcp_address(daemon)) as (between, address):
            following = spawn(home, command=FOLLOW, MOOT_ADDRESS=address, MOOT_TOKEN=token)
            await asyncio.to_thread(wait_for_note, following, "Following.")
            await talk.say("ada", "one", "user")
            events = await asyncio.to_thread(read_turn, following)
            between.cut()
            await asyncio.to_thread(wait_for_note, following, "Lost the connection")
            await talk.say("ada", "two", "user")
            between.is_up = True
            events += await asyncio.to_thread(read_turn, following)
            assert (await asyncio.to_thread(interrupt, following))[:2] == (130, "")
    assert [event["user_seq"] for event in events if event["kind"] == "started"] == [1, 3]
    numbers = [event["seq"] for event in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_events_are_for_people_local_times_and_whole_words(home: Home, columns: int) -> None:
    home.furnish()
    with running(home) as daemon:
        daemon.cli("ask", "bob", "hello")
        # Half an hour beside every zone that the machine of the tests could be in.
        with terminal(home, "peers", "watch", "-n", "1", columns=columns, TZ="XXX-05:30", command=NEW) as person:
            person.wait_for("Following. Ctrl-C stops.")
            daemon.cli("peers", "send", "bob", "the tide is in and boats go out")
            assert person.wait_for_exit() == 0
            watched = person.seen
        with terminal(
            home, "events", "--since", "0", "-n", "9", columns=columns, TZ="XXX-05:30", command=NEW
        ) as person:
            assert person.wait_for_exit() == 0
            followed = person.seen
        sent = json.loads(daemon.cli("events", "--ndjson", "--since", "0", "-n", "2").stdout.splitlines()[1])
    local = datetime.fromisoformat(sent["at"]).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert f"{local:%Y-%m-%d %H:%M:%S}" in followed
    for shown in (watched, followed):
        assert "Z  " not in shown
        assert all(len(row.rstrip()) < columns for row in shown.splitlines())
    assert "the tide is in and boats go out" in " ".join(watched.split())


def test_a_person_waits_for_a_run_across_a_restart_and_a_script_learns_of_it(home: Home) -> None:
    home.furnish(config=CONFIG + '[security.interceptor]\nsensitive_tools = ["set_title"]\n')
    home.write_script(
        script({"match": "^name it", "steps": [call("set_title", title="Boats"), say("Named.")]}, {"hang": True})
    )
    with running(home) as daemon:
        asking, hanging = (
            daemon.cli("run", "--bg", "--agent", "ada", text).stdout.strip() for text in ("name it", "x")
        )
        with terminal(home, "wait", asking, columns=100) as person:
            person.wait_for("moot inbox approve")
            waiting = spawn(home, command=(*NEW, "wait", hanging))
            # The terminal, the script and the question itself.
            while daemon.cli_json("status")["data"]["connections"] < 3:
                pass
            daemon.kill_9()
            assert (waiting.communicate()[0], waiting.returncode) == ("", 69)
            person.wait_for("lost the connection to the daemon; waiting for it")
            with running(home) as again:
                (ask,) = again.cli_json("inbox")["data"]
                again.cli("inbox", "deny", ask["short_id"])
                assert person.wait_for_exit() == 4
            assert "Denied: set_title" in person.seen
            assert person.seen.count("moot inbox approve") == 1
