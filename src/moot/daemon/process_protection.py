"""Protects a process that holds keys: no core dump, no look into it by others. The daemon is also ended last.

Used by the `moot` command for itself and for the daemon.
"""

import os
import resource
from contextlib import suppress

_SET_DUMPABLE = 4
_OOM_SCORE = "/proc/self/oom_score_adj"
# Chosen only when nothing else is left. Not -1000: a daemon that takes all the memory itself must end.
_LAST = -900


def disable_memory_dumps() -> None:
    """Keep the kernel from writing the memory of this process and its children to a file or to a program.

    The limit is one byte: with 0, a program that collects core dumps is still started and given all of it.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard != 0:
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def hide_memory() -> None:
    """Keep other processes of the same user from reading memory and environment, and from tracing. Linux only.

    It ends with exec, so that programs this process starts are as ever.
    """
    import ctypes  # noqa: PLC0415  slow to import, and not needed by every command

    with suppress(OSError, AttributeError):
        prctl = ctypes.CDLL(None).prctl
        prctl(_SET_DUMPABLE, 0, 0, 0, 0)
        if not _can_read_own_files():
            # Kernels before 5.14 then hide these from the process itself, and the sandbox needs them.
            prctl(_SET_DUMPABLE, 1, 0, 0, 0)


def be_ended_last() -> None:
    """Have the kernel choose others before this process when memory runs out, as far as we may ask for that."""
    with suppress(OSError, ValueError), open(_OOM_SCORE, "r+", encoding="ascii") as file:
        if int(file.read()) > _LAST:
            file.write(str(_LAST))


def _can_read_own_files() -> bool:
    descriptor = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(os.open(f"/proc/self/fdinfo/{descriptor}", os.O_RDONLY | os.O_CLOEXEC))
        os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
