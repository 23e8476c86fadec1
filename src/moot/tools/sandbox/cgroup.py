"""Control groups that limit processes and memory of commands when the daemon runs as root."""

import contextlib
import os
import secrets
from pathlib import Path

_VERSION_1 = Path("/sys/fs/cgroup/pids")
_VERSION_2 = Path("/sys/fs/cgroup")


class ProcessBound:
    """One control group for one command; gone with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def make(cls, processes: int) -> "ProcessBound | None":
        """None where the kernel has no such group or lets us make none."""
        root = find_parent_group()
        if root is None:
            return None
        folder = root / f"moot-{os.getpid()}-{secrets.token_hex(6)}"
        try:
            folder.mkdir()
        except OSError:
            return None
        try:
            (folder / "pids.max").write_text(str(processes))
        except OSError:
            with contextlib.suppress(OSError):
                folder.rmdir()
            return None
        return cls(folder)

    def add(self, pid: int) -> bool:
        """Put a process and the children it has now into the group; those to come are in it by themselves."""
        try:
            for member in _list_descendants(pid):
                (self._folder / "cgroup.procs").write_text(str(member))
        except OSError:
            return False
        return True

    def remove(self) -> bool:
        """Whether it is gone; a group with a dying process in it stays a moment longer."""
        try:
            self._folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def sweep() -> None:
    """Remove the groups of daemons that are gone."""
    root = find_parent_group()
    if root is not None:
        for folder in root.glob("moot-*"):
            if not Path(f"/proc/{folder.name.split('-')[1]}").exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()


def find_parent_group() -> Path | None:
    """Where groups can be made: the version 1 hierarchy for processes, or a version 2 one that hands them down."""
    if (_VERSION_1 / "cgroup.procs").exists() and os.access(_VERSION_1, os.W_OK):
        return _VERSION_1
    control = _VERSION_2 / "cgroup.subtree_control"
    with contextlib.suppress(OSError):
        if "pids" in control.read_text().split() and os.access(_VERSION_2, os.W_OK):
            return _VERSION_2
    return None


def _list_descendants(pid: int) -> list[int]:
    found = [pid]
    for member in found:
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{member}/task/{member}/children").read_text()
            found += [int(child) for child in children.split()]
    return found
