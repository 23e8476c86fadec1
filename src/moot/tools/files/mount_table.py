"""The mount table: what is mounted where, and which mounts show a given path or a part of it a second time.

A file system is known by its device, and a file in it by its path there: whatever is mounted of it, and wherever, the
kernel lists with both. Used by `confined_paths` and by the sandbox.
"""

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from moot.tools.files.project_folder import is_beneath

# What stands for the id of a mount where the system does not tell it.
NO_MOUNT_ID = -1
_MOST_FACTS = 4096


class Mounted(Struct, frozen=True):
    """A mount: its id, its mount point, and the part of a file system that is mounted there."""

    number: int
    place: str
    device: str
    root: str


class Region(Struct, frozen=True):
    """A part of a file system, identified by its path within it, independent of where it is mounted."""

    device: str
    path: str

    def find_mount_point(self, mount: Mounted) -> str:
        """Return the path at which the mount shows this part or something in it; empty if it does not."""
        if mount.device != self.device:
            return ""
        if is_beneath(self.path, mount.root):
            return os.path.normpath(os.path.join(mount.place, os.path.relpath(self.path, mount.root)))
        return mount.place if is_beneath(mount.root, self.path) else ""


def read_mounts(pid: int | str = "self") -> list[Mounted]:
    return _parse(_read_table(pid))


def _read_table(pid: int | str) -> str:
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        return table.read()


def _parse(table: str) -> list[Mounted]:
    found = []
    # A name can contain other line ends, which are not escaped.
    for line in filter(None, table.split("\n")):
        number, _, device, root, place, _ = line.split(" ", 5)
        found.append(Mounted(int(number), _unescape_field(place), device, _unescape_field(root)))
    return found


def find_regions(paths: Iterable[str], mounts: Sequence[Mounted], *, spared: str = "") -> list[Region]:
    """Return the regions of the paths and of what is mounted in them, except in `spared`. They need not exist yet."""
    by_number = {mount.number: mount for mount in mounts}
    regions: list[Region] = []
    for path in dict.fromkeys(map(os.path.realpath, paths)):
        mount = by_number.get(_find_mount_of(path))
        if mount is not None and is_beneath(path, mount.place):
            inner = os.path.relpath(path, mount.place)
            regions.append(Region(mount.device, os.path.normpath(os.path.join(mount.root, inner))))
        within = (each for each in mounts if each.place != path and is_beneath(each.place, path))
        regions += [
            Region(each.device, each.root) for each in within if not spared or not is_beneath(each.place, spared)
        ]
    return list(dict.fromkeys(regions))


def shows_part_of(mount_id: int, paths: Sequence[str], *, spared: str = "") -> bool:
    """Whether a mount shows one of the paths or a part of it, and nothing above it. True if it is not in the table.

    What shows a whole path is recognised by the path itself, whatever lies above it.
    """
    try:
        table = _read_table("self")
    except OSError:
        return False
    return mount_id in _find_partial(table, tuple(paths), spared) or f"\n{mount_id} " not in f"\n{table}"


@lru_cache(maxsize=8)
def _find_partial(table: str, paths: tuple[str, ...], spared: str) -> frozenset[int]:
    mounts = _parse(table)
    regions = find_regions(paths, mounts, spared=spared)
    return frozenset(
        mount.number
        for mount in mounts
        if any(region.device == mount.device and is_beneath(mount.root, region.path) for region in regions)
    )


def find_mount_id(descriptor: int) -> int:
    """Return the id of the mount that contains an open file; NO_MOUNT_ID where the system does not tell."""
    try:
        facts = os.open(f"/proc/self/fdinfo/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return NO_MOUNT_ID
    try:
        text = os.read(facts, _MOST_FACTS).decode("ascii", "replace")
    finally:
        os.close(facts)
    found = (line for line in text.splitlines() if line.startswith("mnt_id:"))
    return next((int(line.split()[1]) for line in found), NO_MOUNT_ID)


def _find_mount_of(path: str) -> int:
    """Return the id of the mount that contains a path, which need not exist."""
    while True:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            if path == "/":
                return -1
            path = os.path.dirname(path)
            continue
        try:
            return find_mount_id(descriptor)
        finally:
            os.close(descriptor)


def _unescape_field(field: str) -> str:
    """Decode a path of the mount table, where blanks, tabs, line ends and backslashes are octal escapes."""
    first, *others = field.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in others)
