"""An agent changes files through a running daemon: only what it has read, only where it is unique, as approved."""

import asyncio
from pathlib import Path
from typing import Any

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.talking import Speech, Talking

CONFIG = PROVIDER_CONFIG


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


def steps(provider: Provider, *calls: dict[str, Any]) -> None:
    provider.program(*({"calls": [each]} for each in calls), {"text": "Done."})


def results(speech: Speech) -> list[str]:
    return [result.output for result in speech.of("tool_result")]


async def decide(talk: Talking, ask: Any, decision: str = "once") -> None:
    message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision)
    await talk.connection.request(pb.ClientMessage(decide_ask=message))


EDIT = call("fs_edit", path="a.py", oldText="x = 1", newText="x = 2")


async def test_nobody_is_asked_about_an_edit_that_cannot_be_made(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_bytes(b"x = 1\r\ny = 1\r\nx = 10\r\n")
    exact = call("fs_edit", path="a.py", oldText="x = 1\ny", newText="x = 2\ny")
    steps(provider, EDIT, EDIT, exact)
    async with daemon.client() as talk:
        speech = talk.start("ada", "go", sender, cwd=str(tmp_path))
        ask = await speech.until("approval_opened")
        assert [line for line in ask.preview.splitlines() if line.startswith(("-x", "+x"))] == ["-x = 1", "+x = 2"]
        await decide(talk, ask)
        await speech.end()
    unread, twice, done = results(speech)
    # An error about a short file contains it, which saves a call.
    assert unread.startswith("a.py has not been read. It contains:\nx = 1")
    assert "occurs 2 times in a.py, at lines 1, 3" in twice
    assert done == "a.py had 3 lines and now has 3."
    assert (tmp_path / "a.py").read_bytes() == b"x = 2\r\ny = 1\r\nx = 10\r\n"
    assert len(speech.of("approval_opened")) == 1


async def test_an_error_about_an_edit_shows_nothing_that_reading_would_have_hidden(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    plain = (home.path / "config.toml").read_text()
    home.write_config(plain + '\n[security.interceptor]\nsensitive_tools = ["fs_read"]\n')
    (tmp_path / "a.py").write_text("x = 1  # the key is hunter2-of-the-owner\n")
    with daemon_thread(home) as daemon:
        await asyncio.to_thread(daemon.cli, "secrets", "set", "KEY", stdin="hunter2-of-the-owner")
        async with daemon.client() as talk:
            steps(provider, EDIT)
            (unread,) = results(await talk.say("ada", "go", cwd=str(tmp_path)))
            # fs_read would have asked.
            assert "Read it with fs_read first" in unread
            assert "hunter2" not in unread
            assert "x = 1" not in unread
            home.write_config(plain)
            await asyncio.to_thread(daemon.cli, "reload")
            steps(provider, EDIT)
            (unread,) = results(await talk.say("ada", "go", "other", cwd=str(tmp_path)))
        assert "It contains:\nx = 1" in unread
        assert "hunter2" not in unread
        stored = home.query("SELECT content FROM messages WHERE content LIKE '%hunter2%'")
        assert stored == []


async def test_a_file_somebody_else_changed_has_to_be_read_again(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    steps(provider, call("fs_read", path="a.py"))
    steps(provider, EDIT)
    async with daemon.client() as talk:
        await talk.say("ada", "read", sender, cwd=str(tmp_path))
        (tmp_path / "a.py").write_text("x = 1\nmine\n")
        speech = await talk.say("ada", "edit", sender, cwd=str(tmp_path))
    (changed,) = results(speech)
    assert changed.startswith("a.py changed since it was read. It contains:\nx = 1\nmine\n")
    assert (tmp_path / "a.py").read_text() == "x = 1\nmine\n"


async def test_what_a_compaction_took_away_has_to_be_read_again(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    steps(provider, call("fs_read", path="a.py"))
    async with daemon.client() as talk:
        await talk.say("ada", "read", sender, cwd=str(tmp_path))
        provider.program({"text": "A file was read."})
        await talk.compact("ada", sender)
        steps(provider, EDIT)
        speech = await talk.say("ada", "edit", sender, cwd=str(tmp_path))
    assert "a.py has not been read" in results(speech)[0]


async def test_an_edit_that_waits_for_approval_is_made_after_a_crash(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    """The daemon that is asked again has not seen the file being read; the owner has seen the change."""
    (tmp_path / "a.py").write_text("x = 1\n")
    steps(provider, call("fs_read", path="a.py"), EDIT)
    with running(home) as daemon:
        async with daemon.client() as talk:
            await talk.start("ada", "go", cwd=str(tmp_path)).until("approval_opened")
            daemon.kill_9()
    with running(home) as daemon:
        async with daemon.client() as talk:
            (ask,) = await eventually(talk.asks)
            assert "+x = 2" in ask.preview
            await decide(talk, ask)
            await eventually(lambda: (tmp_path / "a.py").read_text() == "x = 2\n")
            await eventually(talk.is_idle)
