"""The Clock port: the time, and everything that waits for it. Implemented by daemon/clock.py."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol


class Timer(Protocol):
    """A callback that has been scheduled."""

    def cancel(self) -> None: ...


class Timeout(Protocol):
    """Use as `async with timeout:`; cancels what is inside and raises TimeoutError when its time is reached."""

    async def __aenter__(self) -> object: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def when(self) -> float | None:
        """The time of `Clock.monotonic` at which it expires; None if it never does."""
        ...

    def reschedule(self, when: float | None) -> None: ...
    def expired(self) -> bool: ...


class Clock(Protocol):
    """The time, and everything that waits for it. The daemon uses no other timer."""

    def now(self) -> float:
        """Seconds since the epoch, for display. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never decrease, for timeouts."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float | None) -> Timeout:
        """Return a time limit for a block of code; None sets no limit until it is rescheduled."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer: ...
