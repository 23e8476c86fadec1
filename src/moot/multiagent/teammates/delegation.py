"""How far delegation may go: how deep, to whom, how often in one turn, and not again to one that keeps failing.

Counted here, not asked of a model; what was counted before a restart is read back from the runs that were kept.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from moot.domain.errors import BadRequest, Conflict
from moot.domain.ports.tool import RunContext
from moot.domain.run import Outcome, Run
from moot.domain.run_view import TeammateStatus, ended_status

# A teammate that has failed so often in one turn is not given more of it.
MOST_FAILURES = 2
# So often one turn may have the very same task done.
_MOST_DONE = 2


def check_chain(agent: str, chain: tuple[str, ...], *, most: int) -> None:
    """Refuse a spawn too deep, of the spawning agent itself, or of one that is at work above it."""
    if agent == chain[-1]:
        raise BadRequest(f"{agent} cannot spawn itself", fix="Do it yourself, or spawn another agent.")
    if agent in chain:
        raise BadRequest(f"{agent} is already at work above this run ({' → '.join(chain)})", fix="Spawn another agent.")
    if len(chain) > most:
        raise BadRequest(
            f"teammates are spawned {most} deep at most, and this would be {len(chain)} deep",
            fix="Do it yourself, or hand back what is left to do.",
        )


def check_not_given(context: RunContext, agent: str, instruction: str, not_fetched: Sequence[Run]) -> None:
    """Refuse to give a task again in a later step while the result of the first time has not been fetched."""
    for run in not_fetched:
        is_same = run.agent == agent and run.instruction == instruction
        if is_same and run.spawn.parent_step != context.step and run.spawn.parent_call != context.call_id:
            raise Conflict(
                f"{agent} was given this very task before, as {run.id}",
                fix=f'Fetch its result: agent_wait(agent_id="{run.id}").',
            )


class Tally:
    """What one turn of a person's has delegated, over its whole tree."""

    def __init__(self) -> None:
        self.reading = asyncio.Lock()
        # The runs that go on and delegate.
        self.users: set[str] = set()
        self.is_read = False
        # Steps that spawned, and the calls they did it with.
        self._rounds: set[tuple[str, int]] = set()
        self._calls: set[tuple[str, str]] = set()
        # What was spawned and has ended, how often each agent failed, and how many failed in a row by now.
        self._ended: set[str] = set()
        self.failures: Counter[str] = Counter()
        self.streak = 0
        # Those that did what they were given, by the agent and the task.
        self._done: dict[tuple[str, str], list[Run]] = {}

    def list_completed(self, agent: str, instruction: str, *, parent: str, step: int) -> list[Run]:
        """Those that were given this very task in another step and completed it, one for each step, the first first.

        Who gives a task to several at once wants it done so often.
        """
        steps: dict[tuple[str, int], Run] = {}
        for run in self._done.get(_task(agent, instruction), ()):
            where = (run.parent_id, run.spawn.parent_step)
            if where != (parent, step):
                steps.setdefault(where, run)
        return list(steps.values())

    def count(self, context: RunContext, agent: str, *, most: int) -> None:
        """Count a spawn, or refuse it. A call that is made again after a restart was counted before."""
        if (context.run_id, context.call_id) in self._calls:
            return
        failures = self.failures[agent]
        if failures >= MOST_FAILURES:
            raise Conflict(
                f"{agent} has failed {failures} times in this turn and is not started again",
                fix="Choose another teammate, or answer directly with what you have and say what is missing.",
            )
        here = (context.run_id, context.step)
        if here not in self._rounds and len(self._rounds) >= most:
            raise BadRequest(
                f"this turn has delegated {most} times, which is all it may", fix="Answer with what you have."
            )
        self._rounds.add(here)

    def read_back(self, runs: Sequence[Run]) -> None:
        """Take in what was kept before this was begun."""
        for run in runs:
            self._rounds.add((run.parent_id, run.spawn.parent_step))
            self._calls.add((run.parent_id, run.spawn.parent_call))
        for run in sorted(runs, key=lambda run: run.ended_at):
            self.record_end(run)
        self.is_read = True

    def record_end(self, run: Run) -> None:
        if run.end is None or run.id in self._ended:
            return
        self._ended.add(run.id)
        if ended_status(run.end.outcome) is TeammateStatus.FAILED:
            self.failures[run.agent] += 1
            self.streak += 1
        else:
            self.streak = 0
        if run.end.outcome is Outcome.COMPLETED:
            self._done.setdefault(_task(run.agent, run.instruction), []).append(run)


def _task(agent: str, instruction: str) -> tuple[str, str]:
    return agent, " ".join(instruction.split())


def check_not_done(agent: str, done: Sequence[Run]) -> None:
    """Refuse a task that was done often enough in this turn."""
    if len(done) >= _MOST_DONE:
        raise Conflict(
            f"{agent} has completed this very task {len(done)} times in this turn, as "
            f"{', '.join(run.id for run in done)}, and is not given it again",
            fix="Answer with what is there; agent_wait tells the result once more.",
        )


class RunsOfRoot(Protocol):
    async def runs_of_root(self, root_id: str) -> list[Run]: ...


class Delegations:
    """The tallies of the turns that go on. One that is nobody's any more can be made again from what was kept."""

    def __init__(self, store: RunsOfRoot) -> None:
        self._store = store
        self._tallies: dict[str, Tally] = {}

    async def of(self, root_id: str, *, user: str) -> Tally:
        """The tally of a turn for a run of it that goes on: it is there for as long as one of them does.

        Teammates outlive the turn they came of, and so do turns on what they report.
        """
        tally = self._tallies.setdefault(root_id, Tally())
        tally.users.add(user)
        if not tally.is_read:
            async with tally.reading:
                if not tally.is_read:
                    tally.read_back(await self._store.runs_of_root(root_id))
        return tally

    def record_end(self, run: Run) -> None:
        if run.root_id in self._tallies:
            self._tallies[run.root_id].record_end(run)

    def streak(self, root_id: str) -> int:
        return self._tallies[root_id].streak if root_id in self._tallies else 0

    def release(self, root_id: str, user: str) -> None:
        """A run of the turn is over."""
        tally = self._tallies.get(root_id)
        if tally is not None:
            tally.users.discard(user)
            if not tally.users:
                del self._tallies[root_id]
