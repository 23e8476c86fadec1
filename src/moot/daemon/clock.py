"""Implementations of the Clock port: SystemClock for the daemon, ManualClock for tests."""

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import Any

from moot.domain.ports.clock import Timeout, Timer

_UPTIME = 10_000.0


class SystemClock:
    """The machine's clock and the timers of the running event loop, whose time is the monotonic clock too."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    sleep = staticmethod(asyncio.sleep)

    def timeout(self, seconds: float | None) -> Timeout:
        return _SystemTimeout(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


class _SystemTimeout:
    """Like asyncio's, at a third of its cost: each run has one, and each of its tool calls."""

    __slots__ = ("_cancelling", "_is_expired", "_loop", "_task", "_timer", "_when")

    def __init__(self, seconds: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._when = None if seconds is None else self._loop.time() + seconds
        self._task: asyncio.Task[Any] | None = None
        self._timer: Timer | None = None
        self._cancelling = 0
        self._is_expired = False

    async def __aenter__(self) -> "_SystemTimeout":
        task = self._task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a timeout is used in a task")
        # Whether the task was cancelled before, by somebody else.
        self._cancelling = task.cancelling()
        if self._when is not None:
            self.reschedule(self._when)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        task, self._task = self._task, None
        if not self._is_expired or task is None:
            return
        # A cancellation by somebody else comes first.
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def when(self) -> float | None:
        return self._when

    def reschedule(self, when: float | None) -> None:
        if self._task is None or self._is_expired:
            raise RuntimeError("the timeout is not in use any more")
        self._when = when
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if when is not None:
            loop = self._loop
            is_due = when <= loop.time()
            self._timer = loop.call_soon(self._expire) if is_due else loop.call_at(when, self._expire)

    def expired(self) -> bool:
        return self._is_expired

    def _expire(self) -> None:
        self._timer = None
        if self._task is not None:
            self._is_expired = True
            self._task.cancel()


class ManualClock:
    """A clock that only `advance` moves. Timers that become due fire in the order of their times."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self._start = now
        # Not 0, like on a machine that has been up for a while: an initial 0.0 then lies in the past.
        self._elapsed = _UPTIME
        self._numbers = count()
        self._timers: list[tuple[float, int, _ManualTimer]] = []

    def now(self) -> float:
        return self._start + self._elapsed - _UPTIME

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: _wake(woken))
        try:
            await woken
        finally:
            timer.cancel()

    def timeout(self, seconds: float | None) -> Timeout:
        return _ManualTimeout(self, None if seconds is None else self._elapsed + seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (self._elapsed + max(0.0, seconds), next(self._numbers), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Advance the time. After each timer, run the tasks it woke until they wait again."""
        until = self._elapsed + seconds
        await _let_others_run()
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self._elapsed = max(self._elapsed, due)
            if not timer.is_cancelled:
                timer.callback()
                await _let_others_run()
        self._elapsed = until


class _ManualTimer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class _ManualTimeout:
    """An asyncio timeout that expires when the manual clock reaches its deadline."""

    def __init__(self, clock: ManualClock, when: float | None) -> None:
        self._clock = clock
        self._when = when
        self._inner = asyncio.timeout(None)
        self._timer: Timer | None = None
        self._is_entered = False

    async def __aenter__(self) -> "_ManualTimeout":
        await self._inner.__aenter__()
        self._is_entered = True
        self.reschedule(self._when)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_entered = False
        if self._timer is not None:
            self._timer.cancel()
        await self._inner.__aexit__(kind, error, trace)

    def when(self) -> float | None:
        return self._when

    def reschedule(self, when: float | None) -> None:
        self._when = when
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if when is None:
            return
        if when <= self._clock.monotonic():
            self._expire()
        else:
            self._timer = self._clock.call_later(when - self._clock.monotonic(), self._expire)

    def expired(self) -> bool:
        return self._inner.expired()

    def _expire(self) -> None:
        if self._is_entered:
            self._inner.reschedule(asyncio.get_running_loop().time())


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


async def _let_others_run() -> None:
    """Run the event loop for enough rounds that tasks which wait for one another can proceed."""
    for _ in range(10):
        await asyncio.sleep(0)
