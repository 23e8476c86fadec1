"""The lock of a home folder, held by the process that writes its store. The kernel releases it with the process."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from moot.daemon.paths import Paths, make_folder, write_private
from moot.domain.errors import Conflict

_ATTEMPTS = 10
_PAUSE_SECONDS = 0.01


@contextmanager
def hold_lock(paths: Paths) -> Iterator[None]:
    """Hold the lock during the block. Raise Conflict if another daemon, or the restore of a backup, holds it."""
    make_folder(paths.data)
    handle = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _try_lock(handle):
            raise Conflict(
                f"another daemon already serves {paths.data}", fix="Use it, or stop it first with `moot down`."
            )
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    """Try to lock for a short time, because a process that checks the lock holds it for an instant."""
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_SECONDS)
        else:
            return True
    return False


def hold_home(paths: Paths, stack: AsyncExitStack) -> None:
    """Ensure that this is the only daemon of the home, and write its process id."""
    stack.enter_context(hold_lock(paths))
    make_folder(paths.run)
    write_private(paths.pid, f"{os.getpid()}\n")
    stack.callback(paths.pid.unlink, missing_ok=True)
