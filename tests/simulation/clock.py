"""The Clock of a simulation: it reads the virtual time of the running loop, and its timers are that loop's."""

import asyncio

from moot.daemon.clock import SystemClock

# Where a simulation's calendar begins.
START = 1_000_000.0


class VirtualClock(SystemClock):
    def now(self) -> float:
        return START + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()
