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
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench import beside
from bench.earlier import install_commit
from bench.report import PLANS, asides, compare, number, table, write_json
from bench.subject import cpu_seconds
from bench.work import FULL, QUICK, Bench, Sizes, Tally, mock_server, start_bench

OUT = Path(__file__).parent / "out"
# Above this part of the machine taken by others, times say more about them than about us.
BUSY = 0.15
# Runs inside the benchmark's own process, so it cannot be measured at another commit.
NOT_COMPARED = (
    "gate", "search", "search-grep", "mail", "mail-durable", "mail-many", "mail-bytes", "mail-idle", "mail-nats",
    "mail-nats-latency", "broker", "broker-latency", "schedules-start", "schedules-idle",
    "schedules-late", "workflow-step", "workflow-fair",
    "documents", "documents-indexed", "documents-memory",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    sizes: Sizes
    rows: list[str]
    peers: bool = False
    # An earlier commit that is measured in turns with this one.
    against: str = ""


def pieces(bench: Bench) -> dict[str, Callable[[], Awaitable[None]]]:
    return {
        "history.10": lambda: bench.history(10),
        "history.100": lambda: bench.history(100),
        "history.1000": lambda: bench.history(1000),
        "history.10000": lambda: bench.history(10000),
        "concurrent": bench.concurrent,
        "tools": bench.tools,
        "gate": bench.gate,
        "search": bench.search,
        "documents": bench.documents,
        "team": bench.team,
        "automation": bench.automation,
        "mail": bench.mail,
        "mail.nats": bench.mail_nats,
        "broker": bench.broker,
        "tokens": bench.tokens,
        "crowd": bench.crowd,
        "largest": bench.largest,
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


async def measure(benches: list[Bench], options: Options) -> None:
    """Every piece of every bench in turns; the bench that goes first changes with each repeat."""
    pieces_of = [pieces(bench) for bench in benches]
    chosen = [name for name in pieces_of[0] if name in {PLANS[row].piece for row in options.rows}]
    # The first turns of a process pay for imports and cold caches; they are not what is asked here.
    say("warming up")
    for bench in benches:
        await bench.history(10)
        bench.tally = Tally()
    repeats = options.sizes.repeats
    for repeat in range(repeats):
        for name in chosen:
            for work in pieces_of if repeat % 2 == 0 else reversed(pieces_of):
                say(f"repeat {repeat + 1}/{repeats}: {name}")
                gc.collect()
                await work[name]()
        if options.peers:
            say(f"repeat {repeat + 1}/{repeats}: peers")
            await beside.measure(benches[0])
    say("")


async def run(options: Options) -> int:
    OUT.mkdir(exist_ok=True)
    earlier = install_commit(options.against, OUT) if options.against else None
    # On the disk of the checkout: a folder in memory would make commits free.
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=OUT))
    machine, started = Machine(), time.perf_counter()
    try:
        async with AsyncExitStack() as stack:
            base = await stack.enter_async_context(mock_server())
            benches = [await stack.enter_async_context(start_bench(options.sizes, folder / "home", base))]
            if earlier is not None:
                then = start_bench(options.sizes, folder / "earlier", base, moot=earlier)
                benches.append(await stack.enter_async_context(then))
            await measure(benches, options)
            own = sum(os.times()[:4]) + sum(cpu_seconds(child.pid) for child in psutil.Process().children())
            others = machine.others(own)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report(options, [bench.tally for bench in benches], others=others, took=time.perf_counter() - started)
    return 0


def report(options: Options, tallies: list[Tally], *, others: float, took: float) -> None:
    tally, sizes, label = tallies[0], options.sizes, "quick" if options.sizes is QUICK else "full"
    rows = [PLANS[name].row(tally) for name in options.rows]
    tables = [table(rows)]
    if options.peers:
        tables.append(beside.table(tally))
    if options.against:
        tables.append(compare(rows, [PLANS[name].row(tallies[1]) for name in options.rows], options.against))
    for each in tables:
        print(f"{each}\n")
    for line in asides(tally):
        print(f"  {line}")
    load = ", ".join(number(value) for value in os.getloadavg())
    print(f"  {sizes.repeats} repeats in turns, medians; ± is half the width of the middle half of the samples")
    print(f"  other processes used {others:.0%} of this machine meanwhile (load {load}); the run took {took:.0f} s")
    if others > BUSY:
        print("  that is too much for the times above: trust ratios and CPU, and run it again when it is quiet")
    facts: dict[str, object] = {"kind": label, "seconds": took, "others": others, "load": os.getloadavg()}
    if options.peers:
        facts["peers"] = {"versions": beside.versions(), "rows": beside.rows(tally)}
    if options.against:
        earlier = tallies[1]
        medians = {name: earlier.median(name) for name in sorted(earlier.series)}
        facts["against"] = {"ref": options.against, "medians": medians}
    write_json(OUT / "results.json", rows, tally, facts)
    print(f"  written to {(OUT / 'results.json').relative_to(OUT.parent.parent)}")
    missed = [row.name for row in rows if row.verdict == "MISS"]
    if missed:
        print(f"  missed: {', '.join(missed)}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench", description="Measure Moot beside a raw client.")
    parser.add_argument("--quick", action="store_true", help="fewer repeats; less than a minute")
    parser.add_argument("--only", default="", metavar="ROW,ROW", help=f"only these rows: {', '.join(PLANS)}")
    parser.add_argument("--peers", action="store_true", help="also run the peers installed under $PEERS_VENVS")
    parser.add_argument("--against", default="", metavar="REF", help="measure an earlier commit in turns with this one")
    options = parser.parse_args()
    if options.peers and not beside.interpreters():
        parser.error("no peer is installed under $PEERS_VENVS; see docs/performance.md")
    wanted = [name.strip() for name in options.only.split(",") if name.strip()] or list(PLANS)
    if unknown := [name for name in wanted if name not in PLANS]:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(PLANS)}")
    if options.against:
        wanted = [name for name in wanted if name not in NOT_COMPARED]
    try:
        import uvloop  # noqa: PLC0415 — not there on every system

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        sizes = QUICK if options.quick else FULL
        return runner.run(run(Options(sizes=sizes, rows=wanted, peers=options.peers, against=options.against)))


if __name__ == "__main__":
    sys.exit(main())
