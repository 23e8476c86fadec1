"""The work that is measured, one method per piece; each call adds one repeat's samples to the tally."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.automation import measure_automation
from bench.broker import measure_broker
from bench.documents import DOCUMENT_PASSAGES, measure_documents
from bench.gate import measure_gate
from bench.largest import measure_pings
from bench.line import Line, connect, watch
from bench.mail import measure_mail
from bench.mail_nats import measure_nats_mail
from bench.mock import reply_text
from bench.raw import Ledger, RawClient, Timed, durable_turn, keeping_turn
from bench.search import measure_search
from bench.subject import MOOT, Daemon, environment, make_home, seed
from bench.team import measure_team

SAY = "Please say something short and friendly about the weather of today."


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is done in one repeat."""

    repeats: int
    turns: int
    short_conversations: int
    concurrent_turns: int
    streams: int
    crowd: int = 200
    concurrent: int = 50


QUICK = Sizes(repeats=3, turns=8, short_conversations=6, concurrent_turns=600, streams=4)
FULL = Sizes(repeats=7, turns=15, short_conversations=12, concurrent_turns=2000, streams=10)


@dataclass
class Tally:
    """Samples by series; each repeat adds one list."""

    series: dict[str, list[list[float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, name: str, *values: float) -> None:
        self.series[name].append(list(values))

    def median(self, name: str) -> float:
        return statistics.median(value for values in self.series[name] for value in values)

    def noise(self, name: str) -> float:
        """Half the width of the middle half of all samples, as a part of their median."""
        values = [value for values in self.series[name] for value in values]
        middle = self.median(name)
        if len(values) < 2 or not middle:
            return 0.0
        lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
        return (upper - lower) / 2 / middle


class Bench:
    """A mock server, a home, a daemon and the clients, all kept over the whole run. `moot` is the measured command."""

    def __init__(self, sizes: Sizes, *, home: Path, base: str, daemon: Daemon, line: Line, moot: Path = MOOT) -> None:
        self.sizes = sizes
        self.moot = moot
        self.home = home
        self.base = base
        self.daemon = daemon
        self.line = line
        self.raw = RawClient(base)
        self.ledger = Ledger(home / "ledger.db")
        self.tally = Tally()
        self._names = 0

    def fresh(self, what: str) -> str:
        """A sender nobody has used."""
        self._names += 1
        return f"{what}-{self._names}"

    # ---- one conversation ---------------------------------------------------------------------

    async def history(self, count: int) -> None:
        """Turns on a conversation of `count` messages; the raw client sends the very same body."""
        short = count <= 100
        turns = 4 if short else self.sizes.turns
        taken: dict[str, list[Timed]] = {"moot": [], "raw": [], "durable": [], "keeping": []}
        commits: list[float] = []
        used = 0.0
        for _ in range(self.sizes.short_conversations if short else 1):
            sender = self.fresh(f"history{count}")
            await seed(self.line, sender, count)
            cold = await self.line.turn("bench", sender, SAY)
            self.tally.add(f"cold.{count}", cold.total)
            body = await self.raw.last_body()
            template = self._keep(sender, body)
            before = self.daemon.cpu()
            taken["moot"] += [await self.line.turn("bench", sender, SAY) for _ in range(turns)]
            used += self.daemon.cpu() - before
            taken["raw"] += [await self.raw.turn(body) for _ in range(turns)]
            durable = [await durable_turn(self.raw, self.ledger, body, SAY) for _ in range(turns)]
            taken["durable"] += [one.timed for one in durable]
            commits += [seconds for one in durable for seconds in one.commits]
            taken["keeping"] += [await keeping_turn(self.raw, self.ledger, sender, template) for _ in range(turns)]
        self.tally.add(f"body.{count}", len(body))
        self.tally.add("commit", *commits)
        self.tally.add(f"commit.{count}", *commits)
        for name, timed in taken.items():
            self.tally.add(f"{name}.turn.{count}", *(self._right(one).total for one in timed))
            self.tally.add(f"{name}.first.{count}", *(one.first for one in timed))
        self.tally.add(f"moot.cpu.{count}", used / len(taken["moot"]))

    def _keep(self, sender: str, body: bytes) -> dict[str, object]:
        """Give the raw client the conversation the daemon has, and the rest of its request."""
        request: dict[str, Any] = json.loads(body)
        self.ledger.commit(sender, *((message["role"], message["content"]) for message in request["messages"]))
        return request

    def _right(self, timed: Timed, tokens: int = 16) -> Timed:
        if timed.text != reply_text(tokens):
            raise RuntimeError(f"the answer came as {timed.text[:80]!r}")
        return timed

    # ---- many at once -------------------------------------------------------------------------

    async def concurrent(self) -> None:
        """Fifty conversations, each with the next turn as soon as the last one is over."""
        await self.many(self.tally)
        body = await self.raw.last_body()
        for name, one in (
            ("raw", lambda: self.raw.turn(body)),
            ("durable", lambda: self._durable(body)),
        ):
            each = self.sizes.concurrent_turns // self.sizes.concurrent

            async def talk(count: int, call: Callable[[], object] = one) -> None:
                for _ in range(count):
                    self._right(await call())  # type: ignore[misc]

            await _all([talk(1) for _ in range(self.sizes.concurrent)])
            started = time.perf_counter()
            await _all([talk(each) for _ in range(self.sizes.concurrent)])
            self.tally.add(f"{name}.rate", each * self.sizes.concurrent / (time.perf_counter() - started))

    async def _durable(self, body: bytes) -> Timed:
        return (await durable_turn(self.raw, self.ledger, body, SAY)).timed

    async def many(self, tally: Tally) -> None:
        each = self.sizes.concurrent_turns // self.sizes.concurrent
        senders = [self.fresh("concurrent") for _ in range(self.sizes.concurrent)]
        async with AsyncExitStack() as stack:
            lines = [await stack.enter_async_context(connect(self.daemon.socket)) for _ in senders]

            async def talk(line: Line, sender: str, count: int) -> list[float]:
                return [self._right(await line.turn("bench", sender, SAY)).total for _ in range(count)]

            await _all([talk(line, sender, 1) for line, sender in zip(lines, senders, strict=True)])
            used, own, started = self.daemon.cpu(), time.process_time(), time.perf_counter()
            times = await _all([talk(line, sender, each) for line, sender in zip(lines, senders, strict=True)])
            took = time.perf_counter() - started
        done = each * len(senders)
        tally.add("moot.rate", done / took)
        tally.add("moot.rate.cpu", (self.daemon.cpu() - used) / done)
        tally.add("driver.rate.cpu", (time.process_time() - own) / done)
        tally.add("moot.rate.p50", *(value for values in times for value in values))

    async def crowd(self) -> None:
        """Two hundred clients streaming at once and one that is told everything: what each heard is compared."""
        senders = [self.fresh("crowd") for _ in range(self.sizes.crowd)]
        expected = reply_text(60)
        self.daemon.forget_peak()
        before, used = self.daemon.rss(), self.daemon.cpu()
        async with AsyncExitStack() as stack:
            watcher = await stack.enter_async_context(watch(self.daemon.socket, senders))
            lines = [await stack.enter_async_context(connect(self.daemon.socket)) for _ in senders]
            started = time.perf_counter()
            told = await _all([line.turn("crowd", sender, SAY) for line, sender in zip(lines, senders, strict=True)])
            took = time.perf_counter() - started
            async with asyncio.timeout(10):
                await watcher.all_ended.wait()
        whole = sum(one.text == expected for one in told)
        heard = sum(text == expected for text in watcher.said.values())
        self.tally.add("crowd.incomplete", 2 * len(senders) - whole - heard)
        self.tally.add("crowd.events", sum(one.events for one in told))
        self.tally.add("crowd.seconds", took)
        self.tally.add("crowd.cpu", self.daemon.cpu() - used)
        self.tally.add("crowd.grew", max(0.0, self.daemon.peak_rss() - before))
        self.tally.add("crowd.peak", self.daemon.peak_rss())

    # ---- tools --------------------------------------------------------------------------------

    async def tools(self) -> None:
        """A turn that calls a tool through the gate; the raw client posts the same two bodies."""
        sender = self.fresh("tools")
        self._right(await self.line.turn("tools", sender, SAY))
        bodies = [await self.raw.body_before(), await self.raw.last_body()]
        moot = [self._right(await self.line.turn("tools", sender, SAY)) for _ in range(self.sizes.turns)]
        self.tally.add("moot.tool", *(one.total for one in moot))
        raw, commits = [], []
        for _ in range(self.sizes.turns):
            first, second = await self.raw.turn(bodies[0], "/t1"), await self.raw.turn(bodies[1], "/t1")
            raw.append(first.total + self._right(second).total)
            # The message, the call and its result, and the reply.
            commits.append(sum(self.ledger.commit("tools", ("tool", SAY)) for _ in range(3)))
        self.tally.add("raw.tool", *raw)
        self.tally.add("durable.tool", *(total + spent for total, spent in zip(raw, commits, strict=True)))

    async def search(self) -> None:
        """A search in a large tree, beside rg and grep."""
        taken = await measure_search(self.home / self.fresh("tree"))
        for who, seconds in taken.items():
            self.tally.add(f"{who}.search", *seconds)

    async def documents(self) -> None:
        """Passages that are indexed in a second, and searches among many. Once: it takes a minute."""
        if self.tally.series["documents.search"]:
            return
        times = await measure_documents(self.home, DOCUMENT_PASSAGES)
        self.tally.add("documents.indexed", times.indexed_per_second)
        self.tally.add("documents.search", *times.searches)
        self.tally.add("documents.bytes", times.bytes_per_passage)

    async def gate(self) -> None:
        """The way of one call through every hook to the tool and back, beside the tool alone. No disk is in it."""
        through, alone = await measure_gate(self.home / self.fresh("gate"), self.base)
        self.tally.add("gate.through", *through)
        self.tally.add("gate.alone", *alone)

    async def team(self) -> None:
        """A hundred teammates, spawned at once and waited for; and one, to see how soon it begins."""
        found = await measure_team(
            self.home / self.fresh("team"), self.base, times=max(3, self.sizes.turns // 3), moot=self.moot
        )
        self.tally.add("moot.team", *found.together)
        self.tally.add("raw.team", *found.raw)
        self.tally.add("moot.team.slow", *found.with_latency)
        self.tally.add("raw.team.slow", *found.raw_with_latency)
        self.tally.add("moot.spawn", *found.first_call)
        self.tally.add("moot.one", *found.alone)
        self.tally.add("moot.one.old", *found.among_many)

    async def automation(self) -> None:
        """Ten thousand schedules, a workflow of a thousand steps, and a hundred workflows at once.

        It takes long, and measures some of it several times by itself, so it is not repeated as often as the others.
        """
        if len(self.tally.series["automation.step"]) >= max(1, self.sizes.repeats // 3):
            return
        found = await measure_automation(self.home / self.fresh("automation"), self.base, moot=self.moot)
        for kind in ("start_without", "start_with", "idle_without", "idle_with", "late"):
            self.tally.add(f"automation.{kind}", *getattr(found, kind))
        for kind in ("step", "run", "step_cpu", "run_cpu", "fairness"):
            self.tally.add(f"automation.{kind}", getattr(found, kind))

    async def mail(self) -> None:
        """Mail between agents within one daemon, on each kind of store, and among many goals."""
        cost = await measure_mail(self.home / self.fresh("mail"), self.base)
        for kind, rate in cost.rates.items():
            self.tally.add(f"mail.rate.{kind}", rate)
        self.tally.add("mail.few", *cost.among_few)
        self.tally.add("mail.many", *cost.among_many)
        self.tally.add("mail.bytes", cost.bytes_per_goal)
        self.tally.add("mail.idle", cost.idle_cpu)

    async def mail_nats(self) -> None:
        """Mail between two daemons over a NATS server, beside two processes with nats-py."""
        cost = await measure_nats_mail(self.home / self.fresh("mail-nats"), self.base)
        self.tally.add("raw.mail.nats", *cost.raw)
        self.tally.add("mail.nats", *cost.rate)
        self.tally.add("raw.mail.nats.published", *cost.published)
        self.tally.add("raw.mail.nats.synced", cost.synced)
        for process, seconds in cost.cpu.items():
            self.tally.add(f"mail.nats.cpu.{process}", *seconds)
        self.tally.add("mail.nats.latency", cost.latency)

    async def broker(self) -> None:
        """Messages through a NATS server, beside a client of its own."""
        cost = await measure_broker(self.home / self.fresh("broker"))
        self.tally.add("raw.broker", cost.raw)
        self.tally.add("moot.broker", cost.adapter)
        self.tally.add("moot.broker.latency", cost.latency)

    # ---- streams ------------------------------------------------------------------------------

    async def tokens(self) -> None:
        """Processor time per token: five hundred as fast as the server writes, then a hundred at two milliseconds."""
        for agent, options, count, name in (("long", "/n500", 500, "fast"), ("paced", "/n100/g2", 100, "paced")):
            sender = self.fresh(agent)
            self._right(await self.line.turn(agent, sender, SAY), count)
            streams = self.sizes.streams if name == "fast" else max(2, self.sizes.streams // 3)
            body = await self.raw.last_body()
            used = self.daemon.cpu()
            timed = [self._right(await self.line.turn(agent, sender, SAY), count) for _ in range(streams)]
            self.tally.add(f"moot.token.{name}", (self.daemon.cpu() - used) / streams / count)
            self.tally.add(f"moot.events.{name}", *(one.events for one in timed))
            own = time.process_time()
            for _ in range(streams):
                self._right(await self.raw.turn(body, options), count)
            self.tally.add(f"raw.token.{name}", (time.process_time() - own) / streams / count)

    async def largest(self) -> None:
        """Pings of another client while requests of the largest size are sent."""
        self.tally.add("moot.ping.largest", await measure_pings(self.daemon.socket, self.fresh("largest")))

    # ---- processes ----------------------------------------------------------------------------

    async def start(self) -> None:
        """From spawning the process to an answer: on a home never used, then on the same home again."""
        home = make_home(self.home / self.fresh("start"), self.base)
        for name in ("first", "again"):
            started = time.perf_counter()
            daemon = await Daemon.start(home, moot=self.moot)
            ready = time.perf_counter() - started
            async with connect(daemon.socket) as line:
                timed = self._right(await line.turn("bench", "user", SAY))
                self.tally.add(f"start.{name}", time.perf_counter() - started)
            self.tally.add(f"start.{name}.ready", ready)
            self.tally.add(f"start.{name}.turn", timed.total)
            if name == "again":
                await asyncio.sleep(1.0)
                self.tally.add("idle.rss", daemon.rss())
            await daemon.stop()

    async def commands(self) -> None:
        """What a person waits for: help, and one question to a daemon that runs. An empty Python is the floor."""
        home = environment(self.home)
        for name, command in (
            ("python", [sys.executable, "-c", "pass"]),
            ("help", [str(self.moot), "--help"]),
            ("ask", [str(self.moot), "ask", "bench", SAY, "--as", self.fresh("ask")]),
        ):
            times = []
            for _ in range(max(3, self.sizes.turns // 3)):
                started = time.perf_counter()
                done = await asyncio.to_thread(
                    subprocess.run, command, env=home, capture_output=True, timeout=30, check=True
                )
                times.append(time.perf_counter() - started)
            if name == "ask" and reply_text() not in done.stdout.decode():
                raise RuntimeError(f"moot ask printed {done.stdout!r}")
            self.tally.add(f"command.{name}", *times)

    async def close(self) -> None:
        await self.raw.close()
        self.ledger.close()


async def _all(coroutines: list) -> list:  # type: ignore[type-arg]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in coroutines]
    return [task.result() for task in tasks]


@asynccontextmanager
async def mock_server() -> AsyncIterator[str]:
    """A mock model server on a core of its own, where there is more than one. Yields its address."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.mock", "--core", str(max(cores, default=-1))),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def start_bench(sizes: Sizes, home: Path, base: str, *, moot: Path = MOOT) -> AsyncIterator[Bench]:
    """A daemon of that command on a fresh home, and the clients that measure it."""
    async with AsyncExitStack() as stack:
        make_home(home, base)
        daemon = await Daemon.start(home, moot=moot)
        stack.push_async_callback(daemon.stop)
        line = await stack.enter_async_context(connect(daemon.socket))
        bench = Bench(sizes, home=home, base=base, daemon=daemon, line=line, moot=moot)
        stack.push_async_callback(bench.close)
        yield bench
