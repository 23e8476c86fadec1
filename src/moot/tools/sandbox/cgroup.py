"""Control groups, version 1 and 2, that limit the processes and the memory of a command. Used by `limits`.

Groups are made beneath the group of the daemon itself, so that its own limits hold for commands too. In version 2 a
group with processes cannot divide its resources: a daemon that a service manager has handed its group to moves into a
group beneath it first, see `claim_own_group`.
"""

import contextlib
import os
import secrets
from pathlib import Path

from msgspec import Struct

_SYSTEM = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_CONTROLLERS = ("memory", "pids")
_DAEMON = "daemon.moot"
# Written only where the kernel has them.
_OPTIONAL = ("memory.swap.max", "memory.oom.group", "memory.memsw.limit_in_bytes")


class Parents(Struct, frozen=True, kw_only=True):
    """The folders in which groups can be created, by controller; in version 2 it is the same for all."""

    version: int
    folders: dict[str, Path]

    @property
    def name(self) -> str:
        return f"cgroup v{self.version}"


class CommandGroup:
    """The groups of one command; removed when it ends."""

    def __init__(self, parents: Parents, *, processes: int, memory: int) -> None:
        name = f"moot-{os.getpid()}-{secrets.token_hex(6)}"
        self._version = parents.version
        self._values = {"pids": processes, "memory": memory}
        self._folders = {controller: folder / name for controller, folder in parents.folders.items()}

    def make(self) -> bool:
        """Create the groups. Return whether the kernel allowed it."""
        try:
            for folder in self._distinct():
                folder.mkdir()
            for controller, folder in self._folders.items():
                for name, value in _settings(self._version, controller, self._values[controller]):
                    with contextlib.suppress(FileNotFoundError) if name in _OPTIONAL else contextlib.nullcontext():
                        _write(folder / name, value)
        except OSError:
            self.remove()
            return False
        return True

    def add(self, pid: int) -> bool:
        """Put a process and its current children into the group; later children are in it automatically."""
        try:
            for member in _list_descendants(pid):
                for folder in self._distinct():
                    _write(folder / "cgroup.procs", member)
        except OSError:
            return False
        return True

    def list_exceeded(self) -> list[str]:
        """Return the limits that were reached: memory, processes."""
        reached = {"memory": ("oom_kill", "memory.events", "memory.oom_control"), "pids": ("max", "pids.events")}
        return [
            controller
            for controller, folder in self._folders.items()
            for word, *files in [reached[controller]]
            if any(_read_count(folder / file, word) for file in files)
        ]

    def remove(self) -> bool:
        """Remove the groups. Return False while a process in one of them is still ending."""
        gone = True
        for folder in self._distinct():
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
        return gone

    def _distinct(self) -> list[Path]:
        return list(dict.fromkeys(self._folders.values()))


def find_working_parents() -> Parents | None:
    """Return where groups can be created. Probed once."""
    parents = find_parents()
    if parents is None:
        return None
    trial = CommandGroup(parents, processes=1, memory=1 << 30)
    return parents if trial.make() and trial.remove() else None


def find_parents(system: Path = _SYSTEM, own: Path = _OWN) -> Parents | None:
    """Return where groups could be created; None if there is no such place or it is not writable."""
    paths = _read_own_paths(own)
    return _find_unified(system, paths.get("", "/")) or _find_separate(system, paths)


def claim_own_group(system: Path = _SYSTEM, own: Path = _OWN) -> None:
    """Prepare a version 2 group for commands, if it was delegated to this daemon and has no other process."""
    path = _read_own_paths(own).get("")
    if path is None or not (system / "cgroup.controllers").exists():
        return
    group = system / path.strip("/")
    with contextlib.suppress(OSError):
        if group.name == _DAEMON or not _is_delegated(group) or not _is_alone_in(group):
            return
        leaf = group / _DAEMON
        leaf.mkdir(exist_ok=True)
        _write(leaf / "cgroup.procs", os.getpid())
        try:
            _write(group / "cgroup.subtree_control", " ".join(f"+{name}" for name in _CONTROLLERS))
        except OSError:
            # It did not help, so it is undone.
            _write(group / "cgroup.procs", os.getpid())
            leaf.rmdir()


def sweep() -> None:
    """Remove the groups of daemons that no longer run."""
    parents = find_parents()
    for parent in dict.fromkeys(parents.folders.values()) if parents is not None else ():
        for folder in parent.glob("moot-*"):
            if not Path(f"/proc/{folder.name.split('-')[1]}").exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _find_unified(system: Path, path: str) -> Parents | None:
    if not (system / "cgroup.controllers").exists():
        return None
    own = system / path.strip("/")
    # The root group is used by a daemon of root to which nothing was delegated.
    for folder in (own.parent if own.name == _DAEMON else own, system):
        with contextlib.suppress(OSError):
            enabled = (folder / "cgroup.subtree_control").read_text().split()
            if os.access(folder, os.W_OK) and (found := [name for name in _CONTROLLERS if name in enabled]):
                return Parents(version=2, folders=dict.fromkeys(found, folder))
    return None


def _find_separate(system: Path, paths: dict[str, str]) -> Parents | None:
    folders: dict[str, Path] = {}
    for name in _CONTROLLERS:
        # In a container the hierarchy that is mounted may begin at our own group.
        for folder in (system / name / paths.get(name, "/").strip("/"), system / name):
            if (folder / "cgroup.procs").exists() and os.access(folder, os.W_OK):
                folders.setdefault(name, folder)
    return Parents(version=1, folders=folders) if folders else None


def _settings(version: int, controller: str, limit: int) -> list[tuple[str, int]]:
    if controller == "pids":
        return [("pids.max", limit)]
    if version == 2:
        return [("memory.max", limit), ("memory.swap.max", 0), ("memory.oom.group", 1)]
    return [("memory.limit_in_bytes", limit), ("memory.memsw.limit_in_bytes", limit)]


def _is_delegated(group: Path) -> bool:
    """Return whether the group was delegated to us: it belongs to our user, or for root it is marked so."""
    if os.getuid() != 0:
        return os.access(group / "cgroup.subtree_control", os.W_OK)
    for mark in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(group, mark) == b"1":
                return True
    return False


def _is_alone_in(group: Path) -> bool:
    return [int(pid) for pid in (group / "cgroup.procs").read_text().split()] == [os.getpid()]


def _read_own_paths(own: Path) -> dict[str, str]:
    """Return the path of this process's group by controller; by "" in version 2."""
    paths: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            paths |= dict.fromkeys(controllers.split(","), path)
    return paths


def _read_count(file: Path, word: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        return next((int(line.split()[1]) for line in file.read_text().splitlines() if line.split()[0] == word), 0)
    return 0


def _write(file: Path, value: object) -> None:
    # Unbuffered, because a buffer would report an error twice; and never as a new file.
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def _list_descendants(pid: int) -> list[int]:
    found = [pid]
    for member in found:
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{member}/task/{member}/children").read_text()
            found += [int(child) for child in children.split()]
    return found
