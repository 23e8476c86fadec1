"""Bounded queue for records of hooks, written in batches by one task."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Starts a coroutine under an owner: Supervisor.start.
Later = Callable[[str, Coroutine[Any, Any, None]], object]

BOUND = 1_024
BATCH = 128

logger = logging.getLogger(__name__)


class Backlog(Generic[T]):
    """A bounded queue.

    `put` returns at once and never fails; when the queue is full, records are dropped and counted.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[T]], Awaitable[None]],
        later: Later,
        *,
        bound: int = BOUND,
        batch: int = BATCH,
    ) -> None:
        self._name = name
        self._write = write
        self._later = later
        self._bound = bound
        self._batch = batch
        self._waiting: deque[T] = deque()
        self._writing = False
        self.dropped = 0
        self.failed = 0
        self.written = 0

    def put(self, record: T) -> None:
        if len(self._waiting) >= self._bound:
            self.dropped += 1
            return
        self._waiting.append(record)
        if not self._writing:
            self._start()

    def counts(self) -> dict[str, int]:
        return {"written": self.written, "dropped": self.dropped, "failed": self.failed}

    def _start(self) -> None:
        work = self._drain()
        self._writing = True
        try:
            self._later(self._name, work)
        except Exception:
            # The call itself has succeeded; a record that is not stored is only logged.
            work.close()
            self._writing = False
            logger.exception("%s could not be written", self._name)

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
                try:
                    await self._write(batch)
                    self.written += len(batch)
                except Exception:
                    self.failed += len(batch)
                    logger.exception("%s could not be written", self._name)
        finally:
            self._writing = False
