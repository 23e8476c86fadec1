"""Detects paths in a git repository that control what git executes: hooks and settings. Used by `confined_paths`."""

import os
import stat
import unicodedata

from moot.tools.files.off_limits import Identity, file_identity

GIT = ".git"
FOLDERS = ("hooks", "modules", "worktrees")
FILES = ("config", "config.worktree", "commondir", "info/attributes")
_STEPS = (GIT, "info", *FOLDERS)


def is_repository(folder: int) -> bool:
    """Whether an open folder looks like a .git folder."""
    return _has_entry(folder, "HEAD") and (
        _has_entry(folder, "commondir") or _has_entry(folder, "objects") and _has_entry(folder, "refs")
    )


class RepositoryCheck:
    """Checks each folder from a name up to the working directory for files that git executes or obeys.

    Folders are compared by identity, not by name, because a link may have led to them.
    """

    def __init__(self, name: str, status: os.stat_result | None) -> None:
        self._way = "" if name == "." else unicodedata.normalize("NFC", name).casefold()
        self._below: Identity | None = None
        # Reading a repository is allowed; creating or moving one is not.
        self.forbidden = self._way == GIT and (status is None or not stat.S_ISDIR(status.st_mode))

    def pass_through(self, folder: int) -> None:
        """Check the next folder upwards, starting with the one that contains the name."""
        if self._below is not None:
            step = next((name for name in _STEPS if _identity(folder, name) == self._below), "?")
            # A folder named .git counts even while it is empty.
            self.forbidden |= step == GIT and _controls_git(self._way)
            self._way = f"{step}/{self._way}"
        self.forbidden |= _controls_git(self._way) and is_repository(folder)
        self._below = file_identity(os.fstat(folder))


def _controls_git(way: str) -> bool:
    return way.rstrip("/") in FILES or way.partition("/")[0] in FOLDERS


def _has_entry(folder: int, name: str) -> bool:
    return _identity(folder, name) is not None


def _identity(folder: int, name: str) -> Identity | None:
    try:
        return file_identity(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError:
        return None
