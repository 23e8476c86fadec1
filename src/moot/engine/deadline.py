"""A time limit that stands still while a human is being asked."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

Waiting = Callable[[], AbstractContextManager[None]]


class Waited:
    """How long a call has waited for people: of what it took, that is not the tool's part."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.seconds = 0.0

    @contextmanager
    def during(self, pause: AbstractContextManager[None]) -> Iterator[None]:
        began = self._clock()
        try:
            with pause:
                yield
        finally:
            self.seconds += self._clock() - began


class Deadline:
    """Use as `async with deadline:`; raises TimeoutError when the seconds are used up."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._timeout: asyncio.Timeout | None = None
        self._pauses = 0
        self._left: float | None = None

    async def __aenter__(self) -> "Deadline":
        self._timeout = asyncio.timeout(self._seconds)
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._timeout is not None
        await self._timeout.__aexit__(kind, error, trace)

    @property
    def expired(self) -> bool:
        return self._timeout is not None and self._timeout.expired()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock. Several may pause at once; it goes on when the last is done."""
        self._pauses += 1
        if self._pauses == 1:
            self._left = self._stop()
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                self._resume()

    def _stop(self) -> float | None:
        when = self._timeout.when() if self._timeout is not None else None
        if self._timeout is None or when is None or self._timeout.expired():
            return None
        self._timeout.reschedule(None)
        return max(0.0, when - asyncio.get_running_loop().time())

    def _resume(self) -> None:
        if self._timeout is not None and self._left is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left)
