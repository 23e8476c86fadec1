"""Measures the longest time that a daemon's event loop was held, in processor time of its thread.

Processor time, because a busy machine may stop any thread for long. `tests.journeys.test_no_stalls` uses it.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

_BEAT_SECONDS = 0.001


class Watchdog:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._clock = 0
        self._thread = 0
        self._last = 0.0
        self._is_stopped = False
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self.longest = 0.0
        # What the loop was doing while it was held longest.
        self.stack = ""

    def start(self) -> None:
        started = threading.Event()
        self._loop.call_soon_threadsafe(self._begin, started)
        started.wait()
        self._sampler.start()

    def stop(self) -> None:
        """Stop watching. The thread of the loop may end afterwards, and with it the clock that is read."""
        self._is_stopped = True
        self._sampler.join()

    def take_longest(self) -> tuple[float, str]:
        """The longest hold since the last call, and where."""
        found = self.longest, self.stack
        self.longest, self.stack = 0.0, ""
        return found

    def _begin(self, started: threading.Event) -> None:
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._last = time.thread_time()
        started.set()
        self._beat()

    def _beat(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self._last)
        self._last = now
        if not self._is_stopped:
            self._loop.call_later(_BEAT_SECONDS, self._beat)

    def _sample(self) -> None:
        while not self._is_stopped:
            time.sleep(0.002)
            held = time.clock_gettime(self._clock) - self._last
            frame = sys._current_frames().get(self._thread)
            if held > max(0.01, self.longest) and frame is not None:
                self.stack = "".join(traceback.format_stack(frame)[-8:])


@contextmanager
def watched(loop: asyncio.AbstractEventLoop) -> Iterator[Watchdog]:
    watchdog = Watchdog(loop)
    watchdog.start()
    try:
        yield watchdog
    finally:
        watchdog.stop()
