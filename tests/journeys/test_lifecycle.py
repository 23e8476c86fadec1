"""The daemon's own life: one per home, ready when it says so, drained by one signal and stopped by two."""

import asyncio
import os
import shutil
import signal
import socket
import stat
from pathlib import Path

import pytest

from moot.domain.errors import MootError, Unavailable
from moot.wire import moot_pb2 as pb
from tests.daemon_process import (
    PROVIDER_CONFIG,
    SERVE,
    Home,
    LiveDaemon,
    eventually,
    run_cli,
    running,
    spawn,
)
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG


async def is_closing(talk: Talking) -> bool:
    """Whether the daemon has begun to shut down: it takes no new messages."""
    try:
        await talk.send("bob", "too late?")
    except Unavailable as refusal:
        return "shutting down" in refusal.message
    return False


async def test_it_says_one_line_when_it_is_ready_and_serves_by_then(home: Home) -> None:
    with running(home) as daemon:
        assert "ready" in daemon.ready_line
        assert str(home.socket) in daemon.ready_line
        async with daemon.client() as talk:
            assert (await talk.ask(ping=pb.Ping())).WhichOneof("message") == "pong"
        daemon.terminate()
        out, _ = daemon.process.communicate(timeout=30)
        assert out == ""
        assert daemon.process.returncode == 0


async def test_only_its_owner_can_enter(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello")
        assert stat.S_ISSOCK(home.socket.stat().st_mode)
        assert home.socket.stat().st_mode & 0o077 == 0
        for folder in (home.path / "run", home.path / "data", home.path / "logs"):
            assert folder.stat().st_mode & 0o077 == 0


async def test_a_term_signal_lets_the_run_in_flight_finish(home: Home, provider: Provider) -> None:
    provider.program({"match": "^A$", "text": "finished after all", "hold": True})
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "A")
            await speech.until("start")
            provider.requests(at_least=1)
            waiting = talk.start("ada", "B")
            await waiting.until("queued")
            daemon.terminate()
            await eventually(lambda: is_closing(talk))
            provider.release()
            assert (await speech.end()).text == "finished after all"
            with pytest.raises(MootError):
                await waiting.end()
        assert daemon.reap() == 0
    assert not home.socket.exists()
    provider.reset()
    with daemon_thread(home) as again:
        # What waited was kept and runs now.
        provider.requests(at_least=1)
        async with again.client() as talk:

            async def answered() -> bool:
                return len(await talk.told("ada")) == 4

            await eventually(answered)
            assert [content for _, _, content in await talk.told("ada")][:3] == ["A", "finished after all", "B"]


async def test_a_second_term_signal_stops_it_at_once(home: Home, provider: Provider) -> None:
    provider.program({"text": "never", "hold": True})
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "hello")
            await speech.until("start")
            daemon.terminate()
            # Two signals of one kind that come too close are one.
            await eventually(lambda: is_closing(talk))
            assert speech.kinds == ["start"]
            daemon.terminate()
            assert daemon.reap(8) == 0
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.history("ada")).messages[0].outcome == "interrupted"


async def test_a_question_nobody_answers_does_not_hold_up_the_drain(home: Home, provider: Provider) -> None:
    question = {"name": "ask_user", "arguments": {"questions": [{"question": "Well?"}]}}
    provider.program({"calls": [question]})
    with running(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "ask")
            await speech.until("ask_user")
            daemon.terminate()
            with pytest.raises(Unavailable, match="stopping"):
                await speech.end()
        assert daemon.reap() == 0


async def test_a_second_daemon_on_the_same_home_is_refused_and_the_first_goes_on(
    home: Home, provider: Provider
) -> None:
    with running(home) as daemon:
        second = spawn(home)
        out, complaint = second.communicate(timeout=30)
        assert second.returncode != 0
        assert out == ""
        assert "another daemon" in complaint
        assert "Traceback" not in complaint
        assert "moot down" in complaint
        async with daemon.client() as talk:
            assert (await talk.say("ada", "hello")).outcome == "completed"
        assert daemon.cli_json("status")["data"]["pid"] == daemon.process.pid


async def test_a_socket_left_by_a_dead_daemon_is_no_obstacle(home: Home, provider: Provider) -> None:
    with running(home) as daemon:
        daemon.kill_9()
        assert home.socket.exists()
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("ada", "hello")).outcome == "completed"


async def test_something_else_on_the_sockets_path_is_not_destroyed(home: Home) -> None:
    (home.path / "run").mkdir(mode=0o700)
    home.socket.write_text("mine")
    refused = spawn(home)
    _, complaint = refused.communicate(timeout=30)
    assert refused.returncode != 0
    assert "Traceback" not in complaint
    assert home.socket.read_text() == "mine"


async def test_a_read_only_home_is_one_clear_error(home: Home) -> None:
    command = list(SERVE)
    if os.geteuid() == 0:
        unshare = shutil.which("unshare")
        if unshare is None:
            pytest.skip("a superuser can write anywhere, and there is no unshare to take that away")
        script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        command = [unshare, "--mount", "sh", "-c", script, str(home.path), *command]
    else:
        home.path.chmod(0o500)
    refused = spawn(home, command=command)
    out, complaint = refused.communicate(timeout=30)
    home.path.chmod(0o700)
    assert refused.returncode == 69
    assert out == ""
    assert "Traceback" not in complaint
    assert str(home.path) in complaint
    assert "MOOT_HOME" in complaint


async def test_commands_start_the_daemon_and_down_stops_it(home: Home, provider: Provider) -> None:
    asked = run_cli(home, "ask", "ada", "hello", "--json")
    try:
        assert '"ok": true' in asked.stdout
        pid = int((home.path / "run" / "moot.pid").read_text())
        assert '"started": false' in run_cli(home, "up", "--json").stdout
    finally:
        down = run_cli(home, "down", "--json")
    assert '"stopped": true' in down.stdout

    def gone() -> bool:
        return not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]

    await eventually(gone)
    assert '"stopped": false' in run_cli(home, "down", "--json").stdout


async def test_a_client_that_vanishes_in_mid_frame_harms_nobody(daemon: LiveDaemon, provider: Provider) -> None:
    for rubbish in (b"", b"\x00\x00\x00\x10half", b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x00"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(daemon.home.socket))
            client.sendall(rubbish)
    async with daemon.client() as talk:
        assert (await talk.say("ada", "hello", "after rubbish")).outcome == "completed"


async def test_it_does_not_listen_where_it_was_told_not_to(daemon: LiveDaemon) -> None:
    async with daemon.client() as talk:
        stats = (await talk.ask(get_stats=pb.GetStats())).stats
    assert (stats.http, stats.tcp) == ("", "")


async def test_interrupting_it_from_the_keyboard_is_as_good_as_a_term(home: Home) -> None:
    with running(home) as daemon:
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.reap() == 0


async def test_two_hundred_conversations_at_once_all_end_well(daemon: LiveDaemon, provider: Provider) -> None:
    async with daemon.client(patience=80) as talk:
        async with asyncio.TaskGroup() as group:
            speeches = [group.create_task(talk.say("ada", f"hello {n}", f"crowd:{n}")) for n in range(200)]
        assert {speech.result().outcome for speech in speeches} == {"completed"}
        assert {speech.result().text for speech in speeches} == {f"echo: hello {n}" for n in range(200)}
