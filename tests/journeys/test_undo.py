"""Changes of files through a running daemon: one approval for several files, undone and redone by their owner."""

import json
from pathlib import Path
from typing import Any

from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, eventually, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.scripting import call as call_step
from tests.scripting import lead, mate, say, script, spawn, wait
from tests.talking import Talking
from tests.teaming import TEAM
from tests.terminal import terminal

CONFIG = PROVIDER_CONFIG + '\n[security.interceptor]\nexempt_tools = ["fs_write", "fs_delete"]\n'
CANARY = "canary-5d0c3f2a9b"


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


def steps(provider: Provider, *calls: dict[str, Any]) -> None:
    provider.program(*({"calls": [each]} for each in calls), {"text": "Done."})


async def decide(talk: Talking, ask: Any, decision: str = "once") -> None:
    message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision)
    await talk.connection.request(pb.ClientMessage(decide_ask=message))


def undo(daemon: LiveDaemon, *words: str) -> Any:
    return json.loads(daemon.cli("undo", *words, "--json").stdout)


PATCH = call(
    "fs_patch",
    changes=[
        {"path": "a.py", "oldText": "x = 1", "newText": "x = 2"},
        {"path": "lib/b.py", "content": "y = 1\n"},
        {"path": "old.py", "delete": True},
        {"path": "from.py", "moveTo": "to.py"},
    ],
)


def lay_out(top: Path) -> dict[str, str]:
    for name in ("a.py", "old.py", "from.py"):
        (top / name).write_text("x = 1\n")
    return contents(top)


def contents(top: Path) -> dict[str, str]:
    return {str(path.relative_to(top)): path.read_text() for path in sorted(top.rglob("*")) if path.is_file()}


PATCHED = {"a.py": "x = 2\n", "lib/b.py": "y = 1\n", "to.py": "x = 1\n"}


async def test_a_patch_is_approved_once_and_whole_and_undone_and_redone(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    before = lay_out(cwd)
    with daemon_thread(home) as daemon:
        steps(provider, call("fs_read", path="a.py"), PATCH)
        async with daemon.client() as talk:
            speech = talk.start("ada", "go", cwd=str(cwd))
            ask = await speech.until("approval_opened")
            for part in ("+x = 2", "+++ b/lib/b.py", "--- a/old.py", "from.py is renamed to to.py"):
                assert part in ask.preview
            assert contents(cwd) == before
            await decide(talk, ask)
            await speech.end()
        assert contents(cwd) == PATCHED
        assert len(speech.of("approval_opened")) == 1

        shown = undo(daemon, "--dry-run")["data"]
        assert (shown["agent"], shown["tool"], shown["dry_run"]) == ("ada", "fs_patch", True)
        assert "-x = 2" in shown["diff"]
        assert contents(cwd) == PATCHED
        printed = daemon.cli("undo", "ada").stdout
        assert "Undid: fs_patch by ada" in printed
        assert "undo --redo` takes this back" in printed
        assert contents(cwd) == before
        assert not (cwd / "lib").exists()
    # After a restart.
    with daemon_thread(home) as daemon:
        assert undo(daemon, "--redo", shown["run"])["data"]["redo"] is True
        assert contents(cwd) == PATCHED
        (cwd / "a.py").write_text("mine\n")
        refused = daemon.cli("undo")
        assert refused.returncode != 0
        assert (
            "error: a.py changed since, so nothing was done\n  fix: `moot undo --force` overwrites it" in refused.stderr
        )
        # The advice keeps the target: without it, the newest change of another conversation could be overwritten.
        assert "`moot undo ada --as user --force` overwrites it" in daemon.cli("undo", "ada").stderr
        assert contents(cwd) == PATCHED | {"a.py": "mine\n"}
        undo(daemon, "--force")
        assert contents(cwd) == before


async def test_a_crash_in_the_middle_of_a_patch_leaves_nothing_of_it(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    before = lay_out(cwd)
    home.write_config((home.path / "config.toml").read_text().replace('"fs_write"', '"fs_write", "fs_patch"'))
    steps(provider, call("fs_read", path="a.py"), PATCH)
    with running(home, MOOT_FAIL_AT="files.changing:4") as daemon:
        async with daemon.client() as talk:
            talk.start("ada", "go", cwd=str(cwd))
            await eventually(lambda: daemon.process.poll() is not None)
        daemon.reap()
    assert contents(cwd) != before
    with running(home) as daemon:
        assert contents(cwd) == before
        assert daemon.cli("undo").returncode != 0


async def test_undo_is_for_the_owner_and_shows_no_secret_but_restores_it(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    (cwd / ".env").write_text(f"KEY={CANARY}\n")
    with daemon_thread(home) as daemon:
        daemon.cli("secrets", "set", "api", stdin=f"{CANARY}\n")
        steps(provider, call("fs_delete", path=".env"))
        async with daemon.client() as talk:
            await talk.say("ada", "go", cwd=str(cwd))
        assert not (cwd / ".env").exists()
        shown = undo(daemon, "--dry-run")["data"]["diff"]
        assert "[SECRET:api]" in shown
        assert CANARY not in shown
        undo(daemon)
        assert (cwd / ".env").read_text() == f"KEY={CANARY}\n"


def test_an_agent_that_does_not_exist_is_named(home: Home) -> None:
    home.write_agent("ada")
    with daemon_thread(home) as daemon:
        error = daemon.cli_json("undo", "adda")["error"]
        assert error["message"] == "there is no agent 'adda'"
        assert error["fix"].startswith("Did you mean 'ada'?")
        assert daemon.cli_json("undo", "ada")["error"]["message"] == "there is nothing to undo"


async def test_a_deleted_conversation_leaves_nothing_to_undo(home: Home, provider: Provider, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"{CANARY}\n")
    with daemon_thread(home) as daemon:
        steps(provider, call("fs_write", path="a", content="new\n"))
        async with daemon.client() as talk:
            await talk.say("ada", "go", cwd=str(tmp_path))
        kept = list(home.path.rglob("contents/*"))
        assert any(CANARY in path.read_text() for path in kept)
        daemon.cli("delete", "ada", "--yes")
        assert list(home.path.rglob("contents/*")) == []
        refused = daemon.cli("undo")
    assert "there is nothing to undo" in refused.stderr


async def test_a_daemon_in_memory_undoes_and_keeps_no_content_when_it_stops(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    home.write_config((home.path / "config.toml").read_text() + '\n[store]\nkind = "memory"\n')
    (tmp_path / "a").write_text("old\n")
    with daemon_thread(home) as daemon:
        for content in ("new\n", "newer\n"):
            steps(provider, call("fs_write", path="a", content=content))
        async with daemon.client() as talk:
            await talk.say("ada", "go", cwd=str(tmp_path))
            await talk.say("ada", "go on", cwd=str(tmp_path))
        undo(daemon)
        assert (tmp_path / "a").read_text() == "new\n"
        assert list(home.path.rglob("contents/*"))
    assert list(home.path.rglob("contents/*")) == []
    assert list(home.path.rglob("file-changes/*.json")) == []


async def test_a_redo_restores_what_a_forced_undo_overwrote(home: Home, provider: Provider, tmp_path: Path) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    before = lay_out(cwd)
    home.write_config((home.path / "config.toml").read_text().replace('"fs_write"', '"fs_write", "fs_patch"'))
    with daemon_thread(home) as daemon:
        steps(provider, call("fs_read", path="a.py"), PATCH)
        async with daemon.client() as talk:
            await talk.say("ada", "go", cwd=str(cwd))
        assert contents(cwd) == PATCHED
        # One file with a line of the user's own, one deleted and one made again.
        (cwd / "a.py").write_text("x = 2\ndelta\n")
        (cwd / "lib/b.py").unlink()
        (cwd / "old.py").write_text("mine\n")
        mine = contents(cwd)
        assert "`moot undo --redo` takes that back" in daemon.cli("undo").stderr
        undo(daemon, "--force")
        assert contents(cwd) == before
    with daemon_thread(home) as daemon:
        undo(daemon, "--redo")
        assert contents(cwd) == mine
        undo(daemon)
        assert contents(cwd) == before
        # The other way round: what a forced redo overwrites comes back with an undo.
        (cwd / "a.py").write_text("x = 1\nomega\n")
        refused = daemon.cli("undo", "--redo").stderr
        assert "`moot undo --redo --force` overwrites it" in refused
        assert "`moot undo` takes that back" in refused
        undo(daemon, "--redo", "--force")
        assert contents(cwd) == mine
    with daemon_thread(home) as daemon:
        undo(daemon)
        assert contents(cwd) == before | {"a.py": "x = 1\nomega\n"}
        assert "there is nothing to undo" in daemon.cli("undo").stderr


async def test_a_change_of_a_teammate_is_undone_as_its_own(home: Home, tmp_path: Path) -> None:
    home.write_config(PLAIN + TEAM)
    write = call_step("fs_write", path="made.txt", content="made\n")
    home.write_script(
        script(lead("^go", spawn("work"), wait(), say("{result}")), mate("^work", write, say("Written.")))
    )
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert (await talk.say("moot", "go", cwd=str(tmp_path))).outcome == "completed"
        assert (tmp_path / "made.txt").exists()
        # It belongs to the conversation in which the teammate was started.
        shown = undo(daemon, "moot", "--dry-run")["data"]
        assert (shown["agent"], shown["by"]) == ("moot", "operator")
        printed = daemon.cli("undo", "moot").stdout.replace("\n", " ")
        assert "Undid: fs_write by operator, a teammate of moot, in " in printed
        with terminal(daemon.home, "undo", "--redo", columns=40) as person:
            assert person.wait_for_exit() == 0
        # Broken between words.
        assert "by operator, a\n  teammate of moot, in\n" in person.rows.text
