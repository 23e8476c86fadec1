"""Finds and ends sandboxes whose daemon has died.

bubblewrap asks the kernel to be killed with the daemon, then lets its child continue, which asks the same a little
later. A daemon killed between the two leaves a child that waits for ever. It has not run the command and never will,
but it would stay until the machine is restarted.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec

from moot.tools.sandbox import cgroup, view

_ROUNDS = 10
_INSIDE = view.INSIDE.encode()


def sweep() -> None:
    """End every sandbox whose starting process has died, and remove the groups of daemons that no longer run."""
    # Outermost first: ending one may orphan its child.
    for _ in range(_ROUNDS):
        if not [pid for pid in _find_orphans() if _end(pid)]:
            break
    cgroup.sweep()


def _find_orphans() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit() and _is_orphan(int(name)):
            yield int(name)


def _is_orphan(pid: int) -> bool:
    starter = _starter_pid(pid)
    if starter is None:
        return False
    parent = _parent_pid(pid)
    return parent is not None and parent != starter and _starter_pid(parent) is None


def _end(pid: int) -> bool:
    """End it and return whether that was done. Checked again by a pidfd, because the pid may have been reused."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not _is_orphan(pid):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        _wait_for_exit(handle)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _wait_for_exit(handle: int) -> None:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.poll(1000)


def _starter_pid(pid: int) -> int | None:
    """Return the process that started this sandbox; None if it is not a sandbox."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            command = file.readall()
    except OSError:
        return None
    if _INSIDE not in command:
        return None
    with contextlib.suppress(ValueError, IndexError, msgspec.DecodeError, TypeError, KeyError):
        words = command.split(b"\0")
        plan = msgspec.json.decode(words[words.index(_INSIDE) + 2])
        return int(plan["starter"])
    return None


def _parent_pid(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return None
