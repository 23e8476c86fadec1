"""LiveRuns: the spawned and background runs that have not ended, and ended ones whose results a parent may ask for.

Passive: tree queries and waiting, for teammates, grants, briefs and the engine (domain/ports/spawned_runs.py).
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace

from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import RunContext
from moot.domain.run import Run
from moot.domain.run_view import Block, RunView
from moot.engine.supervisor import Supervisor


class LiveRun(Struct, eq=False):
    """A run that has not ended, and what blocks it."""

    run: Run
    block: Block = Block()
    # Whether an earlier daemon started it.
    is_resumed: bool = False
    # Whether it was given to its lane.
    is_submitted: bool = False
    # Whether it was stopped before it entered its lane.
    is_halted: bool = False
    # Whether its turn has published RunEnded.
    is_end_published: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)
    # The runs it waits for.
    waiting_on: tuple[str, ...] = ()

    @property
    def view(self) -> RunView:
        return RunView(self.run, self.block, self.waiting_on)


class LiveRuns(dict[str, LiveRun]):
    """The runs that have not ended, by id, and the ended runs that are kept for a live run."""

    def __init__(self, supervisor: Supervisor, clock: Clock) -> None:
        super().__init__()
        self._supervisor = supervisor
        self._clock = clock
        # The runs that have not ended, by the run that has spawned them.
        self._children: dict[str, dict[str, LiveRun]] = defaultdict(dict)
        # Ended runs, by the live run that they are kept for; and the ids of those it has been shown.
        self._ended: dict[str, dict[str, Run]] = defaultdict(dict)
        self._shown: set[str] = set()

    def add(self, run: Run) -> LiveRun:
        live = self[run.id] = LiveRun(run)
        if run.parent_id:
            self._children[run.parent_id][run.id] = live
        return live

    def remove(self, run: Run) -> None:
        """Remove a run that has ended."""
        self.pop(run.id, None)
        siblings = self._children.get(run.parent_id)
        if siblings is not None:
            siblings.pop(run.id, None)
            if not siblings:
                del self._children[run.parent_id]

    def find(self, run_id: str) -> RunView | None:
        """Return the run; None if it has ended or does not exist."""
        live = self.get(run_id)
        return live.view if live is not None else None

    def has_read_nothing(self, run_id: str) -> bool:
        """Whether a run has not begun, in a conversation that was made for it."""
        live = self.get(run_id)
        if live is None or live.is_submitted or live.is_resumed:
            return False
        return live.run.has_own_conversation

    def views(self) -> list[RunView]:
        return [live.view for live in self.values()]

    def grant(self, run_id: str, tool: str) -> None:
        """Add a tool to those a run may use. After a restart, grants are restored from the asks of the run."""
        live = self.get(run_id)
        if live is not None and tool not in live.run.granted_tools:
            live.run = replace(live.run, granted_tools=(*live.run.granted_tools, tool))

    def children(self, run_id: str) -> list[RunView]:
        """Return the runs that a run has spawned and that have not ended."""
        return [live.view for live in self._list_children(run_id)]

    def _list_children(self, run_id: str) -> list[LiveRun]:
        children = self._children.get(run_id)
        return [*children.values()] if children else []

    def subtree(self, run_id: str) -> Iterator[LiveRun]:
        live = self.get(run_id)
        if live is not None:
            yield live
        for child in self.children(run_id):
            yield from self.subtree(child.id)

    def ancestors(self, context: RunContext) -> set[str]:
        """Return the ids of a run and of its ancestors."""
        above, live = {context.run_id}, self.get(context.run_id)
        while live is not None and live.run.parent_id:
            above.add(live.run.parent_id)
            live = self.get(live.run.parent_id)
        return above

    def chain(self, context: RunContext) -> tuple[str, ...]:
        """Return the agents from the root of the tree down to the agent of this run."""
        parent = self.get(context.run_id)
        return (*parent.run.spawn.chain, parent.run.agent) if parent is not None else (context.speaker,)

    # ---- results ------------------------------------------------------------------------------

    def keep_result(self, run: Run, holder: str) -> None:
        """Keep an ended run for the live run `holder`, which shows its result or may still ask for it."""
        self._ended[holder][run.id] = run

    def drop_results(self, holder: str) -> list[Run]:
        """Remove and return the ended runs that were kept for a run, shown or not."""
        left = self._ended.pop(holder, {})
        self._shown -= left.keys()
        return [*left.values()]

    def mark_shown(self, run_ids: Sequence[str]) -> None:
        """Mark results as shown: they are in a message that is being stored."""
        # Other items, such as mail, are delivered as well.
        self._shown.update(run_id for run_id in run_ids if self.find_ended(run_id) is not None)

    def find_ended(self, run_id: str) -> Run | None:
        """Return an ended run that is kept for a live run; None if it is not kept."""
        return next((runs[run_id] for runs in self._ended.values() if run_id in runs), None)

    def has_spawned(self, run_id: str) -> bool:
        """Return whether a live run has spawned others."""
        return bool(self._children.get(run_id) or self.list_ended_children(run_id))

    def not_fetched(self, run_id: str) -> list[Run]:
        """Return the runs that a run has spawned and whose results it has not been shown."""
        live = [live.run for live in self._list_children(run_id)]
        return live + [run for run in self.list_ended_children(run_id) if run.id not in self._shown]

    def list_ended_children(self, parent_id: str) -> list[Run]:
        """Return the runs that a live run has spawned and that have ended since it began, or since a restart."""
        ended = self._ended.get(parent_id)
        return [run for run in ended.values() if run.parent_id == parent_id] if ended else []

    async def wait(self, run_ids: Sequence[str], *, seconds: float | None, every: bool) -> bool:
        """Wait until all of the runs (`every`), or one of them, have ended. Return False on timeout."""
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
