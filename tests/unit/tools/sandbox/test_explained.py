"""A command that failed at what the sandbox keeps from it is told so, and no other is."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from moot.domain.ports.tool import ToolResult
from moot.tools.sandbox.explained import HeldBack
from tests.escape.exec_kit import KEY, Bench

SAID = "no network here"


@pytest.mark.parametrize(
    "printed",
    [
        "curl: (6) Could not resolve host: example.com",
        "fatal: unable to access 'https://x.example/': Could not resolve host: x.example",
        "wget: unable to resolve host address 'example.com'",
        "wget: bad address 'example.com'",
        "Failed to establish a new connection: [Errno -3] Temporary failure in name resolution",
        "socket.gaierror: [Errno -2] Name or service not known",
        "npm error code EAI_AGAIN\nnpm error request failed, reason: getaddrinfo EAI_AGAIN registry.example",
        "Error: getaddrinfo ENOTFOUND api.example",
        "connect: Network is unreachable",
        'Get "https://x.example/": dial tcp: lookup x.example on 10.0.0.1:53: no such host',
        "Err:1 http://deb.example stable InRelease\n  Temporary failure resolving 'deb.example'",
    ],
)
def test_a_failure_that_says_nobody_was_reached_is_explained(printed: str) -> None:
    held = HeldBack(offline="./fetch")
    assert SAID in held.explain(printed, 1)
    assert held.explain(printed, 0) == ""
    assert HeldBack().explain(printed, 1) == ""


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("curl -s https://example.com", 6, True),
        ("curl -s https://example.com", 7, True),
        ("wget -q https://example.com", 4, True),
        ("curl -s https://example.com", 22, False),
        ("curl -s http://localhost:8000/", 7, False),
        ("curl -s http://127.0.0.1:8000/", 7, False),
        ("wget -q https://example.com", 6, False),
        ("./curly", 6, False),
        ("pytest", 4, False),
    ],
)
def test_what_fetches_in_silence_is_known_by_how_it_ends(command: str, code: int, told: bool) -> None:
    assert (SAID in HeldBack(offline=command).explain("", code)) is told


async def test_a_command_that_finds_no_network_is_told_so_at_once_and_in_the_background(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if python is None:
        pytest.skip("there is no Python in the system's folders")
    command = f"{python} -c \"import socket; socket.create_connection(('192.0.2.1', 80), 5)\""
    said = await bench.say(command)
    assert "Network is unreachable" in said
    assert said.count(SAID) == 1
    assert SAID not in await bench.say(f"{command} || true")
    id = await bench.tool("exec_bg")({"command": command}, bench.context())
    await asyncio.wait_for(bench.jobs.find(KEY, str(id)).process.over(), 30)
    answer = await bench.tool("exec_status")({"id": id}, bench.context())
    assert isinstance(answer, ToolResult)
    assert SAID in json.loads(answer.content)["output"]


async def test_a_command_that_has_a_network_is_told_nothing_of_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, network=True)
    assert SAID not in await bench.say("echo Could not resolve host: example.com; exit 6")
