"""Enforces the limits of one command: by a control group if there is one, otherwise by polling.

Used by `sandbox`. What a process can be held to by itself (RLIMIT_*) is set by `inside`.
"""

import asyncio
import os
import signal
import time
from contextlib import suppress

from moot.domain.config import SandboxConfig
from moot.domain.errors import Unavailable
from moot.domain.ports.clock import Clock
from moot.domain.sandbox import SandboxReport
from moot.tools.sandbox import cgroup
from moot.tools.sandbox.usage import Usage, UsageMeter

WATCHER = "watcher"
_SOONEST, _LATEST = 0.1, 2.0
_REMOVE_TRIES, _REMOVE_SECONDS = 100, 0.02
_GIB = 1024**3


def find_process_limit(parents: cgroup.Parents | None) -> str:
    """Return what limits the number of processes. RLIMIT_NPROC does not apply to root."""
    if parents is not None and "pids" in parents.folders:
        return parents.name
    return "rlimit" if os.getuid() != 0 else WATCHER


def find_memory_limit(parents: cgroup.Parents | None) -> str:
    """Return what limits the memory of a command and its descendants."""
    return parents.name if parents is not None and "memory" in parents.folders else WATCHER


class Enforcement:
    """The limits of one command, from before it runs until it has ended."""

    def __init__(self, config: SandboxConfig, group: cgroup.CommandGroup | None, watch: "_Watch | None") -> None:
        self._config = config
        self._group = group
        self._watch = watch

    @classmethod
    async def begin(
        cls, pid: int, inside: int, report: SandboxReport, config: SandboxConfig, clock: Clock
    ) -> "Enforcement":
        """`pid` is the started process, `inside` the process in the sandbox that waits for permission to run."""
        if not report.confined:
            return cls(config, None, None)
        group = await _put_in_group(pid, config) if _needs_group(report) else None
        watch: _Watch | None = None
        if WATCHER in (report.memory_limit, report.process_limit):
            # It may have ended already.
            with suppress(OSError):
                watch = _Watch(pid, inside, report, config, clock)
        return cls(config, group, watch)

    def end(self) -> list[str]:
        """Free everything. Return a note about the limits that the command reached."""
        reached: list[str] = []
        if self._group is not None:
            reached += self._group.list_exceeded()
            _remove(self._group)
        if self._watch is not None:
            reached += self._watch.stop()
        memory = f"{self._config.memory_bytes / _GIB:.3g} GiB of memory, /tmp, /var/tmp and /dev/shm included"
        data = {
            "memory": f"(The sandbox ended processes of this command: together they may use {memory}.)",
            "pids": f"(This command reached its limit of {self._config.processes} processes.)",
        }
        return [data[name] for name in dict.fromkeys(reached)]


class _Watch:
    """Polls the resources of a command, more often while they grow, and ends it above its limits."""

    def __init__(self, pid: int, inside: int, report: SandboxReport, config: SandboxConfig, clock: Clock) -> None:
        self._clock = clock
        self._handle = os.pidfd_open(pid)
        self._meter = UsageMeter(pid, inside=inside)
        self._memory = config.memory_bytes if report.memory_limit == WATCHER else None
        self._processes = config.processes if report.process_limit == WATCHER else None
        self._reached: list[str] = []
        self._last = Usage()
        self._delay = _SOONEST
        self._stopped = False
        self._looking: asyncio.Future[Usage] | None = None
        self._timer = self._clock.call_later(self._delay, self._look)

    def stop(self) -> list[str]:
        """Return the limits for which it was ended."""
        self._stopped = True
        self._timer.cancel()
        if self._looking is None:
            self._close()
        return self._reached

    def _look(self) -> None:
        enough = self._memory or 0
        self._looking = asyncio.get_running_loop().run_in_executor(None, self._meter.measure, enough)
        self._looking.add_done_callback(self._judge)

    def _judge(self, looked: "asyncio.Future[Usage]") -> None:
        self._looking = None
        if self._stopped or looked.cancelled() or looked.exception() is not None:
            self._close()
            return
        used = looked.result()
        if self._memory is not None and used.memory > self._memory:
            self._kill("memory")
        if self._processes is not None and used.processes > self._processes:
            self._kill("pids")
        step = (self._memory or _GIB) // 32
        is_growing = used.memory - self._last.memory > step or used.processes > self._last.processes
        self._delay = _SOONEST if is_growing else min(2 * self._delay, _LATEST)
        self._last = used
        self._timer = self._clock.call_later(self._delay, self._look)

    def _kill(self, reason: str) -> None:
        """End it by its pidfd; everything in its process namespace ends with it."""
        self._reached.append(reason)
        with suppress(OSError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
            self._meter.close()


def _needs_group(report: SandboxReport) -> bool:
    return any(limit not in (WATCHER, "rlimit") for limit in (report.memory_limit, report.process_limit))


async def _put_in_group(pid: int, config: SandboxConfig) -> cgroup.CommandGroup:
    parents = await asyncio.to_thread(cgroup.find_parents)
    if parents is not None:
        group = cgroup.CommandGroup(parents, processes=config.processes, memory=config.memory_bytes)
        try:
            if await asyncio.to_thread(lambda: group.make() and group.add(pid)):
                return group
        except BaseException:
            _remove(group)
            raise
        _remove(group)
    raise Unavailable("a command could not be limited by a control group", fix="Look at /sys/fs/cgroup.")


def _remove(group: cgroup.CommandGroup) -> None:
    """Remove a group once its last process has ended, which may take the kernel a moment."""
    if not group.remove():
        asyncio.get_running_loop().run_in_executor(None, _remove_later, group)


def _remove_later(group: cgroup.CommandGroup) -> None:
    for _ in range(_REMOVE_TRIES):
        if group.remove():
            return
        time.sleep(_REMOVE_SECONDS)
