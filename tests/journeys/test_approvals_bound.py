"""What an owner agreed to is what is done: seen whole, held to what was shown, and no rule allows more than it says."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, DaemonProcess, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.mcp_kit import SCRIPT as SERVER
from tests.mcp_kit import approve_tools, tool, write_state
from tests.talking import Speech, Talking

CONFIG = PROVIDER_CONFIG
HIDDEN = "HIDDEN-TAIL"
FROZEN = Path(__file__).parents[1] / "unit" / "store" / "frozen" / "6.sql"


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def configure(home: Home, more: str) -> None:
    home.write_config((home.path / "config.toml").read_text() + more)


def script(provider: Provider, *calls: dict[str, Any]) -> None:
    provider.program({"calls": list(calls)}, {"text": "Done."})


async def decide(talk: Talking, ask: Any, decision: str = "once", **more: Any) -> pb.AskDecided:
    message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision, **more)
    return (await talk.ask(decide_ask=message)).ask_decided


def results(speech: Speech) -> list[str]:
    return [result.output for result in speech.of("tool_result")]


def shown(daemon: LiveDaemon, ask_id: str) -> tuple[str, Any]:
    as_json = json.loads(daemon.cli("inbox", "show", ask_id, "--json").stdout)["data"]
    return daemon.cli("inbox", "show", ask_id).stdout, as_json


# ---- seen whole ------------------------------------------------------------------------------------


LONG = [
    call("exec", command="true\n" + "# nothing\n" * 3000 + f"echo {HIDDEN}\n"),
    call("fs_write", path="new.py", content="x = 1  # harmless\n" * 20_000 + f"{HIDDEN}\n"),
    call("fs_write", path="old.py", content="x = 1  # harmless\n" * 5000 + f"{HIDDEN}\n"),
    call("crypto_sign", data="y\n" * 120_000 + HIDDEN),
    call("mcp__desk__send", note="please look at this harmless note " * 30, host=HIDDEN),
]


async def test_whatever_is_cut_says_so_and_inbox_show_has_all_of_it(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    state = tmp_path / "server"
    state.mkdir()
    write_state(state, tool("send"))
    words = json.dumps([str(SERVER), f"{state}/state.json"])
    configure(home, f'\n[mcp.desk]\ncommand = "{sys.executable}"\nargs = {words}\nsandbox = "off"\n')
    work = tmp_path / "work"
    work.mkdir()
    (work / "old.py").write_text("x = 1  # harmless?\n" * 5000)
    with daemon_thread(home) as daemon:
        approve_tools(daemon, "desk")
        async with daemon.client() as talk:
            for number, each in enumerate(LONG):
                script(provider, each)
                # Each in a conversation of its own: together they are too long for the model's window.
                speech = talk.start("ada", "go", f"user-{number}", cwd=str(work))
                event = await speech.until("approval_opened")
                text, as_json = shown(daemon, event.ask_id)
                assert HIDDEN in text, each["name"]
                assert as_json["arguments"] == each["arguments"]
                for cut in (event.line, event.preview, daemon.cli("inbox").stdout):
                    assert HIDDEN in cut or "more characters" in cut or "not shown" in cut or len(cut) < 400, each
                await decide(talk, event, "deny")
                await speech.end()


async def test_the_list_shows_where_a_line_ended_and_names_what_nobody_can_see(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    script(provider, call("exec", command="ls # look\ntouch SPOOF"))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            await decide_after(talk, speech, lambda: "$ ls # look ⏎ touch SPOOF" in daemon.cli("inbox").stdout)
            script(provider, call("fs_write", path="a.txt", content="q\u200b\u061c\u3164\u200fz\n"))
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            ask = await speech.until("approval_opened")
            text, _ = shown(daemon, ask.ask_id)
            assert "+q⟨U+200B⟩⟨U+061C⟩⟨U+3164⟩⟨U+200F⟩z" in text
            await decide(talk, ask, "deny")
            await speech.end()


async def decide_after(talk: Talking, speech: Speech, seen: Any) -> None:
    ask = await speech.until("approval_opened")
    assert seen()
    await decide(talk, ask, "deny")
    await speech.end()


# ---- held to what was shown --------------------------------------------------------------------------


async def test_a_file_that_changed_after_it_was_shown_is_not_changed(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    edit = call("fs_edit", path="a.py", startLine=2, endLine=2, content="TWO\n")
    write = call("fs_write", path="a.py", content="import auth\nauth.require()\n")
    provider.program({"calls": [call("fs_read", path="a.py")]}, {"calls": [edit, write]}, {"text": "Done."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            await speech.until("approval_opened", count=2)
            asks = {ask.tool: ask for ask in await talk.asks()}
            await decide(talk, asks["fs_write"])
            await speech.until("tool_result", count=2)
            await decide(talk, asks["fs_edit"])
            await speech.end()
    assert (tmp_path / "a.py").read_text() == "import auth\nauth.require()\n"
    assert [result for result in results(speech) if "changed since it was approved" in result]


async def test_a_link_put_in_the_place_of_a_file_is_not_written_through(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings/main.conf").write_text("safe\n")
    script(provider, call("fs_write", path="todo.md", content="evil\n"))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            ask = await speech.until("approval_opened")
            (tmp_path / "todo.md").symlink_to("settings/main.conf")
            await decide(talk, ask)
            await speech.end()
            script(provider, call("fs_write", path="todo.md", content="meant\n"))
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            ask = await speech.until("approval_opened")
            # Now it is shown where it leads, and is done.
            assert f"todo.md resolves to {tmp_path}/settings/main.conf" in ask.preview
            assert (tmp_path / "settings/main.conf").read_text() == "safe\n"
            await decide(talk, ask)
            await speech.end()
    assert (tmp_path / "settings/main.conf").read_text() == "meant\n"


@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_a_file_that_changed_while_the_daemon_was_down_is_shown_anew(
    home: Home, provider: Provider, tmp_path: Path, end: str
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    script(provider, call("fs_write", path="a.txt", content="new\n"))
    with running(home) as daemon:
        async with daemon.client() as talk:
            ask = await talk.start("ada", "go", cwd=str(tmp_path)).until("approval_opened")
            assert (ask.attempt, "-one" in ask.preview) == (1, True)
        stop(daemon, end)
    (tmp_path / "a.txt").write_text("precious\n")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.attach("ada")
            again = await speech.until("approval_opened")
            assert (again.ask_id, again.attempt, "-precious" in again.preview) == (ask.ask_id, 2, True)
            await decide(talk, again)
            await speech.end()
    assert (tmp_path / "a.txt").read_text() == "new\n"


def stop(daemon: DaemonProcess, end: str) -> None:
    if end == "kill":
        daemon.kill_9()
    else:
        daemon.terminate()
        assert daemon.reap() == 0


async def test_a_command_that_waits_is_shown_anew_when_the_sandbox_is_another(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    script(provider, call("exec", command="echo hello"))
    with running(home) as daemon:
        async with daemon.client() as talk:
            ask = await talk.start("ada", "go", cwd=str(tmp_path)).until("approval_opened")
            assert "has no network" in ask.preview
        daemon.kill_9()
    configure(home, "\n[sandbox]\nnetwork = true\n")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.attach("ada")
            again = await speech.until("approval_opened")
            assert (again.ask_id, again.attempt) == (ask.ask_id, 2)
            assert "can reach the network" in again.preview
            await decide(talk, again, "deny")
            await speech.end()


async def test_a_tool_that_is_blocked_while_its_call_waits_is_not_run(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    script(provider, call("exec", command="touch made"))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            ask = await speech.until("approval_opened")
            configure(home, '\n[security.interceptor]\nblocked_tools = ["exec"]\n')
            assert daemon.cli("reload").returncode == 0
            await decide(talk, ask)
            await speech.end()
    assert "blocked by security policy" in results(speech)[0]
    assert not (tmp_path / "made").exists()


OWN_TOOL = '''
from pathlib import Path

from moot.tools import tool


@tool(safety="{safety}")
async def sign(path: str) -> str:
    """Sign a file.

    Args:
        path: The file.
    """
    Path(path).touch()
    return "signed"
'''


async def test_a_tool_that_is_removed_while_its_call_waits_is_not_run(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    file, mark = home.path / "tools" / "own.py", tmp_path / "made"
    file.parent.mkdir()
    file.write_text(OWN_TOOL.format(safety="dangerous"))
    state = write_state(tmp_path, tool("echo"))
    before = (home.path / "config.toml").read_text()
    server = f'\n[mcp.box]\ncommand = "{sys.executable}"\nargs = ["{SERVER}", "{state}"]\nsandbox = "off"\n'
    configure(home, server)
    script(provider, call("sign", path=str(mark)), call("mcp__box__echo", text="hello"))
    with daemon_thread(home) as daemon:
        approve_tools(daemon, "box")
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            await speech.until("approval_opened", count=2)
            file.unlink()
            home.write_config(before)
            assert daemon.cli("reload").returncode == 0
            for ask in speech.of("approval_opened"):
                await decide(talk, ask)
            await speech.end()
    assert sorted(results(speech)) == [
        "sign is no longer available; it was not run.",
        "the MCP server box was removed or replaced. Make the call again if its tools are still there.",
    ]
    assert not mark.exists()


async def test_a_run_cannot_call_a_tool_that_was_removed_since_it_started(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    file, mark = home.path / "tools" / "own.py", tmp_path / "made"
    file.parent.mkdir()
    file.write_text(OWN_TOOL.format(safety="safe"))
    provider.program(
        {"calls": [call("exec", command="true")]}, {"calls": [call("sign", path=str(mark))]}, {"text": "Done."}
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            ask = await speech.until("approval_opened")
            file.unlink()
            assert daemon.cli("reload").returncode == 0
            await decide(talk, ask)
            await speech.end()
    assert results(speech)[-1] == "sign is no longer available; it was not run."
    assert not mark.exists()


# ---- rules ---------------------------------------------------------------------------------------------


async def asked(talk: Talking, provider: Provider, each: dict[str, Any], cwd: Path, decision: str = "deny") -> bool:
    """Whether the call is asked about; it is then decided so."""
    script(provider, each)
    speech = talk.start("ada", "go", cwd=str(cwd))
    await speech.until("tool_start")
    if speech_waits := await opened(speech):
        await decide(talk, speech.of("approval_opened")[0], decision)
    await speech.end()
    return speech_waits


async def opened(speech: Speech) -> bool:
    """Whether it comes to an approval before it comes to a result."""
    try:
        await speech.until("approval_opened")
    except AssertionError:
        return False
    return True


def folders(top: Path, names: Sequence[str]) -> list[Path]:
    made = [top / name for name in names]
    for folder in made:
        folder.mkdir()
    return made


async def test_a_rule_for_a_command_holds_in_its_folder_alone(home: Home, provider: Provider, tmp_path: Path) -> None:
    here, there = folders(tmp_path, ("here", "there"))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            run = call("exec", command="sh run.sh")
            assert await asked(talk, provider, run, here, "always")
            assert not await asked(talk, provider, run, here)
            assert await asked(talk, provider, run, there)
        (rule,) = daemon.cli_json("rules")["data"]
    assert rule["text"] == f"allow exec: sh run.sh in {here}, in a sandbox without a network for ada as user"


async def test_a_rule_for_another_tool_is_about_its_arguments_unless_any_call_was_chosen(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            write = call("fs_write", path="a.txt", content="1\n")
            other = call("fs_write", path="b.txt", content="1\n")
            assert await asked(talk, provider, write, tmp_path, "always")
            assert not await asked(talk, provider, write, tmp_path)
            script(provider, other)
            speech = talk.start("ada", "go", cwd=str(tmp_path))
            ask = await speech.until("approval_opened")
            done = daemon.cli("inbox", "approve", ask.ask_id, "--attempt", "1", "--always", "--any", "--yes")
            assert "allow any fs_write for ada as user" in done.stdout
            await speech.end()
            assert not await asked(talk, provider, call("fs_write", path="c.txt", content="2\n"), tmp_path)
        exact, whole = daemon.cli_json("rules")["data"]
    assert "exactly these arguments (sha256 " in exact["text"]
    assert f" at {tmp_path}/a.txt: write a.txt" in exact["text"]
    assert whole["text"] == "allow any fs_write for ada as user"


async def test_a_rule_about_a_skill_ends_with_it(home: Home, provider: Provider, tmp_path: Path) -> None:
    words = ("skills", "new", "helper", "--description", "Helps.", "--type", "script", "--from", "-")
    with daemon_thread(home) as daemon:
        daemon.cli(*words, stdin="#!/bin/sh\necho ONE\n")
        async with daemon.client() as talk:
            assert await asked(talk, provider, call("skill_helper"), tmp_path, "always")
            assert not await asked(talk, provider, call("skill_helper"), tmp_path)
            assert daemon.cli("skills", "remove", "helper", "--yes").returncode == 0
            daemon.cli(*words, stdin="#!/bin/sh\necho TWO\n")
            assert await asked(talk, provider, call("skill_helper"), tmp_path)


async def test_what_an_agent_makes_of_a_skill_is_told_to_nobody_before_the_owner_agrees(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    made = call("create_skill", name="odd", description="OBEY ME.", type="instruction", definition="x")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert await asked(talk, provider, made, tmp_path, "deny")
            assert daemon.cli_json("skills")["data"] == []
            configure(home, '\n[security.interceptor]\npolicy = "none"\n')
            daemon.cli("reload")
            assert not await asked(talk, provider, made, tmp_path)
            provider.program({"text": "Hello."})
            await talk.say("bob", "hello")
            assert "OBEY" not in json.dumps(provider.bodies()[-1]["tools"])
            assert daemon.cli("skills", "trust", "odd").returncode == 2
            assert daemon.cli("skills", "trust", "odd", "--yes").returncode == 0

            async def is_offered() -> bool:
                provider.program({"text": "Hello."})
                await talk.say("bob", "hello again")
                return "OBEY" in json.dumps(provider.bodies()[-1]["tools"])

            # A changed file is noticed a moment later.
            await eventually(is_offered)


def test_an_older_store_keeps_no_rule_that_bound_less_than_it_showed(home: Home) -> None:
    database = home.path / "data" / "moot.db"
    database.parent.mkdir(mode=0o700)
    older = FROZEN.read_text(encoding="utf-8") + (
        "INSERT INTO rules (agent, sender, tool, pattern, run, created_at, created_by)"
        " VALUES ('ada', 'user', 'exec', 'ls', '', 1.0, 'owner'), ('ada', 'user', 'fs_write', '*', '', 1.0, 'owner');"
    )
    connection = apsw.Connection(str(database))
    connection.execute(older)
    connection.close()
    with daemon_thread(home) as daemon:
        assert daemon.cli_json("rules")["data"] == []


async def test_a_command_is_not_run_in_a_folder_that_took_the_place_of_the_one_shown(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    work, other = folders(tmp_path, ["work", "other"])
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            for name in ("exec", "exec_bg"):
                script(provider, call(name, command="touch HERE"))
                speech = talk.start("ada", "go", cwd=str(work))
                ask = await speech.until("approval_opened")
                work.rename(tmp_path / f"was-{name}")
                work.symlink_to(other)
                await decide(talk, ask)
                await speech.end()
                assert "changed since it was approved" in results(speech)[-1]
                work.unlink()
                (tmp_path / f"was-{name}").rename(work)
    assert not list(other.iterdir())


async def test_a_rule_for_a_command_does_not_follow_a_link_to_another_folder(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    one, other = folders(tmp_path, ["one", "other"])
    link = tmp_path / "link"
    link.symlink_to(one)
    make = call("exec", command="touch HERE")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert await asked(talk, provider, make, link, "always")
            assert not await asked(talk, provider, make, link)
            link.unlink()
            link.symlink_to(other)
            assert await asked(talk, provider, make, link)
    assert not list(other.iterdir())
