"""Ends a running command when Moot's own files are mounted where it can see them. Used by `sandbox`.

On most systems what is mounted later appears in sandboxes that run already, and nothing in them can prevent that.
"""

import asyncio
import logging
import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress

from moot.tools.sandbox.aliases import Regions, find_exposed

logger = logging.getLogger(__name__)


class LateMounts:
    """Watches the mounts that a process sees, from before they are first checked until it ends."""

    def __init__(self, pid: int, inside: int, regions: Regions, *, allowed: Sequence[str]) -> None:
        """`pid` is the started process, `inside` the process whose mounts are watched."""
        self._inside = inside
        self._regions = regions
        self._allowed = allowed
        self._place = ""
        self._handle = os.pidfd_open(pid)
        self._epoll = select.epoll()
        try:
            self._table = os.open(f"/proc/{inside}/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            os.close(self._handle)
            self._epoll.close()
            raise
        # The kernel reports a change as an exception, for which event loops do not wait; an epoll is readable then.
        self._epoll.register(self._table, select.EPOLLPRI | select.EPOLLERR)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self._start_look)

    def find_exposed(self) -> str:
        """Return where the process sees Moot's own files now; empty if nowhere."""
        with suppress(OSError):
            # If it does not exist, the process has ended.
            return find_exposed(self._inside, self._regions, allowed=self._allowed)
        return ""

    def stop(self) -> list[str]:
        """Return the note about a command that was ended because of what it could see."""
        if self._handle >= 0:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            os.close(self._table)
            os.close(self._handle)
            self._handle = -1
        place = self._place
        return [f"(The sandbox ended this command: Moot's own files were mounted in {place}.)"] if place else []

    def _start_look(self) -> None:
        self._epoll.poll(0)
        self._loop.run_in_executor(None, self.find_exposed).add_done_callback(self._judge)

    def _judge(self, looked: "asyncio.Future[str]") -> None:
        if self._handle < 0 or looked.cancelled() or not (place := looked.result()):
            return
        self._place = place
        logger.warning("a command was ended because Moot's own files were mounted in %s", place)
        with suppress(OSError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
