"""Tells whether what was read of a project is still current, by `stat` alone. Used by `project_files`."""

import os
import stat
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec import Struct

from moot.domain.project import Project

_MOST_KEPT = 256
# A file that changed less than this before it was read may change again without its time of change showing it.
_UNCERTAIN_NS = 1_000_000_000


class _Stamp(NamedTuple):
    """What differs if a file is another one or has changed. Of a folder only who it is counts, not what is in it."""

    inode: int = 0
    device: int = 0
    owner: int = 0
    size: int = 0
    modified_at: int = 0
    changed_at: int = 0


_MISSING = _Stamp()


class _Kept(Struct, frozen=True):
    project: Project
    # What else the result depends on.
    edition: object
    stamps: dict[str, _Stamp]


class KeptProjects:
    """What was read, by working directory, as long as no file has changed and `edition` is the same."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bool], _Kept] = {}

    def find(self, cwd: str, edition: object, *, with_files: bool) -> Project | None:
        kept = self._kept.get((cwd, with_files))
        if kept is None or kept.edition != edition:
            return None
        return kept.project if all(_stamp(path) == stamp for path, stamp in kept.stamps.items()) else None

    def read(
        self, cwd: str, edition: object, read: Callable[[], tuple[Project, Iterable[str]]], *, with_files: bool
    ) -> Project:
        """Read what `read` returns and keep it. The files it names, also missing ones, must be all it depends on."""
        began = time.time_ns()
        project, paths = read()
        # Taken after reading: what has changed meanwhile is not kept.
        stamps = {path: _stamp(path) for path in paths}
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        if max((stamp.changed_at for stamp in stamps.values()), default=0) < began - _UNCERTAIN_NS:
            self._kept[cwd, with_files] = _Kept(project, edition, stamps)
        return project


def _stamp(path: str) -> _Stamp:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return _MISSING
    if stat.S_ISDIR(status.st_mode):
        return _Stamp(status.st_ino, status.st_dev, status.st_uid)
    return _Stamp(status.st_ino, status.st_dev, status.st_uid, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
