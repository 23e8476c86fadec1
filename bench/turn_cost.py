"""What one message costs: ./dev profile-turn chat|tools|spawn [--moot COMMAND] [--functions]

Counts instead of timing, so that the result is the same on a busy machine: the functions and files of Moot that a
message passes through, calls between files, SQL statements, transactions, tasks and thread switches. The processor
time is measured on a second daemon that nothing is counted in. `bench.profile` shows which functions take the time.
"""

import argparse
import asyncio
import dis
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import moot
from bench.line import Line, connect
from bench.subject import MOOT, Daemon, make_home, threads
from bench.team import lead_with
from bench.work import SAY, mock_server
from moot.daemon.paths import Paths
from moot.daemon.serve import serve
from moot.engine import tool_registry
from moot.multiagent import team
from moot.store.writer import Writer

OUT = Path(__file__).parent / "out"
_SOURCE = str(Path(moot.__file__).parent) + os.sep
_WARM, _TURNS = 20, 200
_AGENTS = {"chat": "bench", "tools": "tools", "spawn": "moot"}
# What a turn begins with.
_FIRST = "daemon/requests/exchange.py:Exchange.accept"
# Newer versions of Python do not call a function for them.
_COMPREHENSION = ("<listcomp>", "<dictcomp>", "<setcomp>")
# What is called less often than this many times a turn is not on its path: it is done now and then.
_RARE = 0.5


@dataclass
class Counts:
    """What happened in the daemon while turns were made."""

    functions: Counter[str] = field(default_factory=Counter)
    crossings: Counter[str] = field(default_factory=Counter)
    statements: int = 0
    transactions: int = 0
    tasks: int = 0
    # Calls of Moot's functions in each turn.
    turns: list[dict[str, int]] = field(default_factory=list)

    @property
    def least_calls(self) -> int:
        """The sum of the least calls of each function in any turn.

        What is done now and then, or how often depends on the load of the machine, is not in it.
        """
        first = self.turns[0]
        return sum(min(turn.get(name, 0) for turn in self.turns) for name in first)


class Meter:
    """Counts in the threads it is installed in, between two signals."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._on = False
        self._names: dict[CodeType, str] = {}

    def toggle(self) -> None:
        self._on = not self._on
        # What is looked for now and then would be in every turn of a slow machine.
        for module in (tool_registry, team):
            module._LOOK_AGAIN_SECONDS = math.inf  # type: ignore[attr-defined]  # noqa: SLF001

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self._on:
            return
        if event == "c_call":
            self.counts.statements += argument.__name__ in ("execute", "executemany")
        elif event == "call" and frame.f_lasti <= _find_start(frame.f_code):
            self._enter(frame)

    def _enter(self, frame: FrameType) -> None:
        name = self._name(frame.f_code)
        if not name:
            return
        self.counts.functions[name] += 1
        if name == _FIRST:
            self.counts.turns.append({})
        if self.counts.turns:
            turn = self.counts.turns[-1]
            turn[name] = turn.get(name, 0) + 1
        caller = frame.f_back
        before = self._name(caller.f_code) if caller is not None else ""
        if before and before.partition(":")[0] != name.partition(":")[0]:
            self.counts.crossings[f"{before} -> {name}"] += 1

    def _name(self, code: CodeType) -> str:
        """Where in Moot the code is; nothing for a library's."""
        name = self._names.get(code)
        if name is None:
            file = code.co_filename
            own = file.startswith(_SOURCE) and not code.co_name.endswith(_COMPREHENSION)
            name = self._names[code] = f"{file.removeprefix(_SOURCE)}:{code.co_qualname}" if own else ""
        return name

    def count_tasks(self) -> None:
        loop = asyncio.get_running_loop()

        def create(loop: asyncio.AbstractEventLoop, work: Any, **how: Any) -> "asyncio.Task[Any]":
            self.counts.tasks += self._on
            return asyncio.Task(work, loop=loop, **how)

        loop.set_task_factory(create)

    def count_transactions(self) -> None:
        commit = Writer._commit  # noqa: SLF001 - a transaction is one call of it

        def counted(writer: Writer, batch: Any) -> None:
            self.counts.transactions += self._on
            commit(writer, batch)

        Writer._commit = counted  # type: ignore[method-assign, assignment]  # noqa: SLF001


@cache
def _find_start(code: CodeType) -> int:
    """Return where a call of the code begins. A generator is called once and resumed often; only the call counts."""
    return next((each.offset for each in dis.get_instructions(code) if each.opname == "RESUME"), 0)


def serve_counted(file: Path) -> int:
    """The daemon's own `serve`, counted between two SIGUSR1."""
    meter = Meter()
    meter.count_transactions()
    # On the event loop's thread; a library's threads are none of a turn.
    run = asyncio.Runner.run

    def run_counted(runner: asyncio.Runner, work: Any, **how: Any) -> Any:
        async def counted() -> Any:
            meter.count_tasks()
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, meter.toggle)
            return await work

        return run(runner, counted(), **how)

    asyncio.Runner.run = run_counted  # type: ignore[method-assign, assignment]
    threading.setprofile(meter.profile)
    sys.setprofile(meter.profile)
    try:
        return int(serve(Paths.find(os.environ)))
    finally:
        sys.setprofile(None)
        file.write_text(json.dumps(vars(meter.counts)), encoding="utf-8")


async def make_turns(line: Line, load: str, count: int, name: str) -> None:
    for number in range(count):
        # Ten turns to a conversation; who leads a team begins anew each time.
        each = 1 if load == "spawn" else 10
        await line.turn(_AGENTS[load], f"{name}{number // each}", SAY)


async def count_turns(load: str, home: Path, *, warm: int = _WARM, turns: int = _TURNS) -> Counts:
    file = home / "counts.json"
    daemon = await Daemon.start(home, sys.executable, "-m", "bench.turn_cost", "serve", "--file", str(file))
    try:
        async with connect(daemon.socket) as line:
            await make_turns(line, load, warm, "warm")
            os.kill(daemon.pid, signal.SIGUSR1)
            await make_turns(line, load, turns, "counted")
            os.kill(daemon.pid, signal.SIGUSR1)
            await asyncio.sleep(0.2)
    finally:
        await daemon.stop()
    told = json.loads(file.read_text(encoding="utf-8"))
    return Counts(**{**told, "functions": Counter(told["functions"]), "crossings": Counter(told["crossings"])})


async def measure_threads(load: str, home: Path, command: Path) -> dict[str, tuple[float, float]]:
    """Milliseconds of processor time and switches per turn, of the event loop's thread and of all others."""
    daemon = await Daemon.start(home, moot=command)
    try:
        async with connect(daemon.socket) as line:
            await make_turns(line, load, _WARM, "warm")
            before = threads(daemon.pid)
            await make_turns(line, load, _TURNS, "timed")
            after = threads(daemon.pid)
    finally:
        await daemon.stop()
    found: dict[str, tuple[float, float]] = {"event loop": (0.0, 0.0), "other threads": (0.0, 0.0)}
    for thread, (seconds, switches) in after.items():
        name = "event loop" if thread == daemon.pid else "other threads"
        earlier = before.get(thread, (0.0, 0))
        spent, switched = found[name]
        found[name] = (
            spent + (seconds - earlier[0]) / _TURNS * 1e3,
            switched + (switches - earlier[1]) / _TURNS,
        )
    return found


def make_load_home(load: str, folder: Path, base: str) -> Path:
    # One read for each answer: several would be counted where the server is slow.
    base = f"{base}/o1"
    home = make_home(folder, base)
    if load == "spawn":
        lead_with(home, base, "one")
    return home


async def run(load: str, command: Path, *, functions: bool) -> None:
    OUT.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="turn-cost-", dir=OUT))
    try:
        async with mock_server() as base:
            counts = await count_turns(load, make_load_home(load, folder / "counted", base))
            timed = await measure_threads(load, make_load_home(load, folder / "timed", base), command)
        show(load, counts, timed, functions=functions)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def show(load: str, counts: Counts, timed: dict[str, tuple[float, float]], *, functions: bool) -> None:
    path = {name: count / _TURNS for name, count in counts.functions.items() if count >= _RARE * _TURNS}
    files = {name.partition(":")[0] for name in path}
    rows = {
        "functions": len(path),
        "files": len(files),
        "calls": sum(path.values()),
        "calls in every turn": counts.least_calls,
        "calls into another file": sum(counts.crossings.values()) / _TURNS,
        "SQL statements": counts.statements / _TURNS,
        "transactions": counts.transactions / _TURNS,
        "tasks": counts.tasks / _TURNS,
    }
    print(f"{load}: one message, mean of {_TURNS}")
    for name, value in rows.items():
        print(f"  {name:26} {value:8.1f}")
    for name, (milliseconds, switches) in timed.items():
        print(f"  {name:26} {milliseconds:8.2f} ms of processor time, {switches:.1f} switches")
    packages = Counter[str]()
    for name, count in path.items():
        packages[name.partition("/")[0]] += count  # type: ignore[assignment]
    print("  calls by package           ", ", ".join(f"{name} {count:.0f}" for name, count in packages.most_common()))
    if functions:
        for name, count in sorted(path.items()):
            print(f"{count:8.1f}  {name}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Count what one message costs.")
    parser.add_argument("load", choices=(*_AGENTS, "serve"))
    parser.add_argument("--moot", type=Path, default=MOOT, help="the command whose processor time is measured")
    parser.add_argument("--functions", action="store_true", help="list the functions on the path")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load == "serve":
        return serve_counted(options.file)
    asyncio.run(run(options.load, options.moot, functions=options.functions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
