"""Modes through a running daemon: what needs approval in each, who may change it, and that it stays."""

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moot.cli.render import numbers
from moot.client.connection import connect
from moot.domain.errors import BadRequest, Forbidden
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.raw_client import tcp_address
from tests.scripting import call, lead, mate, say, script, spawn, wait
from tests.talking import Talking
from tests.teaming import TEAM
from tests.terminal import terminal

CONFIG = PLAIN.replace('tcp = "off"', 'tcp = "127.0.0.1:0"') + TEAM.replace('policy = "none"', 'mode = "work"')
MAKE = call("exec", command="echo made > made.txt")
WRITE = call("fs_write", path="notes/a.txt", content="a\n")
SCRIPT = script(
    lead("^delegate", spawn("make"), wait(), say("{result}")),
    mate("^make", MAKE, say("{result}")),
    {"match": "^make", "steps": [MAKE, WRITE, say("{result}")]},
    {"match": "^read", "steps": [call("fs_list", path="."), MAKE, WRITE, say("{result}")]},
    {
        "match": "^own files",
        "steps": [
            call("exec", command="echo a > own.txt"),
            call("exec", command="echo b > own.txt; rm own.txt"),
            call("fs_write", path="written.txt", content="b\n"),
            call("exec", command="echo c > written.txt"),
            say("{result}"),
        ],
    },
    {
        "match": "^(?P<tool>[a-z_]+) (?P<arguments>[{].*)",
        "steps": [call("{tool}", "{arguments}"), say("{result}")],
    },
)


@asynccontextmanager
async def holding(address: str, token: str) -> AsyncIterator[Talking]:
    async with connect(address, token=token) as connection:
        yield Talking(connection)


async def set_mode(talk: Talking, mode: str, agent: str = "ada", sender: str = "") -> pb.ModeInfo:
    return (await talk.ask(mode=pb.ModeMsg(agent=agent, sender=sender, mode=mode))).mode


async def get_mode(talk: Talking, agent: str = "ada", sender: str = "") -> pb.ModeInfo:
    return (await talk.ask(mode=pb.ModeMsg(agent=agent, sender=sender))).mode


async def decide(talk: Talking, ask: Any, decision: str) -> None:
    await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision))


async def is_asked(talk: Talking, text: str, sender: str, cwd: Path) -> str:
    """The reason why a call is asked about, which is then denied; empty if nobody is asked."""
    speech = talk.start("ada", text, sender, cwd=str(cwd))
    try:
        ask = await speech.until("approval_opened")
    except AssertionError:
        await speech.end()
        return ""
    await decide(talk, ask, "deny")
    await speech.end()
    return str(ask.reason)


async def test_work_asks_only_about_what_is_not_ordinary(daemon: LiveDaemon, tmp_path: Path, sender: str) -> None:
    (tmp_path / "old.txt").write_text("old\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to(".git")
    async with daemon.client() as talk:
        speech = await talk.say("ada", "make", sender, cwd=str(tmp_path))
        assert speech.of("approval_opened") == []
        assert (tmp_path / "made.txt").read_text() == "made\n"
        assert (tmp_path / "notes/a.txt").read_text() == "a\n"
        assert not await is_asked(talk, 'fs_delete {"path": "old.txt"}', sender, tmp_path)
        assert not (tmp_path / "old.txt").exists()
        dangerous = (
            'fs_delete {"path": "folder"}',
            'fs_write {"path": ".git/hooks/pre-commit", "content": "x"}',
            'fs_write {"path": "link/hooks/pre-commit", "content": "x"}',
            'fs_write {"path": "AGENTS.md", "content": "x"}',
            'fs_patch {"changes": [{"path": "b", "content": "b"}, {"path": ".envrc", "content": "x"}]}',
        )
        for text in dangerous:
            assert await is_asked(talk, text, sender, tmp_path) == "it is dangerous", text
        assert "reviewed" in await is_asked(talk, 'exec {"command": "git reset --hard"}', sender, tmp_path)
        # What a command destroys cannot be undone.
        for command in ("rm -rf folder", "git push origin main", "find folder -name x -delete", "echo x >> .envrc"):
            reason = await is_asked(talk, "exec " + json.dumps({"command": command}), sender, tmp_path)
            assert "cannot be undone" in reason, command
        assert (tmp_path / "folder").exists()
        speech = talk.start("ada", 'exec {"command": "rm -rf folder"}', sender, cwd=str(tmp_path))
        ask = await speech.until("approval_opened")
        assert list(ask.patterns) == []
        await decide(talk, ask, "always")
        await speech.end()
        assert not (tmp_path / "folder").exists()
        assert not await is_asked(talk, 'exec {"command": "rm -rf folder"}', sender, tmp_path)
        # A directory that is no project: the home folder itself.
        assert await is_asked(talk, 'fs_write {"path": "x", "content": "x"}', sender, Path.home()) == "it is dangerous"
    assert not (tmp_path / ".git" / "hooks").exists()


async def test_work_asks_before_an_edit_of_the_program_itself(
    daemon: LiveDaemon, tmp_path: Path, sender: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moot may be installed in the virtual environment of the project."""
    monkeypatch.setattr("moot.tools.files.project_folder.own_code_folders", lambda: [str(tmp_path / ".venv")])
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "old.py").write_text("old\n")
    (tmp_path / "link").symlink_to(".venv")
    async with daemon.client() as talk:
        for text in (
            'fs_write {"path": ".venv/run.pth", "content": "import os"}',
            'fs_write {"path": "link/run.pth", "content": "import os"}',
            'fs_delete {"path": ".venv/old.py"}',
            'fs_patch {"changes": [{"path": "a.txt", "content": "a"}, {"path": ".venv/old.py", "moveTo": "b.py"}]}',
        ):
            speech = talk.start("ada", text, sender, cwd=str(tmp_path))
            ask = await speech.until("approval_opened")
            assert (ask.reason, list(ask.patterns)) == ("it is dangerous", []), text
            await decide(talk, ask, "deny")
            await speech.end()
        assert not await is_asked(talk, 'fs_write {"path": ".venv-notes.txt", "content": "x"}', sender, tmp_path)
    assert [each.name for each in (tmp_path / ".venv").iterdir()] == ["old.py"]


async def test_work_asks_before_a_command_deletes_or_overwrites_a_file_that_the_run_did_not_create(
    daemon: LiveDaemon, tmp_path: Path, sender: str
) -> None:
    for name in ("notes.txt", "lib/util.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("kept\n")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "link.txt").symlink_to("notes.txt")
    async with daemon.client() as talk:
        for command, named in (
            ("echo x > notes.txt", "notes.txt"),
            ("echo x > link.txt", "notes.txt"),
            ("echo x | tee notes.txt", "notes.txt"),
            ("cp empty.txt notes.txt", "notes.txt"),
            ("touch util.py && mv util.py lib", "lib/util.py"),
            ("cd lib && sed -i s/kept/gone/ util.py", "lib/util.py"),
            ("rm notes.txt", "notes.txt"),
        ):
            reason = await is_asked(talk, "exec " + json.dumps({"command": command}), sender, tmp_path)
            assert reason == f"it deletes or overwrites {named}, which cannot be undone", command
        assert [(tmp_path / name).read_text() for name in ("notes.txt", "lib/util.py")] == ["kept\n"] * 2
        for command in ("echo x >> notes.txt", "echo x > empty.txt", "echo x > new.txt", "cp notes.txt copy.txt"):
            assert not await is_asked(talk, "exec " + json.dumps({"command": command}), sender, tmp_path), command
        # The next run did not create it; a pattern for such commands can be allowed.
        speech = talk.start("ada", 'exec {"command": "sed -i s/x/y/ new.txt"}', sender, cwd=str(tmp_path))
        ask = await speech.until("approval_opened")
        assert ask.patterns
        await decide(talk, ask, "deny")
        await speech.end()
        speech = await talk.say("ada", "own files", sender, cwd=str(tmp_path))
        assert speech.of("approval_opened") == []
        assert not (tmp_path / "own.txt").exists()
        assert (tmp_path / "written.txt").read_text() == "c\n"


async def test_how_long_a_call_took_is_stored_with_its_result_and_shown(
    daemon: LiveDaemon, tmp_path: Path, sender: str
) -> None:
    async with daemon.client() as talk:
        speech = await talk.say("ada", 'exec {"command": "sleep 0.02"}', sender, cwd=str(tmp_path))
        (result,) = speech.of("tool_result")
    assert result.duration_ms >= 20
    (stored,) = [
        each for each in daemon.cli_json("history", "ada", "--as", sender)["data"]["messages"] if each["role"] == "tool"
    ]
    assert stored["duration_ms"] == result.duration_ms
    run_id = daemon.cli_json("trace", "list")["data"][0]["run_id"]
    (event,) = [each for each in daemon.cli_json("trace", run_id)["data"]["events"] if each["kind"] == "tool_result"]
    assert event["payload"]["duration_ms"] == result.duration_ms
    assert re.search(r"exec \(\d+ ms\): |exec \(\d+\.\d s\): ", daemon.cli("trace", run_id).stdout)
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
        person.wait_on_screen(f" · {numbers.format_milliseconds(result.duration_ms)}")
        person.type("\x04")
        assert person.wait_for_exit() == 0


async def test_plan_reads_only_and_the_model_is_told(daemon: LiveDaemon, tmp_path: Path, sender: str) -> None:
    async with daemon.client() as talk:
        assert (await set_mode(talk, "plan", sender=sender)).is_own
        speech = await talk.say("ada", "read", sender, cwd=str(tmp_path))
        listed, made, written = speech.of("tool_result")
        assert not listed.is_error
        assert made.is_error
        assert written.is_error
        assert "mode plan" in made.output
        assert "describe what you would do" in speech.text
        assert speech.of("approval_opened") == []
        # It has read something, so it could plan. A run that did nothing but request what is refused is denied.
        assert speech.outcome == "completed"
        speech = await talk.say("ada", "make", sender, cwd=str(tmp_path))
        assert speech.outcome == "denied"
        assert speech.ended.error == "Not called in mode plan: exec, fs_write. Nothing was changed."
    told = json.loads(daemon.cli("ask", "ada", "make", "--as", sender, "--cwd", str(tmp_path), "--json").stdout)
    assert told["error"]["fix"] == "`moot mode ada work` lets it act; then send the message again."
    assert os.listdir(tmp_path) == []


async def test_a_teammate_and_a_background_run_have_the_mode_of_their_conversation(
    daemon: LiveDaemon, tmp_path: Path
) -> None:
    async with daemon.client() as talk:
        for mode, is_made in (("plan", False), ("work", True)):
            await set_mode(talk, mode, "moot", "teams")
            speech = await talk.say("moot", "delegate", "teams", cwd=str(tmp_path))
            assert speech.of("approval_opened") == []
            assert (tmp_path / "made.txt").exists() is is_made, speech.text
        await set_mode(talk, "ask", "moot", "teams")
        speech = talk.start("moot", "delegate", "teams", cwd=str(tmp_path))
        await decide(talk, await speech.until("approval_opened"), "deny")
        await speech.end()
        await set_mode(talk, "plan", sender="backs")
        start = pb.StartRunMsg(agent="ada", content="make", sender="backs", cwd=str(tmp_path))
        run_id = (await talk.ask(start_run=start)).run.run_id
        (run,) = (await talk.ask(wait_runs=pb.WaitRunsMsg(run_ids=[run_id], seconds=30))).run_list.runs
        assert "mode plan" in run.result


async def test_a_call_that_waits_is_refused_once_the_mode_is_plan(
    daemon: LiveDaemon, tmp_path: Path, sender: str
) -> None:
    async with daemon.client() as talk:
        await set_mode(talk, "ask", sender=sender)
        speech = talk.start("ada", "make", sender, cwd=str(tmp_path))
        ask = await speech.until("approval_opened")
        await set_mode(talk, "plan", sender=sender)
        await decide(talk, ask, "once")
        await speech.end()
        assert all("mode plan" in result.output for result in speech.of("tool_result"))
        # As every run in which mode plan has refused all calls: it is not counted as a failure.
        assert (speech.outcome, speech.ended.error) == (
            "denied",
            "Not called in mode plan: exec, fs_write. Nothing was changed.",
        )
    assert os.listdir(tmp_path) == []


async def test_free_asks_about_doubt_and_untrusted_text_only(daemon: LiveDaemon, tmp_path: Path, sender: str) -> None:
    (tmp_path / "folder").mkdir()
    async with daemon.client() as talk:
        found = await set_mode(talk, "free", sender=sender)
        assert "without asking" in found.warning
        assert not await is_asked(talk, 'fs_delete {"path": "folder"}', sender, tmp_path)
        assert not (tmp_path / "folder").exists()
        assert "reviewed" in await is_asked(talk, 'exec {"command": "git reset --hard"}', sender, tmp_path)
        secret = 'secrets_store {"name": "api", "value": "canary-81f5"}'
        assert await is_asked(talk, secret, sender, tmp_path) == "it is dangerous"
        # Text of an imported file is untrusted: the command and the folder may have been chosen by it.
        line = {"role": "user", "content": "hello", "sender": "tainted"}
        meta = {"agent": "ada", "created_by": "tainted", "title": "", "uptime_secs": 0}
        jsonl = "\n".join(json.dumps(each) for each in (meta | {"created_at": "2026-01-01T00:00:00Z"}, line)) + "\n"
        await talk.import_(jsonl, agent="ada", sender="tainted")
        await set_mode(talk, "free", sender="tainted")
        assert "untrusted text" in await is_asked(talk, "make", "tainted", tmp_path)
        (tmp_path / "folder").mkdir()
        assert await is_asked(talk, 'fs_delete {"path": "folder"}', "tainted", tmp_path) == "it is dangerous"
        assert not await is_asked(talk, 'fs_write {"path": "x", "content": "x"}', "tainted", tmp_path)


async def test_owner_and_approving_tokens_change_it_and_everybody_sees_it(daemon: LiveDaemon) -> None:
    address = tcp_address(daemon)
    tokens = {
        name: str(daemon.cli_json("tokens", "new", name, *options)["data"]["token"])
        for name, options in (("phone", ["--may-approve"]), ("tablet", []))
    }
    async with daemon.client() as talk, holding(address, tokens["phone"]) as phone:
        assert (await get_mode(talk, sender="phone")).mode == "work"
        assert (await set_mode(phone, "ask")).mode == "ask"
        for mode in ("free", ""):
            with pytest.raises(Forbidden, match="only the owner"):
                await set_mode(phone, mode)
        with pytest.raises(Forbidden):
            await set_mode(phone, "plan", sender="user")
        with pytest.raises(BadRequest, match="not a mode"):
            await set_mode(talk, "wild")
        async with holding(address, tokens["tablet"]) as tablet:
            assert (await get_mode(tablet)).mode == "work"
            with pytest.raises(Forbidden):
                await set_mode(tablet, "plan")
        events = await talk.connection.subscribe()
        await set_mode(talk, "plan", sender="phone")
        while (event := await anext(events)).kind != pb.MODE_CHANGED:
            pass
        assert (event.root_sender, event.content) == ("phone", "plan")
        assert (event.body.mode_changed.mode, event.body.mode_changed.by) == ("plan", "owner")
        found = {each.sender: each.mode for each in await talk.conversations()}
        assert found["phone"] == "plan"
    assert daemon.cli_json("status")["data"]["mode"] == "work"


def test_the_command_sets_it_and_it_survives_a_restart(home: Home) -> None:
    config = home.path / "config.toml"
    config.write_text(config.read_text().replace('mode = "work"', ""))
    with daemon_thread(home) as daemon:
        # The default where there is a sandbox.
        assert daemon.cli_json("mode", "ada")["data"] == {
            "agent": "ada", "sender": "user", "mode": "work", "is_own": False, "auto_approve": "none",
            "has_own_level": False,
        }  # fmt: skip
        done = daemon.cli("mode", "ada", "free")
        assert done.returncode == 0
        assert "without asking" in done.stderr
        assert done.stdout.startswith("free: ")
    config.write_text(config.read_text() + '\n[sandbox]\nmode = "none"\n')
    with daemon_thread(home) as daemon:
        assert daemon.cli_json("mode", "ada")["data"]["mode"] == "free"
        assert daemon.cli_json("mode", "ada", "--default")["data"] == {
            "agent": "ada", "sender": "user", "mode": "ask", "is_own": False, "auto_approve": "none",
            "has_own_level": False,
        }  # fmt: skip
        assert daemon.cli("mode", "ada", "--default", "plan").returncode == 2
        assert daemon.cli_json("status")["data"]["mode"] == "ask"
