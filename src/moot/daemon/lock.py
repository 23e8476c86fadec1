"""The lock on a home: one daemon at a time serves a store."""

import fcntl
import os
import time
from contextlib import AsyncExitStack

from moot.daemon.paths import Paths, make_folder
from moot.domain.errors import Conflict

_LOCK_ATTEMPTS = 10
_LOCK_PAUSE_SECONDS = 0.01


def take(paths: Paths, stack: AsyncExitStack) -> None:
    """One daemon per home: the lock is the kernel's and falls with the process, however it ends."""
    make_folder(paths.data)
    make_folder(paths.run)
    handle = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, handle)
    if not _take_lock(handle):
        raise Conflict(f"another daemon already serves {paths.data}", fix="Use it, or stop it first with `moot down`.")
    paths.pid.write_text(f"{os.getpid()}\n", encoding="ascii")
    stack.callback(paths.pid.unlink, missing_ok=True)


def _take_lock(handle: int) -> bool:
    """Try for a moment: whoever only looks whether the lock is held holds it for an instant."""
    for _ in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            return True
    return False
