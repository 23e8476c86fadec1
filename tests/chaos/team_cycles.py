"""One cycle with a team: its daemon is killed or told to stop, and what the next one makes of it is checked."""

import asyncio
import shutil
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired

from moot.domain.errors import MootError
from moot.failpoint import POINTS, TEAM_POINTS
from moot.wire import moot_pb2 as pb
from tests.chaos.cycles import Cycle
from tests.chaos.daemon import Mortal
from tests.chaos.ledger import lost
from tests.chaos.team import ACTS, People, Told, act_for, new_home
from tests.chaos.team_checker import Picture, asked_again, check, continued, fulfilled, owed, take
from tests.daemon_process import PATIENCE
from tests.talking import Talking

# A stop in the ordinary way, in the middle of everything.
TERM = "SIGTERM"
_AT_START = ("daemon.", "teammates.", "teammate.interrupted")
# Nothing a team does comes by these.
_ELSEWHERE = ("migration.", "checkpoint.", "backup.", "compaction.", "queued.", "withdrawn.")
_NOT_OURS = ("rerun", "archive", "title", "cwd", "delete", "import", "enqueue")
VISITED = tuple(
    point for point in POINTS if not point.startswith(_ELSEWHERE) and point.partition(".")[2] not in _NOT_OURS
)


class TeamArena:
    """A home with a team, its daemon and what people were told, through many cycles."""

    def __init__(self, path: Path, seed: int, *, generation: int = 15, patience: float = 4.0) -> None:
        self._path = path
        self._seed = seed
        self._generation = generation
        # Seconds in which a daemon must come by its point; at late passes many do not.
        self._patience = patience
        self._daemon: Mortal | None = None
        self.kills = 0
        self.runs = 0
        self.outcomes: dict[str, int] = {}
        self._begin(0)

    def __enter__(self) -> "TeamArena":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

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
            self._count()
            self._begin(number + 1_000_000)
        return done

    def finish(self) -> None:
        self._stop()
        self._count()

    def _begin(self, number: int) -> None:
        self.home = new_home(self._path / f"home-{number}")
        self.told = Told()
        self._cycles = 0

    def _count(self) -> None:
        if self.home.store.exists():
            for mate in take(self.home).mates.values():
                self.runs += 1
                self.outcomes[mate.outcome] = self.outcomes.get(mate.outcome, 0) + 1

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
        at_start = done.point.startswith(_AT_START)
        daemon = self._running()
        if done.point and done.point != TERM and not at_start:
            daemon.arm(fail_at)
        try:
            await self._work(daemon, done, rng, at_random=at_start or not done.point)
        finally:
            self._stop()
        self.kills += 1
        if at_start:
            self._dead = take(self.home)
            self._daemon = Mortal.launch(self.home, fail_at=fail_at)
            done.reached = self._daemon is None
            self.kills += 1
            self._stop()
            done.problems += fulfilled_so_far(self._dead, take(self.home))
        self._dead = take(self.home)

    async def _work(self, daemon: Mortal, done: Cycle, rng: Random, *, at_random: bool) -> None:
        acts = rng.sample(sorted(ACTS), 4)
        if done.point and done.point != TERM:
            acts += [act_for(done.point)] * done.passes
        draining = done.point.startswith("drain.") or done.point == TERM
        named = not at_random and not draining
        async with asyncio.TaskGroup() as group:
            group.create_task(_perform(daemon, self.told, acts, rng, says_yes=named))
            if at_random:
                await asyncio.sleep(rng.uniform(0.15, 0.45) if done.point else rng.uniform(0.0, 0.9))
            elif draining:
                await asyncio.sleep(rng.uniform(0.05, 0.3))
                daemon.terminate()
            if not at_random:
                done.reached = await _killed(daemon, PATIENCE if draining else self._patience)
            daemon.process.kill()

    # ---- and after ------------------------------------------------------------------------------

    async def _rise(self, done: Cycle, rng: Random) -> None:
        daemon = self._running()
        try:
            async with daemon.client() as talk:
                asks = {ask.ask_id: ask.attempt for ask in await talk.asks()}
                done.problems += continued(self._dead, take(self.home), asks)
                if await self._settled(talk, done, rng):
                    done.problems += check(self.home, self.told)
                    done.problems += fulfilled(self._dead, take(self.home))
                found = (await talk.ask(check=pb.CheckMsg())).checked.findings
                done.problems += [f"doctor: {each.message}" for each in found if each.level != "ok"]
        except MootError as error:
            done.problems.append(f"the new daemon: {error.type}: {error.message}")

    async def _settled(self, talk: Talking, done: Cycle, rng: Random) -> bool:
        """Everything that is asked is decided, and then everything comes to its end by itself."""
        people = People(talk, self.told, rng)
        deadline = time.monotonic() + PATIENCE
        quiet, seen = 0, set[str]()
        while quiet < 3:
            for ask in await talk.asks():
                seen.add(ask.ask_id)
                await people.decide(ask)
            busy = [*await talk.active(), *(await talk.ask(list_runs=pb.ListRunsMsg())).run_list.runs]
            # What is owed is told by a run of its own, which may be about to begin.
            quiet = 0 if busy or owed(take(self.home)) else quiet + 1
            if time.monotonic() > deadline:
                done.problems.append(f"not at rest after {PATIENCE:.0f} s: {busy}, owed {owed(take(self.home))}")
                return False
            await asyncio.sleep(0.02)
        done.problems += asked_again(self._dead, seen)
        return True


def fulfilled_so_far(dead: Picture, again: Picture) -> list[str]:
    """A start that was cut short has changed nothing that had ended, and answered nothing that was asked."""
    problems = [
        f"{mate.id} had ended {mate.outcome} and is {again.mates[mate.id].outcome}"
        for mate in dead.mates.values()
        if mate.status == "ended" and mate.outcome != again.mates[mate.id].outcome
    ]
    pending = {ask_id: ask["attempt"] for ask_id, ask in again.asks.items() if ask["state"] == "pending"}
    ended = {mate.id for mate in again.mates.values() if mate.status == "ended"}
    for ask_id, ask in dead.asks.items():
        if ask["state"] == "pending" and ask["run"] in dead.mates and ask["run"] not in ended:
            run = again.runs.get(ask["run"])
            if pending.get(ask_id) != ask["attempt"] and not (run is not None and run["outcome"]):
                problems.append(f"{ask_id} was pending before a start that was cut short, and is {again.asks[ask_id]}")
    return problems


async def _killed(daemon: Mortal, seconds: float) -> bool:
    """Whether the daemon died by SIGKILL in time."""
    with suppress(TimeoutExpired):
        await asyncio.to_thread(daemon.process.wait, seconds)
    return daemon.process.returncode == -9


async def _perform(daemon: Mortal, told: Told, acts: list[str], rng: Random, *, says_yes: bool = False) -> None:
    try:
        async with daemon.client() as talk:
            await People(talk, told, rng, says_yes=says_yes).perform(acts)
    except MootError as error:
        if not lost(error):
            raise


def plan(cycles: int, seed: int, points: tuple[str, ...] = VISITED) -> list[tuple[str, int]]:
    """Half of the cycles visit the named points in turn, at ever later passes; others are random moments and stops."""
    ours = [*(point for point in points if point in TEAM_POINTS), *points]
    named = [(point, 1 + round_ % 4) for round_ in range(cycles // len(ours) + 1) for point in ours]
    between = (("", 1), (TERM, 1))
    planned = [named.pop(0) if number % 2 else between[number // 2 % 2] for number in range(cycles)]
    Random(seed).shuffle(planned)
    return planned
