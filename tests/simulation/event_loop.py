"""An asyncio event loop in virtual time. It does no I/O: every wait is a timer, and time jumps to the next one.

Works with scheduler.py, which decides by a seed how long each simulated operation takes and so what completes first.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(Exception):
    """Nothing is ready and no timer is set, but the awaited work has not ended."""


class _VirtualSelector(selectors.BaseSelector):
    """Where a real loop would sleep, this moves its clock."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock(self._loop.describe_tasks())
        self._loop.advance(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise NotImplementedError("a simulation does no I/O")

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise NotImplementedError("a simulation does no I/O")

    def get_map(self) -> Any:
        return {}


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in the order asyncio promises; only time is virtual."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = _VirtualSelector(self)
        # One step of rounding error must not keep a timer that is due from being seen as due.
        self._clock_resolution = 1e-9
        self.steps = 0

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self.steps += 1
        self._now += max(0.0, seconds)

    def describe_tasks(self) -> str:
        """What every unfinished task waits at, for the report of a deadlock."""
        places = []
        for task in asyncio.all_tasks(self):
            frames = task.get_stack(limit=1)
            place = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "?"
            places.append(f"{task.get_name()} at {place}")
        return "; ".join(sorted(places))

    def _process_events(self, event_list: list[Any]) -> None:
        """There is no I/O whose events could be processed."""

    def _write_to_self(self) -> None:
        """No other thread ever wakes this loop."""


def run_virtual(main: Coroutine[Any, Any, T]) -> tuple[T, VirtualLoop]:
    """Run to the end in a loop of its own. Whatever the work leaves behind is cancelled."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    try:
        result = loop.run_until_complete(main)
        return result, loop
    finally:
        _cancel_all(loop)
        asyncio.set_event_loop(None)
        loop.close()


def _cancel_all(loop: VirtualLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
