"""TeammateTexts: joins what a run is told about teammates with their taint. Used by control and delivery.

It is the only way by which text about a teammate reaches another run. It works with engine/history.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from msgspec import Struct

from moot.domain.errors import Conflict
from moot.domain.ports.tool import RunContext
from moot.domain.run import Run
from moot.domain.run_view import RunView
from moot.engine.history import Histories
from moot.multiagent.teammates.live_runs import LiveRuns

# The taint of a run whose conversation was deleted, so that nobody knows any more what it has read.
UNKNOWN = frozenset({"teammate"})


class StoredRuns(Protocol):
    async def get_run(self, run_id: str) -> Run | None: ...
    async def list_runs_of_root(self, root_id: str) -> list[Run]: ...


class TeammateText(Struct, frozen=True, kw_only=True):
    """Text about teammates, and the sources of untrusted text in it."""

    content: str
    taint: frozenset[str]


class TeammateTexts:
    def __init__(self, histories: Histories, store: StoredRuns, live: LiveRuns) -> None:
        self._histories = histories
        self._store = store
        self._live = live

    async def join(self, seen: Sequence[RunView], render: Callable[[Sequence[RunView]], str]) -> TeammateText:
        """Return the rendered text with the taint of every run in it: queued, running, blocked or ended.

        The taint is read after the views were taken, so it covers everything that they can contain.
        """
        taint: frozenset[str] = frozenset()
        for each in seen:
            taint |= await self._taint_of(each.run)
            # A run that waits is in this state because of what those it waits for do.
            for below in filter(None, map(self._live.find, each.waiting_on)):
                taint |= await self._taint_of(below.run)
        return TeammateText(content=render(seen), taint=taint)

    async def find_tree_taint(self, context: RunContext, *run_ids: str) -> frozenset[str]:
        """Return the taint of all teammates of the caller's turn, and of the given runs."""
        runs = await self._store.list_runs_of_root(context.root_id or context.run_id)
        others = [await self._store.get_run(run_id) for run_id in run_ids]
        taint: frozenset[str] = frozenset()
        for run in (*runs, *filter(None, others)):
            if run.parent_id:
                taint |= await self._taint_of(run)
        return taint

    @asynccontextmanager
    async def taint_refusals(self, context: RunContext, *run_ids: str) -> AsyncIterator[None]:
        """Give a refusal the taint of the teammates, because it tells their state or how often they failed."""
        try:
            yield
        except Conflict as error:
            error.taint |= await self.find_tree_taint(context, *run_ids)
            raise

    async def _taint_of(self, run: Run) -> frozenset[str]:
        """Return the taint of the run's instruction and of everything it has read so far."""
        if self._live.has_read_nothing(run.id):
            return run.request.taint
        history = await self._histories.load(run.key)
        if history is not None:
            return history.taint
        return run.request.taint | UNKNOWN if run.started_at else run.request.taint
