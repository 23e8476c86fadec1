"""One cycle: a daemon is killed, another is started in its place, and what it finds is checked."""

import asyncio
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from moot.domain.errors import MootError, NotFound
from moot.failpoint import POINTS
from moot.wire import moot_pb2 as pb
from tests.chaos.checker import check, read
from tests.chaos.daemon import Mortal, new_home, write_old_store
from tests.chaos.ledger import Ledger, lost
from tests.chaos.workload import Workload, act_for, drain
from tests.daemon_process import Home
from tests.talking import Talking

SETTLE_SECONDS = 5.0
_AT_START = ("daemon.", "migration.")
_ORDINARY = (
    "chat", "guest", "tools", "title", "burst", "kill", "compact", "ask", "again", "bring", "withdraw", "directory",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Cycle:
    """What was done and what came of it. Without a point the daemon is killed at a random moment."""

    number: int
    point: str = ""
    passes: int = 1
    reached: bool = False
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        where = f"{self.point}:{self.passes}" if self.point else "a random moment"
        return f"cycle {self.number} at {where}"


class Arena:
    """A home, its daemon and its ledger through many cycles; a new home every so often keeps them quick."""

    def __init__(self, path: Path, seed: int, *, generation: int = 25) -> None:
        self._path = path
        self._seed = seed
        self._generation = generation
        # The daemon that was started after the last kill; the next cycle kills it.
        self._daemon: Mortal | None = None
        self.acknowledged = 0
        self._begin(0)

    def __enter__(self) -> "Arena":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def cycle(self, number: int, point: str = "", passes: int = 1) -> Cycle:
        rng = Random(f"{self._seed}/{number}")
        if self._cycles >= self._generation or point.startswith("migration."):
            self._stop()
            shutil.rmtree(self.home.path, ignore_errors=True)
            self._begin(number)
        self._cycles += 1
        began = time.monotonic()
        done = Cycle(number=number, point=point, passes=passes)
        before = self.ledger.acknowledged
        asyncio.run(self._die(done, rng))
        asyncio.run(self._rise(done))
        self.acknowledged += self.ledger.acknowledged - before
        done.seconds = time.monotonic() - began
        if done.problems:
            # What follows on a broken home would only repeat it; the home is kept for whoever looks.
            self._stop()
            self._begin(number + 1_000_000)
        return done

    def _begin(self, number: int) -> None:
        self.home = new_home(self._path / f"home-{number}")
        self.ledger = Ledger()
        self._cycles = 0

    def _running(self) -> Mortal:
        if self._daemon is None:
            self._daemon = Mortal.launch(self.home)
        assert self._daemon is not None
        return self._daemon

    def _stop(self) -> None:
        if self._daemon is not None:
            self._daemon.kill_9()
            self._daemon = None

    # ---- the kill -------------------------------------------------------------------------------

    async def _die(self, done: Cycle, rng: Random) -> None:
        fail_at = f"{done.point}:{done.passes}"
        if done.point.startswith(_AT_START):
            await self._leave_unfinished(done, rng)
            self._daemon = Mortal.launch(self.home, fail_at=fail_at)
            done.reached = self._daemon is None
            self._stop()
            return
        daemon = self._running()
        if done.point:
            daemon.arm(fail_at)
        try:
            if done.point.startswith("drain."):
                await drain(daemon, self.ledger, f"drain-{done.number}")
            else:
                await self._work(daemon, done, rng)
            done.reached = daemon.died_by_itself
        finally:
            self._stop()

    async def _leave_unfinished(self, done: Cycle, rng: Random) -> None:
        """Leave what the next start has to put right: an old store, or a run in flight and messages in line."""
        if done.point.startswith("migration."):
            write_old_store(self.home)
            return
        daemon = self._running()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_kill_after(daemon, 0.05))
                group.create_task(_perform(daemon, self.ledger, [("burst", "left"), ("tools", "left-2")], rng))
        finally:
            self._stop()

    async def _work(self, daemon: Mortal, done: Cycle, rng: Random) -> None:
        senders = ["one", "two", "three"]
        acts = [(rng.choice(_ORDINARY), sender) for sender in senders]
        if done.point:
            acts += [(act_for(done.point), rng.choice(senders)) for _ in range(done.passes)]
            await _perform(daemon, self.ledger, acts, rng)
            return
        acts += [(rng.choice(_ORDINARY), sender) for sender in senders]
        async with asyncio.TaskGroup() as group:
            group.create_task(_kill_after(daemon, rng.uniform(0.0, 0.7)))
            group.create_task(_perform(daemon, self.ledger, acts, rng))

    # ---- and after ------------------------------------------------------------------------------

    async def _rise(self, done: Cycle) -> None:
        daemon = self._running()
        try:
            async with daemon.client() as talk:
                await self._settled(talk, done)
                await self._send_again(talk)
                await self._settled(talk, done)
                done.problems += check(self.home, self.ledger)
                done.problems += await _as_the_daemon_tells_it(talk, self.home)
        except MootError as error:
            done.problems.append(f"the new daemon: {error.type}: {error.message}")

    async def _settled(self, talk: Talking, done: Cycle) -> None:
        """What waited runs by itself, and nothing else is going on."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while active := await talk.active():
            # A question outlives the daemon, and waits for its answer.
            for ask in await talk.asks():
                with suppress(NotFound):
                    await talk.reply(ask.agent, "blue", ask.sender)
            if time.monotonic() > deadline:
                done.problems.append(f"still active after {SETTLE_SECONDS:.0f} s: {active}")
                return
            await asyncio.sleep(0.01)

    async def _send_again(self, talk: Talking) -> None:
        """A client that got no answer tries again under the same id; the message must not be there twice."""
        workload = Workload(talk, self.ledger, self.home, Random(0))
        for sent in self.ledger.sent:
            if sent.message_id and sent.unanswered:
                await workload.finish(sent, workload.start(sent), refusals=("conflict",))


async def _perform(daemon: Mortal, ledger: Ledger, acts: list[tuple[str, str]], rng: Random) -> None:
    try:
        async with daemon.client() as talk:
            await Workload(talk, ledger, daemon.home, rng).perform(acts)
    except MootError as error:
        if not lost(error):
            raise


async def _kill_after(daemon: Mortal, seconds: float) -> None:
    await asyncio.sleep(seconds)
    daemon.process.kill()


async def _as_the_daemon_tells_it(talk: Talking, home: Home) -> list[str]:
    """The daemon's own answers agree with the file, tell every interruption, and its own check is clean."""
    problems = [
        f"doctor: {finding.message}"
        for finding in (await talk.ask(check=pb.CheckMsg())).checked.findings
        if finding.level != "ok"
    ]
    for (agent, sender), stored in read(home.store).items():
        history = await talk.history(agent, sender, all=True)
        told = [(each.seq, each.role, each.content, each.agent) for each in history.messages]
        if told != [(line.seq, line.role, line.content, line.agent) for line in stored.lines]:
            problems.append(f"{agent} as {sender}: the daemon tells another history than the file")
        last = {run["user_seq"]: run["outcome"] for run in stored.runs if run["user_seq"]}
        problems += [
            f"{agent} as {sender}: turn {each.seq} is told as {each.outcome!r}"
            for each in history.messages
            if each.role == "user" and each.outcome != last.get(each.seq, "")
        ]
    return problems


def plan(cycles: int, seed: int, points: tuple[str, ...] = POINTS) -> list[tuple[str, int]]:
    """Two of three cycles visit the named points in turn, at ever later passes; the third is a random moment."""
    named = [(point, 1 + round_ % 4) for round_ in range(cycles // len(points) + 1) for point in points]
    planned = [("", 1) if number % 3 == 2 else named.pop(0) for number in range(cycles)]
    Random(seed).shuffle(planned)
    return planned
