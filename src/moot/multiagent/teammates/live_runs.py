"""Registry of the spawned and background runs that have not ended: tree queries and waiting. Used by teammates."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec import Struct, field

from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import RunContext
from moot.domain.run import Run
from moot.domain.run_view import Block, RunView
from moot.engine.supervisor import Supervisor


class LiveRun(Struct, eq=False):
    """A run that has not ended, and what holds it up."""

    run: Run
    block: Block = Block()
    # Whether it began under an earlier daemon.
    is_resumed: bool = False
    # Stopped before it was in its lane.
    is_halted: bool = False
    # Its end was published with its turn.
    is_end_published: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)
    # The runs it waits for.
    waiting_on: tuple[str, ...] = ()

    @property
    def view(self) -> RunView:
        return RunView(self.run, self.block, self.waiting_on)


class LiveRuns(dict[str, LiveRun]):
    """By id, while they have not ended."""

    def __init__(self, supervisor: Supervisor, clock: Clock) -> None:
        super().__init__()
        self._supervisor = supervisor
        self._clock = clock

    def add(self, run: Run) -> LiveRun:
        live = self[run.id] = LiveRun(run)
        return live

    def views(self) -> list[RunView]:
        return [live.view for live in self.values()]

    def children(self, run_id: str) -> list[RunView]:
        """Those that a run has spawned and that have not ended."""
        return [live.view for live in self.values() if live.run.parent_id == run_id]

    def subtree(self, run_id: str) -> Iterator[LiveRun]:
        live = self.get(run_id)
        if live is not None:
            yield live
        for child in self.children(run_id):
            yield from self.subtree(child.id)

    def ancestors(self, context: RunContext) -> set[str]:
        """A run and those it was spawned by."""
        above, live = {context.run_id}, self.get(context.run_id)
        while live is not None and live.run.parent_id:
            above.add(live.run.parent_id)
            live = self.get(live.run.parent_id)
        return above

    def chain(self, context: RunContext) -> tuple[str, ...]:
        """The agents from the one a person spoke to down to the one that asks."""
        parent = self.get(context.run_id)
        return (*parent.run.spawn.chain, parent.run.agent) if parent is not None else (context.speaker,)

    async def wait(self, run_ids: Sequence[str], *, seconds: float | None, every: bool) -> bool:
        """Wait until all of the runs, or one of them, have ended. False when the time was up first."""
        lives = [self[run_id] for run_id in run_ids if run_id in self]
        if not lives or (not every and len(lives) < len(run_ids)):
            return True
        waits = [self._supervisor.start(f"wait for {live.run.id}", live.over.wait()) for live in lives]
        mode = asyncio.ALL_COMPLETED if every else asyncio.FIRST_COMPLETED
        try:
            with suppress(TimeoutError):
                async with self._clock.timeout(seconds):
                    await asyncio.wait(waits, return_when=mode)
            ended = [each.done() for each in waits]
        finally:
            for each in waits:
                each.cancel()
        return all(ended) if every else any(ended)
