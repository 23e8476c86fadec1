"""The runs at work, and how they stand to each other: who is under whom, who is above, and when they are over."""

import asyncio
from collections.abc import Iterator, Sequence

from moot.domain.agent_run import AgentRun
from moot.domain.ports import RunContext
from moot.engine.supervisor import Supervisor
from moot.multiagent.teammates.spawn_request import Live


class Muster(dict[str, Live]):
    """By id, while they have not ended."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__()
        self._supervisor = supervisor

    def enlist(self, run: AgentRun) -> Live:
        live = self[run.id] = Live(run)
        return live

    def runs(self) -> list[AgentRun]:
        return [live.run for live in self.values()]

    def under(self, run_id: str) -> list[AgentRun]:
        """Those that a run has spawned and that have not ended."""
        return [live.run for live in self.values() if live.run.parent == run_id]

    def subtree(self, run_id: str) -> Iterator[Live]:
        live = self.get(run_id)
        if live is not None:
            yield live
        for child in self.under(run_id):
            yield from self.subtree(child.id)

    def above(self, context: RunContext) -> set[str]:
        """A run and those it was spawned by."""
        above, live = {context.run_id}, self.get(context.run_id)
        while live is not None and live.run.parent:
            above.add(live.run.parent)
            live = self.get(live.run.parent)
        return above

    def chain(self, context: RunContext) -> tuple[str, ...]:
        """The agents from the one a person spoke to down to the one that asks."""
        parent = self.get(context.run_id)
        return (*parent.run.chain, parent.run.agent) if parent is not None else (context.speaker,)

    async def over(self, run_ids: Sequence[str], *, seconds: float | None, every: bool) -> bool:
        """Wait until all of the runs, or one of them, have ended. False when the time was up first."""
        lives = [self[run_id] for run_id in run_ids if run_id in self]
        if not lives or (not every and len(lives) < len(run_ids)):
            return True
        waits = [self._supervisor.start(f"wait for {live.run.id}", live.over.wait()) for live in lives]
        mode = asyncio.ALL_COMPLETED if every else asyncio.FIRST_COMPLETED
        try:
            done, pending = await asyncio.wait(waits, timeout=seconds, return_when=mode)
        finally:
            for each in waits:
                each.cancel()
        return not pending if every else bool(done)
