"""The configuration of tools takes effect with a reload, without a restart."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PATIENCE, PROVIDER_CONFIG, Home
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.mcp_kit import SCRIPT as SERVER
from tests.mcp_kit import approve_tools, tool, write_state
from tests.talking import Speech, Talking
from tests.web_server import serving

CONFIG = PROVIDER_CONFIG
# The interpreter itself, which a command can see; the environment it is installed in is not shown.
PYTHON = os.path.realpath(sys.executable)
TOLD = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).sendall(b'out')"


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


class Settings:
    """What is appended to the configuration, and taken up by a daemon that runs."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._text = (home.path / "config.toml").read_text()

    def write(self, extra: str) -> int:
        """Gives the line the addition begins at."""
        self._home.write_config(self._text + extra)
        written = (self._home.path / "config.toml").read_text()
        return written[: written.index(extra)].count("\n") + 1

    async def apply(self, talk: Talking, extra: str) -> list[str]:
        self.write(extra)
        return list((await talk.ask(reload=pb.ReloadMsg())).reloaded.flaws)


async def approved(talk: Talking, speech: Speech) -> None:
    ask = await speech.until("approval_opened")
    message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision="once")
    await talk.connection.request(pb.ClientMessage(decide_ask=message))
    await speech.end()


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, asyncio.Event]]:
    heard = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(100):
            heard.set()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()


async def fetched(talk: Talking, sender: str) -> pb.ToolResultEvent:
    speech = await talk.say("ada", "fetch it", sender)
    (found,) = speech.of("tool_result")
    return found


async def page(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html><body><p>The page itself.</p></body></html>", content_type="text/html")


async def test_an_address_that_is_allowed_from_now_on_is_fetched_from_now_on(home: Home, provider: Provider) -> None:
    settings = Settings(home)
    async with serving(page) as site:
        for _ in range(3):
            provider.program({"calls": [call("web_fetch", url=site.url)]}, {"text": "Tried."})
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                assert (await fetched(talk, "one")).is_error
                assert await settings.apply(talk, f'\n[web]\nallow_private = ["127.0.0.1:{site.port}"]\n') == []
                assert "The page itself." in (await fetched(talk, "two")).output
                assert await settings.apply(talk, "") == []
                assert (await fetched(talk, "three")).is_error
    assert len(site.requests) == 1


async def test_ports_are_numbers_and_told_with_their_line_when_they_are_not(home: Home) -> None:
    settings = Settings(home)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert await settings.apply(talk, "\n[web]\nports = [443]\n") == []
            for wrong in ('["443"]', "[0]", "[70000]", "[]", "443", "[true]"):
                line = settings.write("\n[web]\nports = " + wrong + "\n") + 2
                (flaw,) = (await talk.ask(reload=pb.ReloadMsg())).reloaded.flaws
                assert flaw.startswith(f"{home.path}/config.toml:{line}: "), wrong
                assert "ports" in flaw


async def test_commands_have_a_network_from_the_reload_on(home: Home, provider: Provider, tmp_path: Path) -> None:
    settings = Settings(home)
    async with listening() as (port, heard):
        command = f'{PYTHON} -c "{TOLD}" {port}'
        for _ in range(2):
            provider.program({"calls": [call("exec", command=command)]}, {"text": "Ran."})
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                await approved(talk, talk.start("ada", "tell", cwd=str(tmp_path)))
                assert not heard.is_set()
                assert await settings.apply(talk, "\n[sandbox]\nnetwork = true\n") == []
                await approved(talk, talk.start("ada", "tell again", cwd=str(tmp_path)))
                async with asyncio.timeout(PATIENCE):
                    await heard.wait()
            findings = daemon.cli_json("doctor")["data"]["findings"]
    assert any("network allowed" in finding["message"] for finding in findings)
    first, last = provider.bodies()[0], provider.bodies()[-1]
    assert "has no network" in described(first, "exec")
    assert "can reach the network" in described(last, "exec")


def described(body: dict[str, Any], tool: str) -> str:
    """What the model was told of a tool."""
    found = [each["function"]["description"] for each in body["tools"] if each["function"]["name"] == tool]
    return str(found[0])


async def test_a_server_in_the_sandbox_is_started_anew_when_the_sandbox_changes(home: Home, tmp_path: Path) -> None:
    state = write_state(tmp_path, tool("echo"))
    server = f"""
[mcp.box]
command = "{sys.executable}"
args = ["{SERVER}", "{state}"]
cwd = "{tmp_path}"
"""
    settings = Settings(home)
    settings.write(server)
    with daemon_thread(home) as daemon:
        failed = daemon.cli("mcp", "test", "box", "--json")
        assert failed.returncode != 0
        assert "sandbox" in failed.stdout
        async with daemon.client() as talk:
            assert await settings.apply(talk, server + f'\n[sandbox]\nreadable = ["{SERVER.parent}"]\n') == []
        (found,) = approve_tools(daemon, "box")
        (listed,) = daemon.cli_json("mcp", "list")["data"]
    assert (found["name"], found["state"]) == ("mcp__box__echo", "ready")
    assert listed["sandbox"] == "sandbox"
