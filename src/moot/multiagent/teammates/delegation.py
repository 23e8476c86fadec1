"""Limits of delegation in one turn: depth, agents, number of rounds, repeated tasks and repeated failures.

Enforced by counting, not by instructions to a model. After a restart the counts are rebuilt from the stored runs.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from moot.domain.errors import BadRequest, Conflict
from moot.domain.ports.tool import RunContext
from moot.domain.run import Outcome, Run
from moot.domain.run_view import TeammateStatus, status_of_outcome

# An agent that has failed this often in one turn is not spawned again in it.
MOST_FAILURES = 2
# How often the same task may be completed in one turn.
_MOST_DONE = 2


def check_chain(agent: str, chain: tuple[str, ...], *, most: int) -> None:
    """Raise if a spawn is too deep, or if its agent is the spawning agent or one of its ancestors."""
    if agent == chain[-1]:
        raise BadRequest(f"{agent} cannot spawn itself", fix="Do it yourself, or spawn another agent.")
    if agent in chain:
        raise BadRequest(f"{agent} is already at work above this run ({' → '.join(chain)})", fix="Spawn another agent.")
    if len(chain) > most:
        raise BadRequest(
            f"teammates are spawned {most} deep at most, and this would be {len(chain)} deep",
            fix="Do it yourself, or return what is left to do.",
        )


def check_not_given(context: RunContext, agent: str, instruction: str, not_fetched: Sequence[Run]) -> None:
    """Raise if the same task was given in an earlier step and its result has not been fetched."""
    for run in not_fetched:
        spawn = run.spawn
        # First what is least to compare: usually all are of this step, and there may be a hundred.
        if spawn.parent_step == context.step or spawn.parent_call == context.call_id:
            continue
        if run.agent == agent and run.instruction == instruction:
            raise Conflict(
                f"{agent} was given the same task before, as {run.id}",
                fix=f'Fetch its result: agent_wait(agent_id="{run.id}").',
            )


class Tally:
    """Counts of what one turn has delegated, over its whole tree of runs."""

    def __init__(self) -> None:
        self.reading = asyncio.Lock()
        # The live runs that delegate.
        self.users: set[str] = set()
        self.is_read = False
        # The steps that have spawned runs, and the spawning calls.
        self._rounds: set[tuple[str, int]] = set()
        self._calls: set[tuple[str, str]] = set()
        # The ended runs, the failures of each agent, and the current number of consecutive failures.
        self._ended: set[str] = set()
        self.failures: Counter[str] = Counter()
        self.streak = 0
        # Completed runs by agent and task.
        self._done: dict[tuple[str, str], list[Run]] = {}

    def list_completed(self, agent: str, instruction: str, *, parent: str, step: int) -> list[Run]:
        """Return the runs that completed the same task, one per spawning step, oldest first, except for this step.

        A step that gives one task to several teammates does so deliberately, so it counts once.
        """
        steps: dict[tuple[str, int], Run] = {}
        for run in self._done.get(_task(agent, instruction), ()):
            where = (run.parent_id, run.spawn.parent_step)
            if where != (parent, step):
                steps.setdefault(where, run)
        return list(steps.values())

    def count(self, context: RunContext, agent: str, *, most: int) -> None:
        """Count a spawn; raise if it exceeds a limit. A call that is repeated after a restart is not counted again."""
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
                f"this turn has delegated {most} times, which is the limit", fix="Answer with what you have."
            )
        self._rounds.add(here)

    def read_back(self, runs: Sequence[Run]) -> None:
        """Rebuild the counts from stored runs."""
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
        if status_of_outcome(run.end.outcome) is TeammateStatus.FAILED:
            self.failures[run.agent] += 1
            self.streak += 1
        else:
            self.streak = 0
        if run.end.outcome is Outcome.COMPLETED:
            self._done.setdefault(_task(run.agent, run.instruction), []).append(run)


def _task(agent: str, instruction: str) -> tuple[str, str]:
    return agent, " ".join(instruction.split())


def check_not_done(agent: str, done: Sequence[Run]) -> None:
    """Raise if a task was completed too often in this turn."""
    if len(done) >= _MOST_DONE:
        raise Conflict(
            f"{agent} has completed the same task {len(done)} times in this turn, as "
            f"{', '.join(run.id for run in done)}, and is not given it again",
            fix="Answer with what is there; agent_wait returns the result again.",
        )


class RunsOfRoot(Protocol):
    async def list_runs_of_root(self, root_id: str) -> list[Run]: ...


class Delegations:
    """The tallies of active turns. A tally without users is dropped; it can be rebuilt from the stored runs."""

    def __init__(self, store: RunsOfRoot) -> None:
        self._store = store
        self._tallies: dict[str, Tally] = {}

    async def of(self, root_id: str, *, user: str, is_new: bool = False) -> Tally:
        """Return the tally of a tree of runs and register `user`; it is kept until all its users are released.

        Teammates, and the turns that report their results, can outlive the turn that spawned them. A tree that
        `is_new` has no stored runs to count: its root began in this daemon and is about to spawn its first.
        """
        tally = self._tallies.get(root_id)
        if tally is None:
            tally = self._tallies[root_id] = Tally()
            tally.is_read = is_new
        tally.users.add(user)
        if not tally.is_read:
            async with tally.reading:
                if not tally.is_read:
                    tally.read_back(await self._store.list_runs_of_root(root_id))
        return tally

    def record_end(self, run: Run) -> None:
        if run.root_id in self._tallies:
            self._tallies[run.root_id].record_end(run)

    def streak(self, root_id: str) -> int:
        return self._tallies[root_id].streak if root_id in self._tallies else 0

    def release(self, root_id: str, user: str) -> None:
        """Remove an ended run from the users of a tally; drop the tally after the last one."""
        tally = self._tallies.get(root_id)
        if tally is not None:
            tally.users.discard(user)
            if not tally.users:
                del self._tallies[root_id]
