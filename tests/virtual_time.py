"""An event loop whose clock jumps to the next timer, for tests of time limits: exact, and without waiting.

A module that says VIRTUAL_TIME = True has its coroutine tests run in it. It is for timers alone: whoever waits for a
thread or a socket in it finds that time has passed meanwhile.
"""

import asyncio
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Where nothing is ready, it is as late as the next timer says."""

    _ready: Any
    _scheduled: Any

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the threads without the limit of Python 3.12 and newer, which would pass at once here."""
        await super().shutdown_default_executor()

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self._now = max(self._now, self._scheduled[0].when())
        super()._run_once()  # type: ignore[misc]  # not part of what the standard library promises
