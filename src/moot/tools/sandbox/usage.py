"""Measures the processes and the memory of a command without a control group. Used by `limits`."""

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

# Every command has its own of these, empty and in memory; they cover what the machine has there.
TEMPORARY_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
# About the memory of an empty file in a tmpfs.
_INODE_BYTES = 1024
_KIB = 1024


class Usage(Struct, frozen=True, kw_only=True):
    processes: int = 0
    memory: int = 0


class UsageMeter:
    """Measures a process, its descendants, and the in-memory file systems that it can write to."""

    def __init__(self, pid: int, *, inside: int, folders: tuple[str, ...] = TEMPORARY_FOLDERS) -> None:
        self._pid = pid
        self._folders: list[int] = []
        for folder in folders:
            with suppress(OSError):
                self._folders.append(os.open(f"/proc/{inside}/root{folder}", os.O_PATH | os.O_CLOEXEC))

    def measure(self, enough: int) -> Usage:
        """Return the current usage. Shared pages are counted once only if the sum exceeds `enough`: that is slow."""
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
            # Each thread lists the children that it created.
            for task in os.listdir(f"/proc/{member}/task"):
                with suppress(OSError):
                    found += map(int, Path(f"/proc/{member}/task/{task}/children").read_text().split())
    return found


def _folder_bytes(folder: int) -> int:
    status = os.fstatvfs(folder)
    return (status.f_blocks - status.f_bfree) * status.f_frsize + (status.f_files - status.f_ffree) * _INODE_BYTES


def _resident_bytes(pid: int) -> int:
    """Return private and shared memory. File pages are not counted: the kernel can drop them."""
    return _sum_fields(Path(f"/proc/{pid}/status"), ("RssAnon", "RssShmem", "VmSwap")) or 0


def _proportional_bytes(pid: int) -> int:
    """Return the same with each page divided by its users. A process can prevent reading it."""
    shares = _sum_fields(Path(f"/proc/{pid}/smaps_rollup"), ("Pss_Anon", "Pss_Shmem", "SwapPss"))
    return _resident_bytes(pid) if shares is None else shares


def _sum_fields(file: Path, fields: tuple[str, ...]) -> int | None:
    """Return the sum of these fields; None if the file cannot be read or lacks the first."""
    try:
        lines = [line.partition(":") for line in file.read_text(errors="replace").splitlines()]
    except OSError:
        return None
    found = {name: int(value.split()[0]) * _KIB for name, _, value in lines if name in fields}
    return sum(found.values()) if fields[0] in found else None
