"""Clears set-id bits of files that a command left in its working directory. Called by `cleanup` when it is over.

The seccomp filter refuses to set them. This is for what it cannot see: a machine whose calls it does not know, and a
set-id file that was there before and was written through a mapping, which leaves its bits as they were.
"""

import os
import stat
import time
from contextlib import suppress

MOST_ENTRIES = 10_000
_DEEPEST = 64
_SET_ID = stat.S_ISUID | stat.S_ISGID
# CLOCK_REALTIME_COARSE: the one that files are stamped with.
_FILE_CLOCK = 5
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def file_time_ns() -> int:
    """Return the kernel's current change time for files; unprivileged programs cannot set it."""
    return time.clock_gettime_ns(_FILE_CLOCK)


def clear_set_id(folder: int, *, since: int) -> list[str]:
    """Clear the bits of every file changed since then. Return their paths in the folder.

    At most MOST_ENTRIES are looked at, those in folders that were changed last before the others.
    """
    search = _Search(since)
    with suppress(OSError):
        search.walk(os.open(".", _FOLDER, dir_fd=folder), "", _DEEPEST)
    return search.found


class _Search:
    def __init__(self, since: int) -> None:
        self._since = since
        self._left = MOST_ENTRIES
        self.found: list[str] = []

    def walk(self, folder: int, path: str, depth: int) -> None:
        """Check an open folder and its subfolders, and close it. Every open uses a single path component."""
        try:
            for name in self._list(folder, path):
                if depth and self._left > 0:
                    with suppress(OSError):
                        self.walk(os.open(name, _FOLDER, dir_fd=folder), f"{path}{name}/", depth - 1)
        finally:
            os.close(folder)

    def _list(self, folder: int, path: str) -> list[str]:
        """Check the files of a folder. Return its subfolders, the last changed first."""
        folders: list[tuple[int, str]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self._left -= 1
                if self._left < 0:
                    break
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        folders.append((status.st_mtime_ns, entry.name))
                    elif self._is_new_set_id(status) and self._clear(folder, entry.name):
                        self.found.append(f"{path}{entry.name}")
        return [name for _, name in sorted(folders, reverse=True)]

    def _is_new_set_id(self, status: os.stat_result) -> bool:
        has_bits = stat.S_ISREG(status.st_mode) and bool(status.st_mode & _SET_ID)
        return has_bits and status.st_ctime_ns >= self._since

    def _clear(self, folder: int, name: str) -> bool:
        """Clear the bits of the file that was checked; another file may have its name now."""
        file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            status = os.fstat(file)
            if not self._is_new_set_id(status):
                return False
            os.chmod(f"/proc/self/fd/{file}", stat.S_IMODE(status.st_mode) & ~_SET_ID)
        finally:
            os.close(file)
        return True
