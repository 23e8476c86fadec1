"""Writes what a run adds to its history: to memory at once, to disk in order. Callers can wait for the disk."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moot.domain.errors import Fenced, MootError, StoreError
from moot.domain.message import Entry, Message
from moot.domain.ports.clock import Clock
from moot.domain.ports.spawned_runs import SpawnedRuns
from moot.domain.ports.store import Store
from moot.domain.run import Outcome, RunEnd
from moot.domain.usage import RunUsage
from moot.engine.history import History
from moot.engine.supervisor import Supervisor

logger = logging.getLogger(__name__)


class PendingMessage(NamedTuple):
    """A turn's message: its number, and a future that is done when it is stored or refused."""

    seq: int
    stored: "asyncio.Future[Any]"

    def is_refused(self) -> bool:
        return self.stored.cancelled() or self.stored.exception() is not None

    def is_already_refused(self) -> bool:
        return self.stored.done() and self.is_refused()

    async def refusal(self) -> MootError | None:
        """Wait for the write; return why the message could not be stored, or None."""
        if not self.stored.done():
            await _wait_done(self.stored)
        if not self.is_refused():
            return None
        error = None if self.stored.cancelled() else self.stored.exception()
        if isinstance(error, MootError):
            return error
        logger.error("a message could not be stored", exc_info=error)
        return StoreError("the message could not be stored", fix="See the daemon's log.")


def on_disk(entry: Entry) -> PendingMessage:
    stored: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    stored.set_result(None)
    return PendingMessage(entry.seq, stored)


class Recorder:
    """Writes the messages of one run.

    The lane is the only writer of its conversation, so numbers are known in advance.
    """

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
        # Whether every write so far has succeeded.
        self._is_whole = True

    def write(
        self,
        messages: Sequence[Message],
        spent: RunUsage | None = None,
        *,
        delivers: Sequence[str] = (),
        steered: Sequence[str] = (),
        can_wait: bool = False,
    ) -> "asyncio.Future[list[Entry]]":
        """Extend the history in memory and start the write to disk; writes keep their order.

        The usage of the run is stored in the same transaction, so that it survives a crash. With `can_wait`, the write
        may be delayed a moment to share a commit. `delivers` and `steered` are those of `Store.append`.
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
            steered=steered,
            can_wait=can_wait,
            epoch=self._history.epoch,
        )
        write = self._supervisor.own(f"append {self._run_id}", append)
        self._hold(write)
        return write

    def end(self, end: RunEnd, messages: Sequence[Message]) -> None:
        """Start the write of the last messages and the outcome, after all earlier writes; `finish` waits for it."""
        if end.error:
            # The error of a completed run is a remark, for example that an assistant has sent no message.
            level = logging.INFO if end.outcome is Outcome.COMPLETED else logging.WARNING
            logger.log(level, "run %s of %s: %s: %s", self._run_id, self._history.key.agent, end.outcome, end.error)
        ending = self._store.end(
            self._history.key,
            self._run_id,
            end,
            messages,
            now=self._clock.now(),
            # If a pending write is refused, this one must be refused too.
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
        """Wait until everything is on disk; raise the first error. Cancelling the caller does not cancel the writes."""
        for write in self._writes:
            if not write.done():
                await _wait_done(write)
        done, self._writes = self._writes, []
        failures = [failure for write in done if (failure := write.exception()) is not None]
        if failures:
            self._is_whole = False
            raise failures[0]


async def _wait_done(write: "asyncio.Future[Any]") -> None:
    """Wait until a write is done, whatever came of it. Cancelling the caller does not cancel the write."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_write: "asyncio.Future[Any]") -> None:
        if not done.done():
            done.set_result(None)

    write.add_done_callback(wake)
    await done
