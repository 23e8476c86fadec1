"""What is measured: a home of its own, a real daemon process on it, and turns through its Unix socket."""

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from bench.line import Line
from moot.wire import moot_pb2 as pb

# The `moot` command of the checkout that runs the benchmark.
MOOT = Path(sys.executable).with_name("moot")

# Agents by the answer their model gives; the path is an instruction to the mock server.
AGENTS = {"bench": "", "tools": "/t1", "long": "/n500", "paced": "/n100/g2", "crowd": "/n60/g20"}
_AGENT = "---\nname: {name}\ndescription: Measured.\nmodel: {name}\n---\nYou are a helpful assistant.\n"
MODEL = """
[models.{name}]
provider = "openai"
base_url = "{base}{options}/v1"
model = "mock"
window = 1000000000
"""
_READY_SECONDS = 20.0
# The cheapest tool there is, so that what is left is the way to it and back.
_ECHO = '''"""Says what it is told."""

from moot.tools.plugins.function import tool


@tool(safety="safe")
async def echo(text: str) -> str:
    """Say it again."""
    return text
'''


def make_home(folder: Path, base: str) -> Path:
    """A home as a user has it: defaults, but for the model server."""
    for name in AGENTS:
        place = folder / "agents" / name
        place.mkdir(parents=True)
        (place / "AGENT.md").write_text(_AGENT.format(name=name), encoding="utf-8")
    models = (MODEL.format(name=name, base=base, options=options) for name, options in AGENTS.items())
    text = 'default_model = "bench"\n' + "".join(models)
    (folder / "config.toml").write_text(text, encoding="utf-8")
    (folder / "tools").mkdir()
    (folder / "tools" / "echo.py").write_text(_ECHO, encoding="utf-8")
    return folder


def environment(home: Path) -> dict[str, str]:
    """The caller's environment without what would make starting slower than it is for a user."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "MOOT_HOME": str(home)}


class Daemon:
    """One `moot serve` process."""

    def __init__(self, home: Path, process: asyncio.subprocess.Process) -> None:
        self.home = home
        self.socket = home / "run" / "moot.sock"
        self._process = process
        self.pid = process.pid

    @classmethod
    async def start(cls, home: Path, *command: str, moot: Path = MOOT) -> "Daemon":
        with (home / "stderr.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(command or (str(moot), "serve")),
                env=environment(home),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert process.stdout is not None
        async with asyncio.timeout(_READY_SECONDS):
            if b"ready" not in await process.stdout.readline():
                raise RuntimeError(f"the daemon did not start; see {home / 'stderr.log'}")
        return cls(home, process)

    async def stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(15):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def cpu(self) -> float:
        """Seconds of processor time so far, all threads."""
        return cpu_seconds(self.pid)

    def rss(self) -> float:
        """Resident megabytes now."""
        return psutil.Process(self.pid).memory_info().rss / 1e6

    def forget_peak(self) -> None:
        """Let `peak_rss` count from now on, where the kernel can."""
        with suppress(OSError):
            Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    def peak_rss(self) -> float:
        """Resident megabytes at most, where the kernel says so; else now."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024 / 1e6
        return self.rss()


def cpu_seconds(pid: int) -> float:
    """Processor time of a process: the scheduler's nanoseconds where there are any, else clock ticks."""
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9
    except (OSError, IndexError):
        used = psutil.Process(pid).cpu_times()
        return float(used.user + used.system)


def threads(pid: int) -> dict[int, tuple[float, int]]:
    """Seconds of processor time and switches of every thread of a process."""
    found: dict[int, tuple[float, int]] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        nanoseconds, _, switches = (task / "schedstat").read_text(encoding="ascii").split()
        found[int(task.name)] = int(nanoseconds) / 1e9, int(switches)
    return found


async def seed(line: Line, sender: str, count: int) -> None:
    """Make a conversation of `count` messages, as `moot import` does."""
    roles = ("user", "assistant")
    lines = [{"agent": "bench", "created_by": sender, "created_at": "2026-01-01T00:00:00Z", "title": "seeded"}]
    for number in range(count):
        text = f"Message {number} of a conversation that has been going on for a while about many things."
        lines.append({"role": roles[number % 2], "content": text})
    message = pb.ClientMessage()
    imported = getattr(message, "import")
    imported.agent, imported.sender = "bench", sender
    imported.jsonl = "".join(json.dumps(line) + "\n" for line in lines)
    answer = await line.request(message)
    if answer.imported.messages != count:
        raise RuntimeError(f"{answer.imported.messages} of {count} messages were imported: {answer.error.message}")
