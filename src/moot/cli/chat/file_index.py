"""The files below the working directory of a chat, for the completion of `@path`. Lists them with ripgrep.

Used by completion.py. Ignored files are left out, as for the file tools.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from heapq import nsmallest

from moot.daemon.clock import SystemClock
from moot.domain.errors import MootError
from moot.tools.files.ripgrep import Query, choose_ignore_files, find_ripgrep, list_files

# More files than these are not completed.
_MOST_FILES = 100_000
_MOST_FOUND = 50
_FRESH_SECONDS = 10.0


class FileIndex:
    """The paths of the files and folders below `folder`, listed when they are first needed and again when old."""

    def __init__(self, folder: Callable[[], str]) -> None:
        self._folder = folder
        # The path in lower case, which is compared, and as it is.
        self._paths: list[tuple[str, str]] = []
        self._listed = ""
        self._listed_at = 0.0
        self._lock = asyncio.Lock()

    async def find(self, typed: str) -> list[str]:
        """The paths that fit what was typed, the best first; a folder ends with a slash."""
        folder = self._folder()
        if not folder:
            return []
        async with self._lock:
            if folder != self._listed or time.monotonic() - self._listed_at > _FRESH_SECONDS:
                await self._list(folder)
        # In a thread: fifty thousand paths take longer than a key stroke may.
        return await asyncio.to_thread(find_paths, self._paths, typed)

    async def _list(self, folder: str) -> None:
        try:
            query = Query(
                program=find_ripgrep(),
                clock=SystemClock(),
                cwd=folder,
                ignoring=choose_ignore_files(folder),
                most=_MOST_FILES,
            )
            found = (await list_files(query)).paths
        except (MootError, OSError):
            # Without ripgrep, or with a folder that is gone, there is nothing to complete.
            found = []
        self._paths = await asyncio.to_thread(_with_folders, found)
        self._listed, self._listed_at = folder, time.monotonic()


def _with_folders(files: Iterable[str]) -> list[tuple[str, str]]:
    """Files and the folders that contain them. Names that cannot be typed in a line are left out."""
    paths = {path for path in files if path.isprintable()}
    for path in list(paths):
        while (path := os.path.dirname(path)) and f"{path}/" not in paths:
            paths.add(f"{path}/")
    return [(path.casefold(), path) for path in sorted(paths)]


def find_paths(paths: Iterable[tuple[str, str]], typed: str) -> list[str]:
    """Paths that begin with what was typed, then those whose name does, then those that contain it; short first."""
    wanted = typed.casefold()
    fitting = ((_rank(folded, wanted), len(path) if wanted else 0, path) for folded, path in paths if wanted in folded)
    return [path for _, _, path in nsmallest(_MOST_FOUND, fitting)]


def _rank(folded: str, wanted: str) -> int:
    if folded.startswith(wanted):
        # Without a slash more, what is right here comes before what is in its folders.
        return 0 if "/" not in folded[len(wanted) :].rstrip("/") else 1
    name = folded.rstrip("/").rpartition("/")[2]
    return 2 if name.startswith(wanted) else 3
