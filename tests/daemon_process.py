"""A real daemon in a process of its own, and a client that talks to it from the outside."""

import asyncio
import inspect
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

import apsw

from moot.cli.main import main
from moot.client.connection import connect
from tests import fork_server
from tests.talking import Talking

# Generous: several suites may share two cores.
PATIENCE = 30.0

CONFIG = """
default_model = "scripted"
[models.scripted]
provider = "scripted"
script = "script.toml"
[listen]
http = "off"
tcp = "off"
"""

# For modules that look at what a model was sent; the `daemon` fixture puts the fake provider's address in.
PROVIDER_CONFIG = """
default_model = "fake"
[models.fake]
provider = "openai"
base_url = "PROVIDER_URL/v1"
model = "m"
window = 100000
retries = 1
[models.claude]
provider = "anthropic"
base_url = "PROVIDER_URL"
model = "c"
window = 100000
retries = 1
[listen]
http = "off"
tcp = "off"
"""


# Behind a configuration that sets no mode, so that a test which adds a table of its own finds none of this name.
_MODE_ASK = '[security.interceptor]\nmode = "ask"  # of the tests\n'


def with_mode_ask(text: str) -> str:
    """Return a complete configuration in which every dangerous call asks, unless it sets a mode or another policy."""
    text = text.replace(_MODE_ASK, "")
    try:
        interceptor = tomllib.loads(text).get("security", {}).get("interceptor", {})
    except (tomllib.TOMLDecodeError, AttributeError):
        return text
    if "[models." not in text or "mode" in interceptor or interceptor.get("policy") in ("none", "configured"):
        return text
    head = "[security.interceptor]\n"
    return text.replace(head, f'{head}mode = "ask"\n') if head in text else f"{text.rstrip()}\n{_MODE_ASK}"


def without_vocabularies(text: str) -> str:
    """Return a configuration in which no model is asked for vocabularies of agents, unless it says whether one is."""
    try:
        has_key = "vocabulary" in tomllib.loads(text).get("agent", {})
    except (tomllib.TOMLDecodeError, AttributeError, TypeError):
        return text
    return text if has_key else text.replace("multiAgent = true\n", "multiAgent = true\nvocabulary = false\n", 1)


class Home:
    """A folder for MOOT_HOME, and the files a person would write in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "logs" / "moot.log"
        self.store = path / "data" / "moot.db"
        self.socket = path / "run" / "moot.sock"

    def write_config(self, text: str = CONFIG) -> None:
        """Write config.toml. Conversations are in mode ask unless it says otherwise, so that tests can be asked.

        Models are not asked for vocabularies of agents, which would come between the requests of a test.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "config.toml").write_text(without_vocabularies(with_mode_ask(text)), encoding="utf-8")

    def write_script(self, text: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "script.toml").write_text(text, encoding="utf-8")

    def write_agent(
        self, name: str, instruction: str = "", *, model: str = "", description: str = "", role: str = ""
    ) -> Path:
        path = self.path / "agents" / name / "AGENT.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        front = [f"name: {name}", f"description: {description or f'{name} of the tests'}"]
        front += [f"model: {model}"] if model else []
        front += [f"role: {role}"] if role else []
        body = instruction or f"You are {name}."
        path.write_text("---\n" + "\n".join(front) + f"\n---\n{body}\n", encoding="utf-8")
        return path

    def furnish(self, *, script: str = "", config: str = CONFIG, agents: tuple[str, ...] = ("ada", "bob")) -> "Home":
        """Everything a daemon needs: a configuration, a script for its model, and some agents."""
        self.write_config(config)
        self.write_script(script)
        for name in agents:
            self.write_agent(name)
        return self

    def environment(self, **extra: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MOOT_")}
        # Hints name the program as it is called; here always the same.
        return kept | {"MOOT_HOME": str(self.path), "MOOT_DEV": "moot"} | extra

    def failures(self) -> list[str]:
        """What the daemon logged as gone wrong inside: every line with a traceback."""
        if not self.log.exists():
            return []
        lines = map(json.loads, self.log.read_text(encoding="utf-8").splitlines())
        return [f"{line['message']}\n{line['trace']}" for line in lines if "trace" in line]

    def on_disk(self) -> bytes:
        """Every byte of the store, the journal included."""
        files = sorted(self.store.parent.glob("moot.db*"))
        # Closing a file drops every lock that this process has on it, also those of a daemon in another thread.
        return subprocess.run(["cat", *files], capture_output=True, check=True).stdout

    def query(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        """What the store says, read with the SQLite library of the daemon: a second one here would drop its locks."""
        with closing(apsw.Connection(str(self.store), flags=apsw.SQLITE_OPEN_READONLY)) as store:
            return list(store.execute(question, values))

    def change(self, statement: str, rows: Sequence[Sequence[object]] = ((),)) -> None:
        """Write to the store of a daemon that is not running, once for every row."""
        with closing(apsw.Connection(str(self.store))) as store, store:
            store.executemany(statement, rows)


class LiveDaemon:
    """A daemon that serves a home, and the ways to talk to it."""

    def __init__(self, home: Home, ready_line: str) -> None:
        self.home = home
        self.ready_line = ready_line

    @asynccontextmanager
    async def client(self, *, patience: float = PATIENCE) -> AsyncIterator[Talking]:
        async with connect(self.home.socket) as connection:
            yield Talking(connection, patience=patience)

    def cli(self, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return call_cli(self.home, *arguments, stdin=stdin)

    def cli_json(self, *arguments: str) -> Any:
        """What `moot … --json` printed: the whole document."""
        return json.loads(self.cli(*arguments, "--json").stdout)


class DaemonProcess(LiveDaemon):
    """`moot serve` in a process of its own, for tests of kill -9, restarts, signals and exit codes."""

    def __init__(self, home: Home, process: "subprocess.Popen[str]", ready_line: str) -> None:
        super().__init__(home, ready_line)
        self.process = process

    @classmethod
    def start(cls, home: Home, *, command: Sequence[str] | None = None, **environment: str) -> "DaemonProcess":
        process = spawn(home, command=command or SERVE, **environment)
        try:
            line = _first_line(process)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return cls(home, process, line)

    def kill_9(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.reap()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def reap(self, seconds: float = PATIENCE) -> int:
        """Wait for the process to end and close its pipes; its exit code."""
        try:
            self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode

    def stop(self) -> int:
        """Stop it in the ordinary way, and at once if it is still busy."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            # Two signals of one kind that come too close are one.
            self.terminate()
            try:
                self.process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
        return self.reap()


SERVE = (sys.executable, "-m", "moot", "serve")


def spawn(home: Home, *, command: Sequence[str] = SERVE, **environment: str) -> "subprocess.Popen[str]":
    return fork_server.start(
        command,
        env=home.environment(**environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Signals of the terminal that runs the tests are not for it.
        start_new_session=True,
    )


def _first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    line = process.stdout.readline() if ready else ""
    if "ready" not in line:
        process.kill()
        _, complaint = process.communicate()
        raise AssertionError(f"the daemon did not become ready: {line!r} {complaint}")
    return line


def run_cli(home: Home, *arguments: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "moot", *arguments]
    return fork_server.run(command, env=home.environment(**environment), input=stdin, timeout=PATIENCE)


def call_cli(home: Home, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Run `moot …` in this process and return what a process would have; in a thread beside the test it is one."""
    if threading.current_thread() is not threading.main_thread():
        # The standard streams belong to the whole process.
        return run_cli(home, *arguments, stdin=stdin)
    with _text_file(stdin) as given, _text_file() as out, _text_file() as err:
        with _process_state(home.environment(), given, out, err), _no_running_loop():
            code = _exit_code(arguments)
        return subprocess.CompletedProcess(["moot", *arguments], code, _content(out), _content(err))


def _exit_code(arguments: tuple[str, ...]) -> int:
    try:
        main(arguments)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    return 0


@contextmanager
def _process_state(environment: Mapping[str, str], *streams: TextIO) -> Iterator[None]:
    before, streams_before = dict(os.environ), (sys.stdin, sys.stdout, sys.stderr)
    _replace_environment(environment)
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams_before
        _replace_environment(before)


def _replace_environment(wanted: Mapping[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)


@contextmanager
def _no_running_loop() -> Iterator[None]:
    """Let a command run a loop of its own while the one of the test stands still."""
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)


@contextmanager
def _text_file(content: str = "") -> Iterator[TextIO]:
    """A real file: commands look at descriptors."""
    with TemporaryFile("w+", encoding="utf-8", newline="") as file:
        file.write(content)
        file.seek(0)
        yield file


def _content(file: TextIO) -> str:
    file.flush()
    file.seek(0)
    return file.read()


@contextmanager
def running(home: Home, *, command: Sequence[str] | None = None, **environment: str) -> Iterator[DaemonProcess]:
    """A daemon in a process of its own for one test. Whatever it logged as failed inside fails the test."""
    daemon = DaemonProcess.start(home, command=command, **environment)
    try:
        yield daemon
    finally:
        daemon.stop()
    failures = home.failures()
    assert not failures, "\n".join(failures)


async def eventually(condition: Callable[[], Any], *, seconds: float = PATIENCE) -> Any:
    """Wait for what no event announces: a file, the end of a process."""
    deadline, pause = time.monotonic() + seconds, 0.002
    while time.monotonic() < deadline:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        await asyncio.sleep(pause)
        # Most things happen at once; looking often for one that does not would slow it down.
        pause = min(pause * 1.5, 0.05)
    raise AssertionError("it did not happen in time")
