"""Measures what a command uses, where no control group does: its processes and their memory. Used by `limits`."""

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

# What the kernel needs for an empty file in a tmpfs, about.
_INODE_BYTES = 1024
_KIB = 1024


class Usage(Struct, frozen=True, kw_only=True):
    processes: int = 0
    memory: int = 0


class UsageMeter:
    """Looks at a process, at all that descend from it, and at the file systems in memory that it can write in."""

    def __init__(self, pid: int, *, inside: int, folders: tuple[str, ...] = ("/tmp", "/dev/shm")) -> None:
        self._pid = pid
        self._folders: list[int] = []
        for folder in folders:
            with suppress(OSError):
                self._folders.append(os.open(f"/proc/{inside}/root{folder}", os.O_PATH | os.O_CLOEXEC))

    def measure(self, enough: int) -> Usage:
        """What is used at this moment. Pages that processes share count once only where the sum is above `enough`."""
        pids = _list_tree(self._pid)
        files = sum(map(_folder_bytes, self._folders))
        memory = files + sum(map(_resident_bytes, pids))
        if memory > enough:
            memory = files + sum(map(_proportional_bytes, pids))
        return Usage(processes=len(pids), memory=memory)

    def close(self) -> None:
        for folder in self._folders:
            os.close(folder)
        self._folders.clear()


def _list_tree(pid: int) -> list[int]:
    found = [pid]
    for member in found:
        with suppress(OSError):
            # By thread: each has the children that it made.
            for task in os.listdir(f"/proc/{member}/task"):
                with suppress(OSError):
                    found += map(int, Path(f"/proc/{member}/task/{task}/children").read_text().split())
    return found


def _folder_bytes(folder: int) -> int:
    status = os.fstatvfs(folder)
    return (status.f_blocks - status.f_bfree) * status.f_frsize + (status.f_files - status.f_ffree) * _INODE_BYTES


def _resident_bytes(pid: int) -> int:
    """What is its own and what it has mapped of shared memory. Files are not counted: the kernel can drop them."""
    return _sum_fields(Path(f"/proc/{pid}/status"), ("RssAnon", "RssShmem", "VmSwap")) or 0


def _proportional_bytes(pid: int) -> int:
    """The same with each page divided by how many have it. A process can keep this from being read."""
    shares = _sum_fields(Path(f"/proc/{pid}/smaps_rollup"), ("Pss_Anon", "Pss_Shmem", "SwapPss"))
    return _resident_bytes(pid) if shares is None else shares


def _sum_fields(file: Path, fields: tuple[str, ...]) -> int | None:
    """None where the file cannot be read or has none of the first."""
    try:
        lines = [line.partition(":") for line in file.read_text(errors="replace").splitlines()]
    except OSError:
        return None
    found = {name: int(value.split()[0]) * _KIB for name, _, value in lines if name in fields}
    return sum(found.values()) if fields[0] in found else None
