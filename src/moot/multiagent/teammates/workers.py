"""Workers: finds the workers of a coordinator and gives one that has ended another message. Used by worker_tool.py.

A worker is a conversation. Each message for it is a run there, so that it knows everything it did before; the run is
queued, executed, waited for, stopped and reported like the first one (teammates.py).
"""

import asyncio
from collections.abc import Sequence
from weakref import WeakValueDictionary

from msgspec import Struct

from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.domain.ports.tool import RunContext
from moot.domain.run import Run, RunKind
from moot.domain.run_view import RunView
from moot.engine.history import Histories
from moot.multiagent.teammates.live_runs import LiveRuns
from moot.multiagent.teammates.parent import find_parent_key
from moot.multiagent.teammates.run_factory import build_continued_run
from moot.multiagent.teammates.teammates import Teammates


class Continuation(Struct, frozen=True, kw_only=True):
    """A worker that was given another message: the run before, the new one, and how many messages it remembers."""

    prior: Run
    run: RunView
    messages_count: int


class Workers:
    def __init__(
        self, *, teammates: Teammates, live: LiveRuns, store: Store, histories: Histories, clock: Clock
    ) -> None:
        self._teammates = teammates
        self._live = live
        self._store = store
        self._histories = histories
        self._clock = clock
        # Two calls of one step may name the same worker.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def find(self, context: RunContext, worker_id: str) -> Run | None:
        """Return the run that a worker was spawned as; None if no run of the caller's conversation has started it."""
        run = await self._store.get_run(worker_id)
        if run is None or run.kind is not RunKind.TEAMMATE or run.worker_id != run.id:
            return None
        return run if await find_parent_key(run, self._live, self._store) == context.key else None

    async def find_newest_id(self, run_id: str) -> str:
        """Return the id of the newest run of a worker; any other id as it is."""
        if self._live.find(run_id) is not None:
            return run_id
        run = await self._store.get_run(run_id)
        if run is None or run.kind is not RunKind.TEAMMATE or run.worker_id != run.id:
            return run_id
        newest = _find_newest(await self._store.list_runs(run.key))
        return newest.id if newest is not None else run_id

    async def go_on(self, context: RunContext, first: Run, message: str) -> Continuation | None:
        """Give a worker another message. Return None if it has not ended. A repeated call changes nothing."""
        async with self._locks.setdefault(first.id, asyncio.Lock()):
            runs = await self._store.list_runs(first.key)
            made = (context.run_id, context.call_id)
            before = [run for run in runs if (run.parent_id, run.spawn.parent_call) != made]
            is_live = any(run.end is None for run in runs) or any(
                live.run.key == first.key for live in self._live.values()
            )
            if is_live and len(before) == len(runs):
                return None
            history = await self._histories.load(first.key)
            count = history.last_seq if history is not None else 0
            run = await self._teammates.keep(await self._make_run(context, first, message))
            return Continuation(prior=_find_newest(before) or first, run=run, messages_count=count)

    async def _make_run(self, context: RunContext, first: Run, message: str) -> Run:
        chain = self._live.chain(context)
        await self._teammates.count_delegation(context, first.agent)
        history = await self._histories.load(context.key)
        return build_continued_run(
            context,
            first,
            message,
            run_id=self._teammates.new_id(),
            chain=chain,
            parent_seq=history.last_said_seq if history is not None else 0,
            now=self._clock.now(),
        )


def _find_newest(runs: Sequence[Run]) -> Run | None:
    return max(runs, key=lambda run: run.created_at, default=None)
