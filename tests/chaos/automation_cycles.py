"""One cycle with schedules, background tasks and workflows: the daemon is killed, and its successor is checked."""

import asyncio
import shutil
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired

from moot.domain.errors import MootError
from moot.failpoint import CRON_POINTS, WORKFLOW_POINTS
from moot.wire import moot_pb2 as pb
from tests.chaos.automation import ACTS, People, Told, act_for, new_home
from tests.chaos.automation_checker import check, left
from tests.chaos.cycles import Cycle
from tests.chaos.daemon import Mortal
from tests.chaos.ledger import lost
from tests.daemon_process import PATIENCE

# Points of runs that schedules, tasks and workflows pass too.
_RUN_POINTS = (
    "commit.spawn", "committed.spawn", "commit.begin", "committed.begin", "commit.end", "committed.end",
    "teammate.begun", "teammate.ended", "teammate.delivered", "tool.recorded", "tool.before", "tool.after",
    "tool.result", "end.recorded", "teammates.recovered", "daemon.recovered",
)  # fmt: skip
VISITED = (*CRON_POINTS, *WORKFLOW_POINTS, *_RUN_POINTS)
_AT_START = ("teammates.", "daemon.")
TERM = "SIGTERM"


class AutomationArena:
    """A home, its daemon and what people were told, through many cycles."""

    def __init__(self, path: Path, seed: int, *, generation: int = 15, patience: float = 4.0) -> None:
        self._path = path
        self._seed = seed
        self._generation = generation
        # Seconds in which a daemon must come by its point; at late passes many do not.
        self._patience = patience
        self._daemon: Mortal | None = None
        self.kills = 0
        self.totals = {"jobs": 0, "tasks": 0, "workflows": 0}
        self._begin(0)

    def __enter__(self) -> "AutomationArena":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._count()

    def cycle(self, number: int, point: str = "", passes: int = 1) -> Cycle:
        rng = Random(f"{self._seed}/{number}")
        if self._cycles >= self._generation:
            self._stop()
            self._count()
            shutil.rmtree(self.home.path, ignore_errors=True)
            self._begin(number)
        self._cycles += 1
        began = time.monotonic()
        done = Cycle(number=number, point=point, passes=passes)
        asyncio.run(self._die(done, rng))
        asyncio.run(self._rise(done, rng))
        done.seconds = time.monotonic() - began
        if done.problems:
            self._stop()
            self._begin(number + 1_000_000)
        return done

    def _begin(self, number: int) -> None:
        self.home = new_home(self._path / f"home-{number}")
        self.told = Told()
        self._cycles = 0

    def _count(self) -> None:
        for what in self.totals:
            self.totals[what] += len(getattr(self.told, what))

    def _running(self) -> Mortal:
        if self._daemon is None:
            self._daemon = Mortal.launch(self.home)
        assert self._daemon is not None
        return self._daemon

    def _stop(self) -> None:
        if self._daemon is not None:
            self._daemon.kill_9()
            self._daemon = None

    async def _die(self, done: Cycle, rng: Random) -> None:
        at_start = done.point.startswith(_AT_START)
        daemon = self._running()
        if done.point and done.point != TERM and not at_start:
            daemon.arm(f"{done.point}:{done.passes}")
        acts = [*rng.sample(sorted(ACTS), 3), *([act_for(done.point)] * done.passes if done.point else [])]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_perform(daemon, self.told, acts, rng))
                if at_start or not done.point or done.point == TERM:
                    await asyncio.sleep(rng.uniform(0.05, 1.0))
                if done.point == TERM:
                    daemon.terminate()
                if done.point and not at_start:
                    done.reached = await _killed(daemon, PATIENCE if done.point == TERM else self._patience)
                daemon.process.kill()
        finally:
            self._stop()
        self.kills += 1
        if at_start:
            self._daemon = Mortal.launch(self.home, fail_at=f"{done.point}:1")
            done.reached = self._daemon is None
            self.kills += 1
            self._stop()

    async def _rise(self, done: Cycle, rng: Random) -> None:
        daemon = self._running()
        try:
            async with daemon.client() as talk:
                async with asyncio.TaskGroup() as group:
                    deciding = group.create_task(People(talk, self.told, rng).approve_all())
                    is_settled = await self._settle(done)
                    deciding.cancel()
                if is_settled:
                    done.problems += check(self.home, self.told)
                found = (await talk.ask(check=pb.CheckMsg())).checked.findings
                done.problems += [f"doctor: {each.message}" for each in found if each.level != "ok"]
        except MootError as error:
            done.problems.append(f"the new daemon: {error.type}: {error.message}")

    async def _settle(self, done: Cycle) -> bool:
        """Everything comes to its end by itself."""
        deadline, quiet = time.monotonic() + PATIENCE, 0
        while quiet < 3:
            remaining = await asyncio.to_thread(left, self.home)
            quiet = 0 if remaining else quiet + 1
            if time.monotonic() > deadline:
                done.problems.append(f"not at rest after {PATIENCE:.0f} s: {remaining[:10]}")
                return False
            await asyncio.sleep(0.03)
        return True


async def _killed(daemon: Mortal, seconds: float) -> bool:
    with suppress(TimeoutExpired):
        await asyncio.to_thread(daemon.process.wait, seconds)
    return daemon.process.returncode in (-9, 0)


async def _perform(daemon: Mortal, told: Told, acts: list[str], rng: Random) -> None:
    try:
        async with daemon.client() as talk:
            await People(talk, told, rng).perform(acts)
    except MootError as error:
        if not lost(error):
            raise


def plan(cycles: int, seed: int, points: tuple[str, ...] = VISITED) -> list[tuple[str, int]]:
    """Half of the cycles visit the named points in turn, at ever later passes; others are random moments and stops."""
    named = [(point, 1 + round_ % 4) for round_ in range(cycles // len(points) + 1) for point in points]
    between = (("", 1), (TERM, 1))
    planned = [named.pop(0) if number % 2 else between[number // 2 % 2] for number in range(cycles)]
    Random(seed).shuffle(planned)
    return planned
