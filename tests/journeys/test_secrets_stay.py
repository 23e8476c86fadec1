"""A secret in the vault and an API key, driven through a whole daemon on both wires: not one byte of them comes out."""

import asyncio
import base64
import json
import secrets as randomness
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon, running
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.secret_shapes import found_in, half_escaped, printed, spoken
from tests.talking import Talking

CONFIG = (
    PROVIDER_CONFIG.replace('model = "m"\n', 'model = "m"\napi_key = "env:CANARY_KEY"\n').replace(
        'model = "c"\n', 'model = "c"\napi_key = "env:CANARY_KEY"\nthinking_tokens = 1024\n'
    )
    + """
[security.interceptor]
exempt_tools = ["*"]
sensitive_tools = ["fs_write", "fs_edit", "fs_delete"]
[knowledge]
enabled = true
[memory]
observe_every = 4
[outputs]
budget_characters = 2000
"""
)

BODIES = {"vault": "v" + randomness.token_hex(12), "key": "k" + randomness.token_hex(12)}
# Characters that are escaped in JSON and in URLs stand around them.
VAULT = f'p"{BODIES["vault"]}/+\\&='
KEY = f"sk-{BODIES['key']}+/="
WIRES = {"fake": "openai", "claude": "anthropic"}


def leaks(data: bytes) -> list[str]:
    return found_in(data, BODIES)


def test_the_scan_itself_finds_every_shape() -> None:
    for name, value in (("vault", VAULT), ("key", KEY)):
        for shape in (*spoken(value), *printed(value)):
            for data in (b".." + shape.encode() + b"..", json.dumps([shape]).encode()):
                assert {found.partition(":")[0] for found in leaks(data)} == {name}, shape


def call(number: int, tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"id": f"call_canary_{number:04}", "name": tool, "arguments": arguments}


CHANGES = [
    call(20, "fs_edit", path="kept.env", startLine=2, endLine=2, content="B=2\n"),
    call(21, "fs_write", path="kept.env", content="nothing\n"),
    call(22, "fs_delete", path="kept.env"),
]


class Heard:
    """Every byte a client got: events of all conversations, answers, and what the commands printed."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def add(self, part: bytes | str) -> None:
        self.parts.append(part.encode() if isinstance(part, str) else part)

    def leaks(self) -> list[str]:
        return leaks(b"\n".join(self.parts))


@asynccontextmanager
async def listening(daemon: LiveDaemon, heard: Heard) -> AsyncIterator[None]:
    async with daemon.client() as spy:
        feed = await spy.connection.subscribe()

        async def follow() -> None:
            async for event in feed:
                heard.add(event.SerializeToString())

        task = asyncio.get_running_loop().create_task(follow())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await feed.aclose()


async def turn(talk: Talking, heard: Heard, content: str, cwd: Path) -> list[pb.StreamEvent]:
    speech = talk.start("ada", content, cwd=str(cwd))
    try:
        await speech.end()
    finally:
        for event in speech.events:
            heard.add(event.SerializeToString())
    return speech.events


def said(provider: Provider, cwd: Path) -> None:
    """A model that has got hold of both values and does its best to spread them."""
    both = f"{VAULT} {KEY}"
    everything = "\n".join(spoken(VAULT) + spoken(KEY))
    provider.program(
        {
            "match": "use it",
            "thinking": f"I know {both}.",
            "tokens": [*f"They are {both}: {everything}."],
            "calls": [
                call(1, "exec", command="printf %s {{secret:vault}} | tee /dev/stderr | base64; echo {{secret:vault}}"),
                call(2, "exec", command="env > env.txt; env; cat planted.txt"),
                call(3, "fs_read", path="planted.txt"),
                call(4, "fs_read", path=f"no-{both}"),
                call(5, "memory_agent_save", key="canary", content=both),
                {"id": "call_canary_0006", "name": "task_create", "arguments": f'{{"title": "{half_escaped(both)}"}}'},
                call(7, "set_title", title=f"About {both}"),
                call(8, "unknown_tool", value=both),
                {"id": "call_canary_0009", "name": "task_create", "arguments": f'{{"title": "{half_escaped(both)}'},
                call(10, "observe_add", content=everything),
                call(11, "secrets_get", name="vault"),
                call(12, "crypto_encrypt", data="{{secret:vault}}"),
            ],
        },
        {"match": "use it", "text": f"Used {both}."},
        {"match": "fail", "status": 400, "body": json.dumps({"error": {"message": f"bad {both}", "type": both}})},
        {
            "match": "break",
            "tokens": [*f"so {both}"],
            "error": {"message": f"broken {both}", "type": "overloaded_error"},
        },
        {"match": "write", "calls": [call(13, "fs_write", path="out.txt", content=everything)]},
        {"match": "write", "text": "Written."},
        # From the beginning of the message: the notes that are taken of the conversation meanwhile quote it.
        {"match": "^change", "calls": [call(19, "fs_read", path="kept.env")]},
        {"match": "^change", "calls": CHANGES},
        {"match": "^change", "text": "Changed."},
        {"match": "summary", "text": f"About {both}. {everything}"},
    )
    (cwd / "planted.txt").write_text("\n".join((everything, *printed(VAULT), *printed(KEY))))


@pytest.mark.parametrize("model", WIRES)
async def test_no_byte_of_a_secret_or_a_key_comes_out_of_a_daemon(
    home: Home, provider: Provider, tmp_path: Path, model: str
) -> None:
    home.write_agent("ada", f"You are Ada. Never tell {VAULT} or {KEY}.", model=model)
    cwd = tmp_path / "work"
    cwd.mkdir()
    said(provider, cwd)
    heard = Heard()
    with running(home, CANARY_KEY=KEY) as daemon:
        heard.add(daemon.cli("secrets", "set", "vault", stdin=VAULT).stdout)
        heard.add(daemon.cli("secrets", "scope", "vault", "--agent", "ada", "--tool", "*").stdout)
        async with daemon.client() as talk, listening(daemon, heard):
            everything = (*spoken(VAULT), *spoken(KEY), *printed(VAULT), *printed(KEY))
            used = await turn(talk, heard, f"use it: {' '.join(everything)}", cwd)
            assert [event.WhichOneof("event") for event in used].count("tool_result") == 12
            for content in ("fail", "break"):
                await turn(talk, heard, content, cwd)
            await approve_writing(talk, heard, cwd)
            await look_at_changes(talk, daemon, heard, cwd)
            heard.add((await talk.compact("ada")).SerializeToString())
            heard.add((await talk.history("ada", all=True)).SerializeToString())
            heard.add(await talk.export("ada"))
            while_open = home.on_disk()
        backup = tmp_path / "backup.db"
        for command in commands(backup):
            done = daemon.cli(*command)
            heard.add(done.stdout + done.stderr)
            assert done.returncode == 0, (command, done.stderr)
        refused = daemon.cli("ask", "ada", f"fail again {VAULT} {KEY}")
        heard.add(refused.stdout + refused.stderr)
    assert b"[SECRET:vault]" in b"".join(heard.parts)
    assert heard.leaks() == []
    for body in provider.bodies():
        assert leaks(json.dumps(body).encode()) == []
    assert len(provider.bodies()) >= 8
    assert leaks(while_open) == []
    assert leaks(backup.read_bytes()) == []
    assert leaks((cwd / "env.txt").read_bytes()) == []
    # Everything Moot keeps, but for the instruction that a person wrote the values into.
    kept = [path for path in home.path.rglob("*") if path.is_file() and path.name != "AGENT.md"]
    assert {"moot.log", "moot.db", "vault.key"} <= {path.name for path in kept}
    for path in kept:
        assert leaks(path.read_bytes()) == [], path


def test_what_a_person_saves_by_command_keeps_no_secret(home: Home, tmp_path: Path) -> None:
    home.furnish()
    table = tmp_path / "people.csv"
    table.write_text(f"id,note\nann,{BODIES['vault']}\n", encoding="utf-8")
    with daemon_thread(home) as daemon:
        daemon.cli("secrets", "set", "vault", stdin=BODIES["vault"])
        text = f"It is {BODIES['vault']}."
        for command in (
            ("knowledge", "save", "door", text, "--source", text, "--tag", text),
            ("knowledge", "save", BODIES["vault"], "A key."),
            ("graph", "add", "ann", "knows", BODIES["vault"], "--source", text),
            ("graph", "import", str(table), "--type", "person"),
            ("graph", "retract", "ann", "knows", BODIES["vault"], "--reason", text),
            ("tasks", "add", "ada", text, "--description", text),
        ):
            done = daemon.cli(*command)
            assert done.returncode == 0, (command, done.stderr)
        assert daemon.cli_json("knowledge", "show", "door")["data"]["content"] == "It is [SECRET:vault]."
        (fact,) = daemon.cli_json("graph", "facts", "--all")["data"]
        assert (fact["object"], fact["reason"]) == ("[SECRET:vault]", "It is [SECRET:vault].")
        assert daemon.cli_json("knowledge", "show", BODIES["vault"])["data"]["content"] == "A key."
        assert leaks(home.on_disk()) == []


async def approve_writing(talk: Talking, heard: Heard, cwd: Path) -> None:
    """What is put before the owner is looked at too, and what is then written."""
    speech = talk.start("ada", "write", cwd=str(cwd))
    ask = await speech.until("approval_opened")
    heard.add((await talk.ask(list_asks=pb.ListAsksMsg())).SerializeToString())
    await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision="always"))
    await speech.end()
    for event in speech.events:
        heard.add(event.SerializeToString())
    assert leaks((cwd / "out.txt").read_bytes()) == []


async def look_at_changes(talk: Talking, daemon: LiveDaemon, heard: Heard, cwd: Path) -> None:
    """What stands in a file is shown before it is changed; not all of it."""
    (cwd / "kept.env").write_text(f"A={VAULT}\nB={KEY}\n{'x' * 395}{VAULT}\n{'y' * 199_700}{KEY}\n")
    speech = talk.start("ada", "change", cwd=str(cwd))
    await speech.until("approval_opened", count=len(CHANGES))
    for ask in await talk.asks():
        shown = daemon.cli("inbox", "show", ask.ask_id)
        heard.add(shown.stdout + shown.stderr)
        heard.add(daemon.cli("inbox", "show", ask.ask_id, "--json").stdout)
        await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision="always"))
    await speech.end()
    for event in speech.events:
        heard.add(event.SerializeToString())
    assert sum("-A=[SECRET:vault]" in ask.preview for ask in speech.of("approval_opened")) >= 2


def commands(backup: Path) -> list[tuple[str, ...]]:
    return [
        ("history", "ada", "--all", "--json"),
        ("export", "ada"),
        ("archives", "ada", "--json"),
        ("recall", "ada", "about", "--json"),
        ("conversations", "--json"),
        ("secrets", "list", "--json"),
        ("secrets", "audit", "--json"),
        ("rules", "--json"),
        ("inbox", "--json"),
        ("status", "--json"),
        ("backup", str(backup)),
        ("ask", "ada", f"say {VAULT} {KEY} and {base64.b64encode(KEY.encode()).decode()}"),
    ]
