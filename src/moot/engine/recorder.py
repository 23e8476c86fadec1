"""Writes what a run adds to its history: memory at once, disk in order, and a way to wait for the disk."""

import asyncio
from collections.abc import Callable, Sequence

from moot.domain.errors import Fenced
from moot.domain.message import Entry, Message
from moot.domain.ports.clock import Clock
from moot.domain.ports.spawned_runs import SpawnedRuns
from moot.domain.ports.store import Store
from moot.domain.run import RunEnd
from moot.domain.usage import RunUsage
from moot.engine.history import History
from moot.engine.supervisor import Supervisor


class Recorder:
    """One per run. The lane is the only writer of its conversation, so places can be counted ahead."""

    def __init__(  # noqa: PLR0913 — all that a run writes with
        self,
        *,
        store: Store,
        history: History,
        run_id: str,
        clock: Clock,
        supervisor: Supervisor,
        spawned: SpawnedRuns,
        lost: Callable[[], None],
    ) -> None:
        self._store = store
        self._history = history
        self._run_id = run_id
        self._clock = clock
        self._supervisor = supervisor
        self._spawned = spawned
        # Called when a write is rejected because another daemon has taken over the run.
        self._lost = lost
        self._writes: list[asyncio.Future[list[Entry]]] = []
        # Whether the disk has taken all it was given so far.
        self._is_whole = True

    def write(
        self,
        messages: Sequence[Message],
        spent: RunUsage | None = None,
        *,
        delivers: Sequence[str] = (),
        can_wait: bool = False,
    ) -> None:
        """Extend the history now and the disk soon; writes reach the disk in the order they were made.

        What the run has used up so far goes to the disk with them, and so outlives the daemon. What nobody is about
        to settle can wait a moment for company.
        """
        now = self._clock.now()
        first = self._history.last_seq + 1
        self._history.extend(
            [
                Entry(seq=first + index, message=message, run_id=self._run_id, created_at=now)
                for index, message in enumerate(messages)
            ]
        )
        if delivers:
            self._spawned.mark_shown(delivers)
        append = self._store.append(
            self._history.key,
            self._run_id,
            messages,
            now=now,
            spent=spent,
            delivers=delivers,
            can_wait=can_wait,
            epoch=self._history.epoch,
        )
        self._hold(self._supervisor.own(f"append {self._run_id}", append))

    def end(self, end: RunEnd, messages: Sequence[Message]) -> None:
        """Hand over the last messages and the outcome, behind all that was written; `finish` waits for the disk."""
        ending = self._store.end(
            self._history.key,
            self._run_id,
            end,
            messages,
            now=self._clock.now(),
            # Where a write that is still on its way is refused, this one is too.
            after=self._history.last_seq if self._is_whole else None,
            epoch=self._history.epoch,
        )
        self._hold(self._supervisor.own(f"end {self._run_id}", ending))

    def _hold(self, write: "asyncio.Future[list[Entry]]") -> None:
        write.add_done_callback(self._stop_if_fenced)
        self._writes.append(write)

    def _stop_if_fenced(self, write: "asyncio.Future[list[Entry]]") -> None:
        if not write.cancelled() and isinstance(write.exception(), Fenced):
            self._lost()

    async def finish(self) -> None:
        last = self._writes[-1]
        await self.settle()
        self._history.extend(last.result())

    async def settle(self) -> None:
        """Wait until everything written is on disk. A cancelled waiter leaves the writes alone."""
        waiting = [write for write in self._writes if not write.done()]
        if waiting:
            await asyncio.wait(waiting)
        done, self._writes = self._writes, []
        failures = [failure for write in done if (failure := write.exception()) is not None]
        if failures:
            self._is_whole = False
            raise failures[0]
