"""Twenty canary secrets driven through every path a secret can take: not one may come out, in any shape."""

import base64
import json
import logging
import os
import secrets as randomness
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from moot.daemon.clock import SystemClock
from moot.daemon.principal import OWNER
from moot.daemon.requests.secrets import SecretRequests
from moot.domain.config import SandboxConfig
from moot.domain.ports.tool import RunContext
from moot.domain.redaction import mask_call
from moot.domain.shell import Level, Verdict
from moot.redaction.redactor import LogRedaction
from moot.tools.exec import exec_tools as exec_
from moot.tools.exec.created_files import CreatedFiles
from moot.tools.exec.jobs import Jobs
from moot.tools.sandbox.sandbox import Sandbox
from moot.wire import moot_pb2 as pb
from tests.secret_shapes import found_in, printed, spoken
from tests.unit.daemon.vault.vault_kit import Kit, run, vault_at

BODIES = [randomness.token_hex(12) for _ in range(20)]
# Every kind of character that somebody may escape, and values of one and of several lines.
DRESSES = [
    "{}",
    "sk-{}",
    "{}/+=&?",
    'q"{}\\',
    "ü{}é",
    "a b {} c",
    "'{}'",
    "{}$HOME`id`",
    "-----BEGIN KEY-----\n{}\nx",
    "%{}%",
]
# What everybody has that writes bytes otherwise.
ENCODERS = [
    "base32",
    "base32 -w 7",
    "base64 | base64",
    "base64 -w 40 | base64 -w 11",
    "od -An -tx1",
    "od -An -v -tx1 -w5",
    "od -Ax -tx1z",
    "od -tx1",
    "od -An -tx1 | tr ' ' :",
]
CANARIES = {f"CANARY_{n}": DRESSES[n % len(DRESSES)].format(body) for n, body in enumerate(BODIES)}


def leaks(data: bytes) -> list[str]:
    """Which canaries can be read in these bytes, in any shape."""
    found = found_in(data, dict(zip(CANARIES, BODIES, strict=True)))
    return sorted({each.partition(":")[0] for each in found})


def test_the_scan_itself_finds_every_shape() -> None:
    for name, value in CANARIES.items():
        data = value.encode()
        for shape in (data, quote(value).encode(), quote_plus(value).encode(), data.hex().encode()):
            assert leaks(b".." + shape + b"..") == [name]
        for before in (b"", b"x", b"xy"):
            assert leaks(base64.encodebytes(before + data + b"tail")) == [name]
            assert leaks(base64.urlsafe_b64encode(before + data + b"tail")) == [name]
        assert leaks(json.dumps(value).encode()) == [name]
        for text in (*spoken(value), *printed(value)):
            assert leaks(text.encode()) == [name], text


class Answers:
    """Stands where a client's connection is: keeps the bytes of every answer."""

    def __init__(self) -> None:
        self.data = b""

    def send(self, message: pb.ServerMessage) -> None:
        self.data += message.SerializeToString()


@asynccontextmanager
async def stocked(folder: Path) -> AsyncIterator[tuple[Kit, Answers]]:
    """A vault that holds every canary: half of them set by the owner, half stored by an agent."""
    async with vault_at(folder) as kit:
        answers = Answers()
        requests = SecretRequests(vault=kit.vault, master=kit.master)
        for number, (name, value) in enumerate(CANARIES.items()):
            if number % 2:
                asked = pb.ClientMessage(set_secret=pb.SetSecretMsg(name=name, value=value))
                await requests.set_secret(asked, OWNER, answers)  # type: ignore[arg-type]
            else:
                answers.data += (await kit.call("secrets_store", name=name, value=value)).encode()
        for ask in (
            pb.ClientMessage(list_secrets=pb.ListSecretsMsg()),
            pb.ClientMessage(audit_secrets=pb.AuditSecretsMsg()),
        ):
            answer = getattr(requests, str(ask.WhichOneof("message")))
            await answer(ask, OWNER, answers)
        yield kit, answers


def on_disk(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


async def test_no_canary_is_on_disk_while_the_store_is_open_or_closed_or_in_a_backup(tmp_path: Path) -> None:
    home = tmp_path / "data"
    async with stocked(home) as (kit, _):
        for name in CANARIES:
            sealed = json.loads(await kit.call("crypto_encrypt", data="pre {{secret:" + name + "}} post"))
            await kit.call("crypto_decrypt", ciphertext=sealed["ciphertext"])
        await kit.call("secrets_store", name="CANARY_0", value=CANARIES["CANARY_1"] + "-rotated")
        await kit.call("secrets_delete", name="CANARY_2")
        files = {path.name for path in home.iterdir()}
        assert {"moot.db", "moot.db-wal", "vault.key"} <= files
        assert leaks(on_disk(home)) == []
    assert b"CANARY_19" in on_disk(home)
    assert leaks(on_disk(home)) == []


async def test_no_answer_to_an_agent_or_to_the_owner_holds_a_canary(tmp_path: Path) -> None:
    async with stocked(tmp_path) as (kit, answers):
        said = [await kit.call("secrets_list"), await kit.call("crypto_keys")]
        for name in CANARIES:
            said.append(await kit.call("secrets_get", name=name))
            encrypted = await kit.call("crypto_encrypt", data="{{secret:" + name + "}}")
            said.append(encrypted)
            said.append(await kit.call("crypto_decrypt", ciphertext=json.loads(encrypted)["ciphertext"]))
        assert len(answers.data) > 1000
        assert leaks(answers.data) == []
        assert leaks("\n".join(said).encode()) == []


async def test_what_is_recorded_of_a_call_holds_no_canary(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        for name, value in CANARIES.items():
            for tool, arguments in (
                ("secrets_store", {"name": name, "value": value}),
                ("crypto_encrypt", {"data": value}),
            ):
                spec = kit.tools[tool].spec
                text = json.dumps(arguments)
                for written in (text, text[:-3], json.dumps([arguments])):
                    assert leaks(mask_call(spec, written).encode()) == []
                assert leaks(kit.tools[tool].line(arguments).encode()) == []  # type: ignore[attr-defined]


async def test_no_canary_is_in_the_log_however_it_got_there(tmp_path: Path) -> None:
    async with stocked(tmp_path / "data") as (kit, _):
        handler = RotatingFileHandler(tmp_path / "moot.log", encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s %(detail)s", defaults={"detail": ""}))
        handler.addFilter(LogRedaction(kit.redactor))
        logger = logging.getLogger("canaries")
        logger.propagate = False
        logger.addHandler(handler)
        try:
            for value in CANARIES.values():
                data = value.encode()
                logger.warning("plain %s quoted %s", value, quote(value), extra={"detail": {"header": value}})
                logger.warning("json %s repr %r bytes %r", json.dumps({"v": value}), [value], data)
                logger.warning("base64 %s hex %s", base64.b64encode(b"user:" + data).decode(), data.hex())
                for shape in (*spoken(value), *printed(value)):
                    logger.warning("it printed %s", shape)
                try:
                    raise RuntimeError(f"request to /x?token={quote_plus(value)} failed: {value}")
                except RuntimeError:
                    logger.exception("failed with %s", value, stack_info=True)
        finally:
            logger.removeHandler(handler)
            handler.close()
    written = (tmp_path / "moot.log").read_bytes()
    assert written.count(b"Traceback") == len(CANARIES)
    assert written.count(b"[SECRET:CANARY_") > 36 * len(CANARIES)
    assert leaks(written) == []


async def test_no_stream_of_text_shows_a_canary_however_it_is_cut(tmp_path: Path) -> None:
    async with stocked(tmp_path) as (kit, _):
        for value in CANARIES.values():
            text = f"It is {base64.b64encode(b'ab' + value.encode()).decode()} or {' or '.join(spoken(value))}."
            for size in (1, 3, 7, 50):
                stream = kit.redactor.open_stream()
                pieces = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
                assert leaks("".join((*pieces, stream.rest())).encode()) == []


async def run_command(kit: Kit, folder: Path, command: str) -> str:
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240
    sandbox = Sandbox(SandboxConfig(), protected=[kit.path], clock=SystemClock())
    if not sandbox.describe().usable:
        sandbox = Sandbox(SandboxConfig(mode="none"), protected=[kit.path], clock=SystemClock())
    made = exec_.tools(
        sandbox=sandbox,
        jobs=Jobs(most=lambda: 2, publish=lambda _source, _body: None),
        classify=lambda _command: Verdict(Level.OK),
        redact=kit.redactor,
        secrets=kit.vault,
        created=CreatedFiles(lambda _root, _place: False),
    )
    here = run()
    context = RunContext(
        run_id=here.run_id, key=here.key, speaker=here.speaker, cwd=str(folder), emit=here.emit, ask=here.ask
    )
    said = await made[0]({"command": command}, context)
    return said if isinstance(said, str) else said.content


async def test_a_command_sees_the_one_secret_it_names_and_shows_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment is scrubbed of the daemon's own, its arguments hold no value, and what it prints is redacted."""
    async with stocked(tmp_path / "data") as (kit, _):
        for name, value in CANARIES.items():
            monkeypatch.setenv(f"DAEMON_{name}", value.replace("\n", " "))
        name = "CANARY_13"
        shown = await run_command(
            kit,
            tmp_path / "work",
            'printf "%s" {{secret:CANARY_13}} | wc -c; env; env | base64; tr "\\0" "\\n" </proc/self/environ;'
            "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; printf %s '{{secret:CANARY_13}}' | base64;"
            "printf %s {{secret:CANARY_13}} | od -An -tx1 | tr -d ' \\n'",
        )
        assert shown.split()[0] == str(len(CANARIES[name].encode()))
        assert leaks(shown.encode()) == []
        assert "DAEMON_CANARY" not in shown
        used = [use.name for use in await kit.vault.audit() if use.action == "resolve"]
        assert used == [name]


async def test_what_a_command_prints_is_redacted_however_it_writes_bytes(tmp_path: Path) -> None:
    async with stocked(tmp_path / "data") as (kit, _):
        for program in ENCODERS:
            for name in ("CANARY_0", "CANARY_13"):
                command = f"printf 'it is: %s, so far' {{{{secret:{name}}}}} | {program}"
                shown = await run_command(kit, tmp_path / "work", command)
                assert f"[SECRET:{name}]" in shown, program
                assert leaks(shown.encode()) == [], program


async def test_inside_the_command_there_is_nothing_but_the_secret_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at from within, before any redaction: the environment goes to a file in the working directory."""
    async with stocked(tmp_path / "data") as (kit, _):
        for name, value in CANARIES.items():
            monkeypatch.setenv(f"DAEMON_{name}", value.replace("\n", " "))
        work = tmp_path / "work"
        await run_command(kit, work, "env >plain; cat /proc/[0-9]*/cmdline >arguments 2>/dev/null; true")
        assert leaks((work / "plain").read_bytes()) == []
        await run_command(kit, work, "env >named; cat /proc/$$/cmdline >arguments; : {{secret:CANARY_4}}")
        assert leaks((work / "named").read_bytes()) == ["CANARY_4"]
        assert leaks((work / "arguments").read_bytes()) == []
        assert os.path.getsize(work / "arguments") > 10  # noqa: ASYNC240
