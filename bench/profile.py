"""Where a turn's time goes: python -m bench.profile chat|tools|concurrent|history|stream [--lines N]

Runs a real daemon under cProfile, its event loop and its writer thread apart, drives it, and prints the most
expensive functions in microseconds per turn. cProfile makes Python code two to three times slower and C code
hardly, so the order of the list is worth more than its numbers.
"""

import argparse
import asyncio
import cProfile
import os
import pstats
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bench.line import connect
from bench.subject import Daemon, make_home, seed
from bench.work import QUICK, SAY, Bench, Tally, mock_server
from moot.daemon.paths import Paths
from moot.daemon.serve import serve
from moot.store.writer import Writer

OUT = Path(__file__).parent / "out"


def serve_profiled(folder: Path) -> int:
    """The daemon's own `serve`, with a profile of each thread that matters."""
    # Processor time of the thread: waiting for a core on a busy machine does not count.
    profiles = {name: cProfile.Profile(time.thread_time_ns, 1e-9) for name in ("loop", "writer")}
    work = Writer._serve  # noqa: SLF001 — only a thread's own code can profile it

    def profiled(writer: Writer) -> None:
        profiles["writer"].runcall(work, writer)

    Writer._serve = profiled  # type: ignore[method-assign, assignment]  # noqa: SLF001
    try:
        return int(profiles["loop"].runcall(serve, Paths.find(os.environ)))
    finally:
        for name, profile in profiles.items():
            profile.dump_stats(folder / f"{name}.prof")


async def drive(load: str, base: str, home: Path, folder: Path) -> int:
    """Turns through a daemon that is profiled; says how many there were."""
    daemon = await Daemon.start(home, sys.executable, "-m", "bench.profile", "serve", "--folder", str(folder))
    try:
        async with connect(daemon.socket) as line:
            bench = Bench(QUICK, home=home, base=base, daemon=daemon, line=line)
            try:
                return await _load(bench, load)
            finally:
                await bench.close()
    finally:
        await daemon.stop()


async def _load(bench: Bench, load: str) -> int:
    line = bench.line
    if load == "concurrent":
        await bench.many(Tally())
        return QUICK.concurrent_turns + QUICK.concurrent
    turns = {"chat": 400, "tools": 400, "history": 200}.get(load, 20)
    agent = {"stream": "paced", "tools": "tools"}.get(load, "bench")
    if load == "history":
        await seed(line, "profile", 10_000)
    for number in range(turns):
        # Fresh conversations, so that a chat stays short.
        await line.turn(agent, "profile" if load == "history" else f"profile{number // 10}", SAY)
    return turns


async def run(load: str, lines: int) -> None:
    OUT.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="profile-", dir=OUT))
    try:
        async with mock_server() as base:
            turns = await drive(load, base, make_home(folder / "home", base), folder)
        for name in ("loop", "writer"):
            print(f"\n{load}, {name} thread, {turns} turns, µs per turn")
            show(pstats.Stats(str(folder / f"{name}.prof")), turns, lines)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def show(stats: pstats.Stats, turns: int, lines: int) -> None:
    found = sorted(stats.stats.items(), key=lambda item: -item[1][2])  # type: ignore[attr-defined]
    print(f"{'own':>8} {'with callees':>13} {'calls':>7}")
    for (file, number, function), (_, calls, own, whole, _) in found[:lines]:
        place = file.split("site-packages/")[-1].split("/src/")[-1]
        where = f"{place}:{number} {function}" if number else function
        print(f"{own / turns * 1e6:8.1f} {whole / turns * 1e6:13.1f} {calls / turns:7.1f}  {where}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Profile the daemon under a load.")
    parser.add_argument("load", choices=("chat", "tools", "concurrent", "history", "stream", "serve"))
    parser.add_argument("--lines", type=int, default=30)
    parser.add_argument("--folder", type=Path, default=OUT, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load == "serve":
        return serve_profiled(options.folder)
    asyncio.run(run(options.load, options.lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
