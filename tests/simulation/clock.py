"""The Clock of a simulation: it reads the virtual time of the running loop, and its timers are that loop's."""

import asyncio

from moot.daemon.clock import SystemClock

# Where a simulation's calendar begins.
START = 1_000_000.0


class VirtualClock(SystemClock):
    """`skew` is by how many seconds the calendar of this clock is wrong."""

    def __init__(self, skew: float = 0.0) -> None:
        self._skew = skew

    def now(self) -> float:
        return START + self._skew + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()
