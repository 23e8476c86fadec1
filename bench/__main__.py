"""./dev bench: one run on loopback, everything measured in turns so that noise falls on all alike."""

import argparse
import asyncio
import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil

from bench import beside
from bench.report import PLANS, asides, number, table, write_json
from bench.subject import cpu_seconds
from bench.work import FULL, QUICK, Bench, Sizes, Tally, prepared

OUT = Path(__file__).parent / "out"
# Above this part of the machine taken by others, times say more about them than about us.
BUSY = 0.15


def pieces(bench: Bench) -> dict[str, Callable[[], Awaitable[None]]]:
    return {
        "history.10": lambda: bench.history(10),
        "history.100": lambda: bench.history(100),
        "history.1000": lambda: bench.history(1000),
        "history.10000": lambda: bench.history(10000),
        "concurrent": bench.concurrent,
        "tools": bench.tools,
        "gate": bench.gate,
        "team": bench.team,
        "tokens": bench.tokens,
        "crowd": bench.crowd,
        "start": bench.start,
        "commands": bench.commands,
    }


class Machine:
    """How busy everybody else was: all processor time used here, less what this run used itself."""

    def __init__(self) -> None:
        self._busy = self._machine()
        self._started = time.perf_counter()

    def others(self, own: float) -> float:
        cores = psutil.cpu_count() or 1
        return max(0.0, self._machine() - self._busy - own) / (time.perf_counter() - self._started) / cores

    @staticmethod
    def _machine() -> float:
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        return float(sum(times[:8]) - idle if len(times) >= 8 else sum(times) - idle)


def say(progress: str) -> None:
    """Progress for whoever watches; a file needs none."""
    if sys.stderr.isatty():
        print(f"\r{progress:40}\r", end="", file=sys.stderr, flush=True)


async def measure(bench: Bench, wanted: list[str], *, peers: bool) -> None:
    work = pieces(bench)
    chosen = [name for name in work if name in {PLANS[row].piece for row in wanted}]
    # The first turns of a process pay for imports and cold caches; they are not what is asked here.
    say("warming up")
    await bench.history(10)
    bench.tally = Tally()
    for repeat in range(bench.sizes.repeats):
        for name in chosen:
            say(f"repeat {repeat + 1}/{bench.sizes.repeats}: {name}")
            gc.collect()
            await work[name]()
        if peers:
            say(f"repeat {repeat + 1}/{bench.sizes.repeats}: peers")
            await beside.measure(bench)
    say("")


async def run(sizes: Sizes, wanted: list[str], *, label: str, peers: bool) -> int:
    OUT.mkdir(exist_ok=True)
    # On the disk of the checkout: a folder in memory would make commits free.
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=OUT))
    machine, started = Machine(), time.perf_counter()
    try:
        async with prepared(sizes, folder) as bench:
            await measure(bench, wanted, peers=peers)
            own = sum(os.times()[:4]) + sum(cpu_seconds(child.pid) for child in psutil.Process().children())
            others = machine.others(own)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = [PLANS[name].row(bench.tally) for name in wanted]
    took = time.perf_counter() - started
    print(table(rows))
    print()
    if peers:
        print(beside.table(bench.tally))
        print()
    for line in asides(bench.tally):
        print(f"  {line}")
    load = ", ".join(number(value) for value in os.getloadavg())
    print(f"  {sizes.repeats} repeats in turns, medians; ± is half the width of the middle half of the samples")
    print(f"  other processes used {others:.0%} of this machine meanwhile (load {load}); the run took {took:.0f} s")
    if others > BUSY:
        print(
            "  that is too much for the times and rates above: trust ratios and CPU, and run it again when it is quiet"
        )
    facts: dict[str, object] = {"kind": label, "seconds": took, "others": others, "load": os.getloadavg()}
    if peers:
        facts["peers"] = {"versions": beside.versions(), "rows": beside.rows(bench.tally)}
    write_json(OUT / "results.json", rows, bench.tally, facts)
    print(f"  written to {(OUT / 'results.json').relative_to(OUT.parent.parent)}")
    missed = [row.name for row in rows if row.verdict == "MISS"]
    if missed:
        print(f"  missed: {', '.join(missed)}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench", description="Measure Moot beside a raw client.")
    parser.add_argument("--quick", action="store_true", help="fewer repeats; less than a minute")
    parser.add_argument("--only", default="", metavar="ROW,ROW", help=f"only these rows: {', '.join(PLANS)}")
    parser.add_argument("--peers", action="store_true", help="also run the peers installed under $PEERS_VENVS")
    options = parser.parse_args()
    if options.peers and not beside.interpreters():
        parser.error("no peer is installed under $PEERS_VENVS; see docs/performance.md")
    wanted = [name.strip() for name in options.only.split(",") if name.strip()] or list(PLANS)
    if unknown := [name for name in wanted if name not in PLANS]:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(PLANS)}")
    try:
        import uvloop  # noqa: PLC0415 — not there on every system

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        sizes = QUICK if options.quick else FULL
        label = "quick" if options.quick else "full"
        return runner.run(run(sizes, wanted, label=label, peers=options.peers))


if __name__ == "__main__":
    sys.exit(main())
