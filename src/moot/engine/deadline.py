"""A time limit that is paused while a person is asked, and an idle limit that any activity resets."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from moot.domain.events import EventBody
from moot.domain.ports.clock import Clock, Timeout, Timer

Waiting = Callable[[], AbstractContextManager[None]]


class WaitTimer:
    """Measures how long a call waits for people, so that this time can be subtracted from the tool's duration."""

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
    """Use as `async with deadline:`; raises TimeoutError when the time is used up or the run is idle for too long.

    The idle limit applies while a model is called. A running tool has a timeout of its own, and a teammate that is
    waited for has an idle limit of its own.
    """

    def __init__(self, clock: Clock, seconds: float | None, *, idle_seconds: float | None = None) -> None:
        self._clock = clock
        self._seconds = seconds
        self._idle_seconds = idle_seconds
        self._timeout: Timeout | None = None
        self._pauses = 0
        self._left: float | None = None
        # Seconds of work before the last pause, and when work last began.
        self._worked = 0.0
        self._since = 0.0
        self._tools = 0
        self._last_activity = 0.0
        self._watch: Timer | None = None
        self._fell_silent = False

    def watch(self, emit: Callable[[EventBody], None]) -> Callable[[EventBody], None]:
        """Wrap `emit` so that every event resets the idle time."""

        def emit_and_reset(event: EventBody) -> None:
            self.reset_idle()
            emit(event)

        return emit_and_reset

    async def __aenter__(self) -> "Deadline":
        self._since = self._last_activity = self._clock.monotonic()
        self._timeout = self._clock.timeout(self._seconds)
        await self._timeout.__aenter__()
        if self._idle_seconds is not None:
            self._watch = self._clock.call_later(self._idle_seconds, self._look)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._timeout is not None
        if self._watch is not None:
            self._watch.cancel()
        await self._timeout.__aexit__(kind, error, trace)

    @property
    def expired(self) -> bool:
        return self._timeout is not None and self._timeout.expired()

    @property
    def limit(self) -> str:
        """The name of the limit that expired."""
        return "idle_seconds" if self._fell_silent else "seconds"

    @property
    def watches(self) -> bool:
        """Whether there is an idle limit."""
        return self._idle_seconds is not None

    @property
    def worked(self) -> float:
        """Seconds of work so far, excluding the time spent waiting for people."""
        if self._timeout is None or self._pauses:
            return self._worked
        return self._worked + self._clock.monotonic() - self._since

    def reset_idle(self) -> None:
        """Reset the idle time."""
        if self._timeout is not None:
            self._last_activity = self._clock.monotonic()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause both limits. Pauses may overlap; the limits resume when the last one ends."""
        self._pauses += 1
        if self._pauses == 1:
            self._left = self._stop()
        try:
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                self._resume()

    @contextmanager
    def tool(self) -> Iterator[None]:
        """Suspend the idle limit while a tool runs; the tool has a timeout of its own."""
        self._tools += 1
        try:
            yield
        finally:
            self._tools -= 1
            self.reset_idle()

    def _look(self) -> None:
        """Check the idle limit and reschedule the check.

        `reset_idle` only stores the time, so that each chunk of text is cheap.
        """
        assert self._timeout is not None
        assert self._idle_seconds is not None
        now = self._clock.monotonic()
        if self._pauses or self._tools:
            self._last_activity = now
        due = self._last_activity + self._idle_seconds
        if now < due:
            self._watch = self._clock.call_later(due - now, self._look)
        elif not self._timeout.expired():
            self._fell_silent = True
            self._timeout.reschedule(now)

    def _stop(self) -> float | None:
        if self._timeout is not None:
            self._worked += self._clock.monotonic() - self._since
        when = self._timeout.when() if self._timeout is not None else None
        if self._timeout is None or when is None or self._fell_silent or self._timeout.expired():
            return None
        self._timeout.reschedule(None)
        return max(0.0, when - self._clock.monotonic())

    def _resume(self) -> None:
        if self._timeout is not None:
            self._since = self._last_activity = self._clock.monotonic()
        if self._timeout is not None and self._left is not None and not self._timeout.expired():
            self._timeout.reschedule(self._clock.monotonic() + self._left)
