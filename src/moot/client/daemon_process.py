"""Starts, finds and stops the daemon as a background process. Used by the commands and by the Python client."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from moot.client.connection import connect
from moot.client.errors import TimedOut, Unreachable
from moot.daemon.paths import Paths, explain_full_disk, find_full_folder, full_disk_error, is_full, make_folder
from moot.domain.errors import ConfigError, MootError
from moot.import_path import drop_working_directory
from moot.wire import moot_pb2 as pb

START_SECONDS = 30.0
STOP_SECONDS = 60.0
# With -P nothing is imported from the working directory: that is often a project in which agents write.
SERVE = (sys.executable, "-P", "-m", "moot", "serve")
_POLL_SECONDS = 0.02
_TAIL_BYTES = 4096
_TAIL_LINES = 12


async def start(home: Paths, environment: Mapping[str, str] | None = None) -> int:
    """Start `moot serve` detached and wait until it answers; its output goes to the log folder.

    Only one command at a time starts it: a second daemon that became ready late would outlive a stopped first one.
    `environment` names the home if it is not the one of this process.
    """
    try:
        return await _start(home, environment)
    except OSError as error:
        if is_full(error):
            raise explain_full_disk(error, home) from error
        raise


async def _start(home: Paths, environment: Mapping[str, str] | None) -> int:
    began = time.monotonic()
    make_folder(home.run)
    descriptor = os.open(home.starting, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(descriptor):
            if time.monotonic() - began > START_SECONDS:
                raise TimedOut(
                    f"another command has been starting the daemon for {START_SECONDS:.0f} seconds",
                    fix=f"See {home.console}.",
                )
            await asyncio.sleep(_POLL_SECONDS)
        if await is_answering(home):
            return running_pid(home)
        return await _spawn(home, environment)
    finally:
        os.close(descriptor)


async def is_answering(home: Paths) -> bool:
    """Whether a daemon answers a ping on the home's socket."""
    try:
        async with asyncio.timeout(5), connect(home.socket) as connection:
            await connection.request(pb.ClientMessage(ping=pb.Ping()))
    except (Unreachable, TimeoutError):
        return False
    return True


async def _spawn(home: Paths, environment: Mapping[str, str] | None) -> int:
    make_folder(home.logs)
    console = home.console
    began = time.monotonic()
    with console.open("ab") as log:
        os.chmod(console, 0o600)
        offset = log.tell()
        process = subprocess.Popen(  # noqa: ASYNC220 - the fork takes a millisecond, and it must outlive this loop
            SERVE,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=drop_working_directory(os.environ if environment is None else environment),
            start_new_session=True,
            close_fds=True,
        )
    while not await is_answering(home):
        if process.poll() is not None:
            # Another `moot serve` may have started at the same moment and taken the lock.
            if await _wait_for_other_start(home):
                return running_pid(home)
            tail = _read_tail(console, offset)
            # On a full disk the daemon cannot even write why it stopped.
            if not tail and (full := find_full_folder(home)):
                raise full_disk_error(full)
            raise _start_error(process.returncode, tail)
        if time.monotonic() - began > START_SECONDS:
            raise TimedOut(
                f"the daemon (pid {process.pid}) does not answer after {START_SECONDS:.0f} seconds",
                fix=f"It may still be starting; see {console}.",
            )
        await asyncio.sleep(_POLL_SECONDS)
    # It outlives this process on purpose; this prevents a ResourceWarning.
    process.returncode = 0
    return running_pid(home) or process.pid


def _start_error(code: int, tail: str) -> MootError:
    # The daemon exits with EX_CONFIG when a configuration file is invalid.
    kind = ConfigError if code == os.EX_CONFIG else Unreachable
    return kind(
        f"the daemon stopped while starting (exit code {code}):\n{tail or 'it wrote nothing'}",
        fix="Correct the error; `moot serve` runs it in the foreground, `moot doctor` checks everything.",
    )


async def _wait_for_other_start(home: Paths) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while running_pid(home) and time.monotonic() < deadline:
        if await is_answering(home):
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return False


def running_pid(home: Paths) -> int:
    """The pid of this home's daemon, or 0. A pid file only counts while the lock is held."""
    try:
        pid = int(home.pid.read_text().split()[0])
        # Check the file first, because testing the lock takes it for a moment.
        os.kill(pid, 0)
    except (OSError, ValueError, IndexError):
        return 0
    return pid if is_locked(home.lock) else 0


def is_locked(lock: Path) -> bool:
    """Whether a process holds the lock; the kernel releases it when the process dies."""
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
    """Tell the daemon to drain and stop, or to stop immediately, and wait. False if none was running."""
    announced = 0
    deadline = time.monotonic() + seconds
    while is_locked(home.lock):
        pid = running_pid(home)
        # Usually once; but another daemon that waited for the lock may replace the first.
        if pid and pid != announced:
            announced = pid
            _send_stop_signals(pid, now=now)
        if time.monotonic() > deadline:
            raise TimedOut(
                f"the daemon (pid {announced}) is still finishing its runs after {seconds:.0f} seconds",
                fix="Wait, or stop it at once with `moot down --now`.",
            )
        time.sleep(_POLL_SECONDS)
    return bool(announced)


def _send_stop_signals(pid: int, *, now: bool) -> None:
    _send_sigterm(pid)
    if now:
        # A second signal stops it immediately; the pause prevents the kernel from merging the two.
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
        size = os.fstat(log.fileno()).st_size
        # It is shorter if it was rotated meanwhile.
        log.seek(max(offset if offset <= size else 0, size - _TAIL_BYTES))
        lines = log.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])
