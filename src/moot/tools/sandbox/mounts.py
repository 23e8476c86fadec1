"""Mounts: the mounts of one sandbox, made from open file descriptors instead of paths. Used by `view` and `sandbox`."""

import errno
import os
import stat
from contextlib import ExitStack

from moot.domain.errors import Forbidden
from moot.tools.files.mount_table import find_mount_id, read_mounts
from moot.tools.files.off_limits import Identity, file_identity

_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Mounts:
    """Arguments for bubblewrap, the descriptors they refer to, and the mounts to verify before a command starts."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.words: list[str] = []
        self.kept: list[int] = []
        # What must be mounted where; None for something that hides. Others may be changing the folder these lie in, and
        # bubblewrap makes names of descriptors again: it could be led astray.
        self.nested: dict[str, Identity | None] = {}
        # What of a repository can be neither written nor moved.
        self.pinned: list[str] = []

    def add(self, *words: str) -> None:
        self.words += words

    def bind(self, descriptor: int, destination: str, *, writable: bool, nested: bool = False) -> None:
        self.words += ["--bind-fd" if writable else "--ro-bind-fd", str(descriptor), destination]
        self.kept.append(descriptor)
        if nested:
            self.nested[destination] = file_identity(os.fstat(descriptor))

    def hide(self, path: str, *, folder: bool, nested: bool = False) -> None:
        if folder:
            self.words += ["--perms", "0000", "--size", "4096", "--tmpfs", path, "--remount-ro", path]
        else:
            self.words += ["--ro-bind", "/dev/null", path]
        if nested:
            self.nested[path] = None

    def open(self, path: str) -> int:
        """Open a path that was resolved before and so contains no link; a link that is there now is refused."""
        return self.open_in(self.keep(os.open("/", _PLACE | os.O_DIRECTORY)), path.strip("/"))

    def open_in(self, folder: int, path: str) -> int:
        """Open a path below a folder, component by component. Raises FileNotFoundError, or Linked at a link."""
        for name in filter(None, path.split("/")):
            if name in (".", ".."):
                raise ValueError(path)
            folder = self.keep(os.open(name, _PLACE, dir_fd=folder))
            if stat.S_ISLNK(os.fstat(folder).st_mode):
                raise LinkRefused(name)
        return folder

    def keep(self, descriptor: int) -> int:
        self._stack.callback(os.close, descriptor)
        return descriptor


class LinkRefused(Forbidden):
    """A component of the path is a link, and links are not followed here."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is a symbolic link, which commands may not use", fix="Remove the link.")


def is_folder(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


def is_absent(error: OSError) -> bool:
    """Whether the path does not exist, also because a parent is not a folder."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR)


def are_mounted(pid: int, nested: dict[str, Identity | None]) -> bool:
    """Whether the process has its own mount at each of these places, and of the intended file."""
    mounted: dict[str, set[int]] = {}
    for mount in read_mounts(pid):
        mounted.setdefault(mount.place, set()).add(mount.number)
    with ExitStack() as stack:
        look = Mounts(stack)
        root = look.keep(os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        for place, wanted in nested.items():
            there = look.open_in(root, place)
            is_wanted = wanted in (None, file_identity(os.fstat(there)))
            if find_mount_id(there) not in mounted.get(place, ()) or not is_wanted:
                return False
    return True
