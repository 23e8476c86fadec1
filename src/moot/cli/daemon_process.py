"""Starts, finds and stops the daemon as a background process."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from moot.client.errors import TimedOut, Unreachable
from moot.daemon.paths import Paths, make_folder
from moot.domain.errors import ConfigError, MootError

START_SECONDS = 30.0
STOP_SECONDS = 60.0
_POLL_SECONDS = 0.02
_TAIL_BYTES = 4096
_TAIL_LINES = 12


async def start(home: Paths, answers: Callable[[Paths], Awaitable[bool]]) -> int:
    """Start `moot serve` detached and wait until it answers; its output goes to the log folder.

    One command at a time: a second daemon that came up late would outlive the first and surprise whoever
    stopped that one.
    """
    began = time.monotonic()
    make_folder(home.run)
    descriptor = os.open(home.starting, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(descriptor):
            if time.monotonic() - began > START_SECONDS:
                raise TimedOut(
                    f"another command has been starting the daemon for {START_SECONDS:.0f} seconds",
                    fix=f"See {home.logs / 'console.log'}.",
                )
            await asyncio.sleep(_POLL_SECONDS)
        if await answers(home):
            return running_pid(home)
        return await _spawn(home, answers)
    finally:
        os.close(descriptor)


async def _spawn(home: Paths, answers: Callable[[Paths], Awaitable[bool]]) -> int:
    make_folder(home.logs)
    console = home.logs / "console.log"
    began = time.monotonic()
    with console.open("ab") as log:
        os.chmod(console, 0o600)
        offset = log.tell()
        process = subprocess.Popen(  # noqa: ASYNC220 - the fork takes a millisecond, and it must outlive this loop
            [sys.executable, "-m", "moot", "serve"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=True,
        )
    while not await answers(home):
        if process.poll() is not None:
            # Somebody may have run `moot serve` at the same moment, and that one won the lock.
            if await _wait_for_other_start(home, answers):
                return running_pid(home)
            raise _start_error(process.returncode, _read_tail(console, offset))
        if time.monotonic() - began > START_SECONDS:
            raise TimedOut(
                f"the daemon (pid {process.pid}) does not answer after {START_SECONDS:.0f} seconds",
                fix=f"It may still be starting; see {console}.",
            )
        await asyncio.sleep(_POLL_SECONDS)
    # It outlives this process on purpose; without this the interpreter would warn about it.
    process.returncode = 0
    return running_pid(home) or process.pid


def _start_error(code: int, tail: str) -> MootError:
    # sysexits' EX_CONFIG is what the daemon itself says when a file a person wrote is wrong.
    kind = ConfigError if code == os.EX_CONFIG else Unreachable
    return kind(
        f"the daemon stopped while starting (exit code {code}):\n{tail}",
        fix="Correct the error; `moot serve` runs it in the foreground, `moot doctor` checks everything.",
    )


async def _wait_for_other_start(home: Paths, answers: Callable[[Paths], Awaitable[bool]]) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while running_pid(home) and time.monotonic() < deadline:
        if await answers(home):
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return False


def running_pid(home: Paths) -> int:
    """The pid of this home's daemon, or 0. A pid file counts only while somebody holds the lock."""
    try:
        pid = int(home.pid.read_text().split()[0])
        # Asked first, because looking at the lock means touching it.
        os.kill(pid, 0)
    except (OSError, ValueError, IndexError):
        return 0
    return pid if is_locked(home.lock) else 0


def is_locked(lock: Path) -> bool:
    """Whether a living process holds the lock; the kernel lets go of it when its holder dies."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def stop(home: Paths, *, now: bool, seconds: float = STOP_SECONDS) -> bool:
    """Ask the daemon to drain and stop, or to stop at once; wait for it. False when none was running."""
    told = 0
    deadline = time.monotonic() + seconds
    while is_locked(home.lock):
        pid = running_pid(home)
        # Usually once; but another that waited for the lock may take the place of the first.
        if pid and pid != told:
            told = pid
            _send_stop_signals(pid, now=now)
        if time.monotonic() > deadline:
            raise TimedOut(
                f"the daemon (pid {told}) is still finishing its runs after {seconds:.0f} seconds",
                fix="Wait, or stop it at once with `moot down --now`.",
            )
        time.sleep(_POLL_SECONDS)
    return bool(told)


def _send_stop_signals(pid: int, *, now: bool) -> None:
    _send_sigterm(pid)
    if now:
        # The second signal is what says "at once"; the pause keeps the kernel from merging the two.
        time.sleep(0.05)
        _send_sigterm(pid)


def _send_sigterm(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return


def _read_tail(console: Path, offset: int) -> str:
    """The last lines written since `offset`."""
    with console.open("rb") as log:
        log.seek(max(offset, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
        lines = log.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:]) or "it wrote nothing"
