"""Transactions of an in-memory store: queued, committed in a later step of the event loop, then confirmed.

The steps are separate, so that code which relies on an order that a store on disk does not guarantee fails here too.
Used by store.py and everything else that storage.py builds.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from moot.domain.errors import StoreError
from moot.domain.ports.clock import Clock, Timer
from moot.domain.ports.store import CommitCounts
from moot.store.memory import nodes
from moot.store.memory.database import Database

T = TypeVar("T")
Work = Callable[[Database], T]
# Duration of a step, in seconds of the clock.
Latency = Callable[[], float]

# How long a lingering transaction may wait for another one to share its commit.
_LINGER_SECONDS = 0.002


class _Job(Struct, eq=False):
    work: Work[Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


def no_latency() -> float:
    return 0.0


class Transactions:
    """Transactions of one handle on a database. Opening another one on the same database fences the first."""

    def __init__(self, database: Database, clock: Clock, latency: Latency = no_latency) -> None:
        self.database = database
        self._clock = clock
        self._latency = latency
        self._loop = asyncio.get_running_loop()
        self._handed_over: list[_Job] = []
        self._reads: list[_Job] = []
        self._linger_timer: Timer | None = None
        self._is_commit_due = False
        self._is_closed = False
        self.commits = CommitCounts()
        # The number under which it is registered.
        self.node = database.transact(nodes.register)

    async def write(self, work: Work[T]) -> T:
        return await self.post(work)

    def post(self, work: Work[T]) -> "asyncio.Future[T]":
        """Queue a transaction at once, ahead of all later ones. The future need not be awaited."""
        future = self._hand_over(work)
        seconds = self._latency()
        if seconds > 0:
            self._clock.call_later(seconds, self._commit)
        elif not self._is_commit_due:
            # The first of them commits all.
            self._is_commit_due = True
            self._loop.call_soon(self._commit)
        return future

    def linger(self, work: Work[T]) -> "asyncio.Future[T]":
        """Queue a transaction that nobody awaits: it shares the next commit, or runs alone after a short delay."""
        future = self._hand_over(work)
        if self._linger_timer is None:
            self._linger_timer = self._clock.call_later(_LINGER_SECONDS, self._commit)
        return future

    async def read(self, work: Work[T]) -> T:
        return await self.post_read(work)

    def post_read(self, work: Work[T]) -> "asyncio.Future[T]":
        """Queue a read at once. The future need not be awaited."""
        self._require_open()
        job = _Job(work, self._loop.create_future())
        seconds = self._latency()
        if seconds > 0:
            self._clock.call_later(seconds, lambda: self._run([job]))
        else:
            # The first of them runs all that are queued until then.
            if not self._reads:
                self._loop.call_soon(self._run_reads)
            self._reads.append(job)
        return job.future

    def _run_reads(self) -> None:
        batch, self._reads = self._reads, []
        self._run(batch)

    def crash(self) -> None:
        """Discard what is not committed and confirm nothing more, as if the process were killed."""
        self._is_closed = True
        self._handed_over.clear()
        self._stop_waiting()

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreError("the store is closed", fix="Start the daemon again.")

    def _hand_over(self, work: Work[T]) -> "asyncio.Future[T]":
        self._require_open()
        future: asyncio.Future[T] = self._loop.create_future()
        self._handed_over.append(_Job(work, future))
        return future

    def _soon(self, call: Callable[..., object], *arguments: object) -> None:
        seconds = self._latency()
        if seconds > 0:
            self._clock.call_later(seconds, lambda: call(*arguments))
        else:
            self._loop.call_soon(call, *arguments)

    def _stop_waiting(self) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None

    def _commit(self) -> None:
        """Commit all queued transactions in order."""
        self._is_commit_due = False
        self._stop_waiting()
        batch, self._handed_over = self._handed_over, []
        if batch:
            self.commits.commits += 1
            self.commits.transactions += len(batch)
            self._run(batch)

    def _run(self, batch: Sequence[_Job]) -> None:
        for job in batch:
            try:
                job.result = self.database.transact(job.work, self.node)
            except Exception as error:  # noqa: BLE001 - it is passed to this caller only
                job.error = error
        self._soon(self._settle, batch)

    def _settle(self, batch: Sequence[_Job]) -> None:
        for job in batch:
            if job.future.done():
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)

    def close(self) -> None:
        """Finish the queued transactions."""
        if not self._is_closed:
            self._is_closed = True
            batch = self._handed_over
            self._commit()
            self._settle(batch)
