"""Attempts to see Moot's own files through mounts. Run by test_bind_mounts.py in a mount namespace of its own."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from moot.domain.errors import Forbidden, MootError
from moot.tools.files.off_limits import OffLimits
from moot.tools.sandbox import view
from moot.tools.user_message import SendUserMessage
from tests.daemon_process import CONFIG, Home, eventually, running
from tests.escape.exec_kit import Bench, marked
from tests.escape.test_exec_escape import furnish
from tests.escape.test_files_beneath import CALLS, FileTools, at
from tests.escape.test_mcp_sandbox import boxed
from tests.escape.test_mcp_sandbox import say as tell_server
from tests.mcp_kit import SCRIPT
from tests.scripting import call, say, script


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    furnish(made)
    (made.home / "agents").mkdir()
    return made


def bind(source: Path, target: Path, *options: str) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    subprocess.run(["mount", "--bind", *options, str(source), str(target)], check=True, timeout=30)


def mount_tmpfs(target: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "none", str(target)], check=True, timeout=30)


LOOK = "grep -rs canary . ; find . -name moot.db -size +0; cat */moot.db */config.toml */*/moot.db */*/config.toml"


async def test_moots_files_mounted_in_the_project_are_not_seen(bench: Bench) -> None:
    bind(bench.home, bench.work / "all")
    bind(bench.home / "data", bench.work / "deep" / "data")
    bind(bench.home / "config.toml", bench.work / "settings")
    bind(bench.home.parent, bench.work / "above")
    said = await bench.say(f"{LOOK}; cat settings above/moot/config.toml; ls all/data deep/data above/moot/data")
    assert "canary" not in said
    assert "moot.db\n" not in said
    before = (bench.home / "config.toml").read_text()
    await bench.say(
        "echo evil > settings; echo evil > all/config.toml; mv all gone; rm -rf deep above; mkdir -p all/agents/x"
    )
    assert (bench.home / "config.toml").read_text() == before
    assert list((bench.home / "agents").iterdir()) == []
    assert await bench.say("echo fine > note; cat note") == "fine\n"


async def test_moots_files_mounted_twice_over_are_not_seen(bench: Bench, tmp_path: Path) -> None:
    """A mount of a mount, a mount in Moot's own folder, and a part of it alone."""
    bind(bench.home, tmp_path / "elsewhere")
    bind(tmp_path / "elsewhere", bench.work / "again")
    (bench.home / "data" / "part").mkdir()
    (bench.home / "data" / "part" / "key").write_text("canary-of-the-part")
    bind(bench.home / "data" / "part", bench.work / "part")
    mount_tmpfs(bench.home / "agents")
    (bench.home / "agents" / "own").write_text("canary-of-another-device")
    bind(bench.home / "agents", bench.work / "agents")
    said = await bench.say(f"{LOOK}; cat part/key agents/own again/agents/own")
    assert "canary" not in said


async def test_a_mount_of_moots_folder_is_no_working_directory_when_mounted(bench: Bench, tmp_path: Path) -> None:
    bind(bench.home, tmp_path / "mounted")
    for cwd in (tmp_path / "mounted" / "data", tmp_path / "mounted" / "agents"):
        with pytest.raises(Forbidden):
            await bench.run("ls", cwd=cwd)
    said = await bench.say("cat config.toml data/moot.db; ls", cwd=tmp_path / "mounted")
    assert "canary" not in said


async def test_a_workspace_with_moots_files_mounted_in_it_is_usable_and_shows_nothing_of_them(bench: Bench) -> None:
    room = bench.home / "data" / "workspaces" / "one"
    bind(bench.home, room / "bind")
    bind(bench.home / "data" / "workspaces" / "two", room / "two")
    (bench.home / "data" / "workspaces" / "two" / "note").write_text("canary-of-the-neighbour")
    said = await bench.say(f"{LOOK}; cat two/note; echo mine > note; cat note", cwd=room)
    assert "canary" not in said
    assert said.endswith("mine\n")


async def test_private_files_mounted_in_the_project_are_not_seen(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "me"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("canary-of-the-key")
    monkeypatch.setenv("HOME", str(home))
    bind(home, bench.work / "home")
    bind(home / ".ssh", bench.work / "keys")
    assert "canary" not in await bench.say("cat home/.ssh/id keys/id; grep -rs canary .")
    with pytest.raises(Forbidden):
        await bench.run("ls", cwd=bench.work / "keys")


async def test_an_mcp_server_and_a_background_command_do_not_see_mounted_files_either(
    bench: Bench, tmp_path: Path
) -> None:
    bind(bench.home, bench.work / "all")
    job = await bench.tool("exec_bg")({"command": LOOK}, bench.context())
    await bench.jobs.find(bench.context().key, str(job)).process.over()
    assert "canary-of" not in str(await bench.tool("exec_status")({"id": job}, bench.context()))
    place = tmp_path / "server"
    place.mkdir()
    bind(bench.home, place / "lent" / "all")
    readable = (str(SCRIPT.parent), str(place / "lent"), str(place / "lent" / "all"))
    async with boxed(place, protected=bench.protected, readable=readable) as box:
        said = await tell_server(box, f"cd {place}/lent; ls; {LOOK}")
    assert "canary" not in said


async def test_what_is_mounted_while_a_command_starts_keeps_it_from_starting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.work / "late").mkdir()
    # The sandbox itself is tried first.
    await bench.run("true")
    real = view.add_mounts

    def mount_late(*arguments: object, **named: object) -> None:
        real(*arguments, **named)  # type: ignore[arg-type]
        bind(bench.home, bench.work / "late")

    monkeypatch.setattr(view, "add_mounts", mount_late)
    with pytest.raises(Forbidden, match="would see Moot's own files"):
        await bench.run("cat late/config.toml")


async def test_what_is_mounted_later_ends_commands_and_servers_that_would_see_it(bench: Bench, tmp_path: Path) -> None:
    change_propagation("--make-rshared")
    try:
        for folder in ("late", "harmless", "other"):
            (bench.work / folder).mkdir()
        job = await bench.tool("exec_bg")({"command": "touch up; exec sleep 600"}, bench.context())
        process = bench.jobs.find(bench.context().key, str(job)).process
        await eventually((bench.work / "up").exists)
        bind(bench.work / "other", bench.work / "harmless")
        assert await bench.say("echo fine") == "fine\n"
        assert process.ending is None
        bind(bench.home, bench.work / "late")
        async with asyncio.timeout(60):
            await process.over()
        assert "own files were mounted in" in str(await bench.tool("exec_status")({"id": job}, bench.context()))
        (tmp_path / "server").mkdir()
        async with boxed(tmp_path / "server", protected=bench.protected) as box:
            assert await tell_server(box, "mkdir late; echo up") == "up\n"
            bind(bench.home, tmp_path / "server" / "work" / "late")
            await eventually(lambda: not marked("mcp_server.py"))
    finally:
        change_propagation("--make-rprivate")


def change_propagation(kind: str) -> None:
    subprocess.run(["mount", kind, "/"], check=True, timeout=30)


def make_off_limits(bench: Bench, *private: Path) -> OffLimits:
    workspaces = str(bench.home / "data" / "workspaces")
    return OffLimits(places=[*map(str, bench.protected)], workspaces=workspaces, private=[*map(str, private)])


def is_refused(files: FileTools, name: str, **arguments: Any) -> bool:
    try:
        files(name, **arguments)
    except MootError:
        return True
    return False


def test_no_file_tool_reaches_what_is_off_limits_through_a_mount_of_any_part_of_it(
    bench: Bench, tmp_path: Path
) -> None:
    """The whole, what is above it, a folder in it and a single file; they are mounted while the tools are in use."""
    keys, deep = tmp_path / "me" / ".ssh", bench.home / "data" / "deep" / "er"
    for folder, text in ((keys / "old", "canary-of-the-key"), (deep, "canary-of-the-part")):
        folder.mkdir(parents=True)
        (folder / "secret").write_text(text)
    mount_tmpfs(bench.home / "agents")
    (bench.home / "agents" / "secret").write_text("canary-of-another-device")
    (bench.work / "other").mkdir()
    (bench.work / "other" / "secret").write_text("fine")
    files = FileTools(bench.work, make_off_limits(bench, keys))
    assert files("fs_read", path="other/secret") == "fine"
    bind(bench.work / "other", bench.work / "harmless")
    sources = {
        "all": bench.home,
        "above": bench.home.parent / "me",
        "data": bench.home / "data",
        "deep": deep.parent,
        "er": deep,
        "file": deep / "secret",
        "agents": bench.home / "agents",
        "agent": bench.home / "agents" / "secret",
        "keys": keys,
        "old": keys / "old",
        "key": keys / "old" / "secret",
    }
    for name, source in sources.items():
        bind(source, bench.work / "in" / name)
    inner = ("secret", "er/secret", "deep/er/secret", "data/deep/er/secret", "old/secret", ".ssh/old/secret")
    own = (*bench.protected, keys)
    for name, source in sources.items():
        # What lies beside the places themselves is not off limits.
        parts = [part for part in inner if any((source / part).is_relative_to(place) for place in own)]
        assert parts
        for path in {f"in/{name}"} if source.is_file() else {f"in/{name}/{part}" for part in parts}:
            files.every(path)
    assert files("fs_search", pattern="canary") == "No matches."
    assert files("fs_glob", pattern="secret") == "harmless/secret\nother/secret"
    changes = [{"path": "new.txt", "content": "x"}, {"path": "in/er/secret", "content": "evil"}]
    assert is_refused(files, "fs_patch", changes=changes)
    attach = SendUserMessage(make_off_limits(bench, keys))
    for path in ("in/file", "in/er/secret", "in/key"):
        with pytest.raises(MootError):
            asyncio.run(attach({"message": "x", "status": "normal", "attachments": [path]}, at(bench.work)))
    # A folder is not deleted with what is mounted in it.
    for name in ("in", "harmless"):
        assert is_refused(files, "fs_delete", path=name)
    assert (deep / "secret").read_text() == "canary-of-the-part"
    assert (bench.home / "data" / "moot.db").exists()
    assert (bench.work / "other" / "secret").read_text() == "fine"
    for name in ("data", "er", "agents", "keys", "old"):
        assert is_refused(FileTools(bench.work / "in" / name, make_off_limits(bench, keys)), "fs_list", path=".")


def test_a_workspace_on_a_mount_of_its_own_is_usable_and_shows_nothing_else(bench: Bench) -> None:
    """As in a container whose volume is Moot's data folder."""
    data, store = bench.home / "data", bench.home.parent / "volume"
    data.rename(store)
    bind(store, data)
    room = data / "workspaces" / "one"
    bind(data / "workspaces" / "two", room / "two")
    (data / "workspaces" / "two" / "note").write_text("canary-of-the-neighbour")
    (data / "vault").mkdir()
    (data / "vault" / "key").write_text("canary-of-the-key")
    bind(data / "vault", room / "vault")
    files = FileTools(room, make_off_limits(bench))
    files("fs_write", path="note", content="mine")
    assert files("fs_read", path="note") == "mine"
    for path in ("two/note", "vault/key"):
        files.every(path)


def steps(*calls: dict[str, Any]) -> str:
    return script({"match": ".", "steps": [*calls, say("Done.")]})


async def test_a_running_daemon_shows_nothing_of_what_is_mounted_after_its_start(tmp_path: Path) -> None:
    home, work = Home(tmp_path / "home"), tmp_path / "work"
    work.mkdir()
    paths = ("late/er/secret", "late-file", "whole/data/deep/er/secret")
    made = [call(tool, path=path, **CALLS[tool]) for path in paths for tool in ("fs_read", "fs_stat", "fs_write")]
    made += [
        call("fs_search", pattern="canar[y]-of"),
        call("fs_delete", path="late"),
        call("exec", command="cat late/er/secret late-file whole/data/deep/er/secret; echo evil > late-file; ls late"),
    ]
    home.furnish(script=steps(*made), config=CONFIG + '[security.interceptor]\npolicy = "none"\n')
    deep = home.path / "data" / "deep"
    (deep / "er").mkdir(parents=True)
    secret = deep / "er" / "secret"
    secret.write_text("canary-of-the-daemon")
    with running(home) as daemon:
        async with daemon.client() as talk:
            bind(deep, work / "late")
            bind(secret, work / "late-file")
            bind(home.path, work / "whole")
            speech = await talk.say("ada", "look", cwd=str(work))
            results = [(each.name, each.output) for each in speech.of("tool_result")]
    assert len(results) == len(made)
    assert not [each for each in results if "canary-of" in json.dumps(each)]
    assert [name for name, text in results if name.startswith("fs_") and "off limits" not in text] == ["fs_search"]
    assert secret.read_text() == "canary-of-the-daemon"
