"""Attempts to see Moot's own files through mounts. Run by test_bind_mounts.py in a mount namespace of its own."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from moot.domain.errors import Forbidden
from moot.tools.sandbox import view
from tests.daemon_process import eventually
from tests.escape.exec_kit import Bench, marked
from tests.escape.test_exec_escape import furnish
from tests.escape.test_mcp_sandbox import boxed
from tests.escape.test_mcp_sandbox import say as tell_server
from tests.mcp_kit import SCRIPT


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
