"""Concurrency limit of spawned and background runs: the others queue, and a run that waits gives up its slot."""

from collections import deque
from collections.abc import Callable
from itertools import islice

from moot.domain.events import RunQueued
from moot.domain.run_view import Block, Condition
from moot.engine.bus import Bus
from moot.multiagent.teammates.live_runs import LiveRun
from moot.multiagent.teammates.run_factory import make_run_source

# New positions are announced to the first in the queue only: thousands of scheduled jobs may be due at once.
_ANNOUNCED = 100


class Concurrency:
    """Queue and slots. After every change of the slots in use, the caller starts the runs that `take_ready` returns."""

    def __init__(self, *, most: Callable[[], int], bus: Bus) -> None:
        self._most = most
        self._bus = bus
        self._queue: deque[LiveRun] = deque()
        self._running: set[str] = set()
        # Closed until recovery has queued all earlier runs, so that no run starts before them.
        self._is_open = False

    def enqueue(self, live: LiveRun) -> None:
        self._queue.append(live)
        live.block = Block(condition=Condition.RESUMING if live.is_resumed else Condition.QUEUED)
        if self._is_open and len(self._running) >= self._most():
            self._publish(live, len(self._queue))

    def take_ready(self) -> list[LiveRun]:
        """Remove from the queue as many runs as there are free slots, and return them. They occupy these slots."""
        ready: list[LiveRun] = []
        while self._queue and self._is_open and len(self._running) < self._most():
            live = self._queue.popleft()
            self._running.add(live.run.id)
            ready.append(live)
        if ready:
            self._announce()
        return ready

    def _announce(self) -> None:
        for position, live in enumerate(islice(self._queue, _ANNOUNCED), 1):
            self._publish(live, position)

    def _publish(self, live: LiveRun, position: int) -> None:
        self._bus.publish(make_run_source(live.run), RunQueued(position))

    def remove(self, live: LiveRun) -> bool:
        """Remove a run from the queue. Return False if it is not queued."""
        if live not in self._queue:
            return False
        self._queue.remove(live)
        self._announce()
        return True

    def release(self, run_id: str) -> None:
        self._running.discard(run_id)

    def reacquire(self, run_id: str) -> None:
        """Give a run that waited a slot again at once. The limit may be exceeded until another run ends."""
        self._running.add(run_id)

    def open(self) -> None:
        self._is_open = True

    def close(self) -> None:
        self._is_open = False
        self._queue.clear()
