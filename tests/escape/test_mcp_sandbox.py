"""A program that is an MCP server is held as a command is: no home, nothing of Moot, no network it was not given."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moot.domain.errors import Unavailable
from moot.domain.prompt import Sink
from tests.daemon_process import eventually
from tests.escape.exec_kit import marked
from tests.mcp_kit import SCRIPT, Kit, kit, tool

SHELL = tool("shell", command={"type": "string"})


@asynccontextmanager
async def boxed(folder: Path, **config: Any) -> AsyncIterator[Kit]:
    """A server in the sandbox, working in a folder of its own beside whatever a test keeps from it."""
    work = folder / "work"
    work.mkdir()
    settings: dict[str, Any] = {"sandbox": "on", "cwd": str(work), "readable": (str(SCRIPT.parent),)}
    async with kit(work, SHELL, **(settings | config)) as box:
        yield box


async def say(box: Kit, command: str) -> str:
    if not box.servers.tools():
        await box.approve()
    return (await box.call("mcp__box__shell", {"command": command})).content


async def test_a_server_writes_in_its_own_folder_and_nowhere_else(tmp_path: Path) -> None:
    async with boxed(tmp_path) as box:
        await say(box, f"echo a > made; echo b > {tmp_path}/out; echo c > {SCRIPT.parent}/out; echo d > /etc/out")
        assert (tmp_path / "work" / "made").read_text() == "a\n"
    assert not (tmp_path / "out").exists()
    assert not (SCRIPT.parent / "out").exists()


async def test_a_server_does_not_see_the_home_or_what_lies_beside_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "me"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("canary-of-the-key")
    (home / "diary").write_text("canary-of-the-diary")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CANARY", "canary-of-the-environment")
    async with boxed(tmp_path) as box:
        said = await say(box, f"cat {home}/diary {home}/.ssh/id; ls -la ~; env; cat /proc/*/environ")
    assert "canary" not in said


async def test_moots_own_files_are_hidden_from_a_server_also_where_it_is_lent_what_is_above_them(
    tmp_path: Path,
) -> None:
    own = tmp_path / "moot"
    own.mkdir()
    (own / "moot.db").write_text("canary-of-the-store")
    readable = (str(SCRIPT.parent), str(tmp_path))
    async with boxed(tmp_path, protected=[own], readable=readable) as box:
        said = await say(box, f"ls {tmp_path}; cat {own}/moot.db")
    assert "canary" not in said


async def test_a_server_whose_program_is_reached_by_a_link_starts_in_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(sys.prefix)
    python = tmp_path / "current" / "bin" / Path(sys.executable).name
    async with boxed(tmp_path, command=str(python)) as box:
        assert await say(box, "echo here") == "here\n"


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, list[bytes]]]:
    heard: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()


@pytest.mark.parametrize("network", [False, True])
async def test_a_server_has_a_network_only_where_it_is_given_one(tmp_path: Path, network: bool) -> None:
    python = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).sendall(b'out')"
    async with listening() as (port, heard), boxed(tmp_path, network=network) as box:
        await say(box, f'python -c "{python}" {port}')
        if network:
            await eventually(lambda: heard)
        (found,) = box.servers.tools()
    assert heard == ([b"out"] if network else [])
    assert found.spec.sinks == (frozenset({Sink.EGRESS}) if network else frozenset())


async def test_what_a_server_started_ends_with_it(tmp_path: Path) -> None:
    mark = f"6{time.time_ns() % 10**9}"
    async with boxed(tmp_path) as box:
        await say(box, f"setsid sleep {mark} >/dev/null 2>&1 </dev/null & sleep {mark} >/dev/null 2>&1 & true")
        assert len(marked(mark)) >= 2
    await eventually(lambda: not marked(mark))


async def test_without_a_sandbox_to_be_had_a_server_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moot.tools.sandbox.sandbox._candidates", list)
    async with boxed(tmp_path) as box:
        with pytest.raises(Unavailable, match="bubblewrap is not installed"):
            await box.servers.refresh("box")
        assert box.servers.tools() == []


async def test_a_server_that_lacks_something_in_the_sandbox_says_how_to_give_it(tmp_path: Path) -> None:
    async with boxed(tmp_path, readable=()) as box:
        with pytest.raises(Unavailable):
            await box.servers.refresh("box")
        assert "mcp_server.py" in box.servers.problem("box")
        assert "readable" in box.servers.problem("box")


async def test_the_owner_can_run_a_server_without_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "beside").write_text("seen")
    async with boxed(tmp_path, sandbox="off") as box:
        assert await say(box, f"cat {tmp_path}/beside") == "seen"
        (found,) = box.servers.tools()
    assert found.spec.sinks == frozenset({Sink.EGRESS})
