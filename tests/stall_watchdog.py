"""Counts what a daemon's event loop does in one go: the calls of functions between two of its callbacks.

Calls are counted and not time, so that neither the machine nor its load matters. What a thread does is not counted.
`tests.journeys.test_no_stalls` uses it.
"""

import asyncio
import importlib
import sys
import threading
import traceback
from asyncio.events import Handle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_CALLBACK = Handle._run.__code__
# Modules are imported once, by the first request that needs them, so their calls are not counted.
_IMPORT = importlib._bootstrap._find_and_load.__code__  # type: ignore[attr-defined]
# The stack is kept each time this many calls were made in one callback.
_STEP = 10_000


class Watchdog:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls = 0
        self._imports = 0
        # The frame in which the loop runs: what it calls itself is a callback.
        self._bottom: FrameType | None = None
        self.most = 0
        # What the loop was doing when it had made most calls.
        self.stack = ""

    def start(self) -> None:
        self._do_in_loop(self._begin)

    def stop(self) -> None:
        self._do_in_loop(lambda: sys.setprofile(None))

    def take_most(self) -> tuple[int, str]:
        """The most calls in one callback since the last time, and where."""
        found = self.most, self.stack
        self.most, self.stack = 0, ""
        return found

    def _begin(self) -> None:
        # Of this function, of the one that calls it, and of the loop; asyncio's own loop is Python and has more.
        self._bottom = sys._getframe(2)
        sys.setprofile(self._count)

    def _do_in_loop(self, act: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait()

    def _count(self, frame: FrameType, event: str, _argument: object) -> None:
        if frame.f_code is _IMPORT and event in ("call", "return"):
            self._imports += 1 if event == "call" else -1
        if self._imports:
            return
        if event == "call":
            if frame.f_back is self._bottom or frame.f_code is _CALLBACK:
                self._calls = 0
                return
        elif event != "c_call":
            return
        self._calls += 1
        if self._calls > self.most:
            self.most = self._calls
            if self._calls % _STEP == 0:
                self.stack = "".join(traceback.format_stack(frame)[-8:])


@contextmanager
def watched(loop: asyncio.AbstractEventLoop) -> Iterator[Watchdog]:
    watchdog = Watchdog(loop)
    watchdog.start()
    try:
        yield watchdog
    finally:
        watchdog.stop()
