"""Finds the other places where hidden files appear: bind mounts of them, and hard links. Used by `view` and `sandbox`.

A file system is known by its device, and a file in it by its path there: whatever is mounted of it, and wherever, the
kernel lists with both. Hard links are known by device and inode.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import ExitStack, suppress
from functools import cache

from msgspec import Struct

from moot.tools.files.mount_table import Region, find_mount_id, find_regions, read_mounts
from moot.tools.files.off_limits import Identity, file_identity
from moot.tools.files.project_folder import is_beneath
from moot.tools.sandbox.mounts import LinkRefused, Mounts

_MOST_OWN = 2_000
_MOST_ENTRIES = 10_000
_DEEPEST_OWN = 2
_MOST_OF_PROGRAM = 50_000


class Regions(Struct, frozen=True, kw_only=True):
    """Moot's own files, and the part of them that contains the working directories of conversations."""

    own: Sequence[Region] = ()
    spared: Sequence[Region] = ()


def list_regions(paths: Iterable[str], *, spared: str) -> Regions:
    """Return the regions of the paths, and of the part of them that is spared."""
    mounts = read_mounts()
    own = find_regions(paths, mounts, spared=spared)
    return Regions(own=own, spared=find_regions([spared], mounts) if spared else [])


def find_other_places(paths: Sequence[str], *, spared: str = "") -> list[str]:
    """Return where else the paths or parts of them are mounted: outside of them, or within `spared`."""
    mounts = read_mounts()
    known = set(map(os.path.realpath, paths))
    shown = (
        region.find_mount_point(mount) for region in find_regions(paths, mounts, spared=spared) for mount in mounts
    )
    rooms = [spared] if spared else []
    found = dict.fromkeys(filter(None, shown))
    return [place for place in found if not _is_within(place, known) or _is_within(place, rooms)]


def find_exposed(pid: int, regions: Regions, *, allowed: Sequence[str]) -> str:
    """Return a path at which a process can see Moot's own files; empty if there is none.

    Not counted are mounts of what is strictly inside `spared`, and places beneath those that are `allowed`.
    """
    with ExitStack() as stack:
        look = Mounts(stack)
        root = look.keep(os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        for mount in read_mounts(pid):
            if any(each.device == mount.device and _is_inside(mount.root, each.path) for each in regions.spared):
                continue
            for place in filter(None, (region.find_mount_point(mount) for region in regions.own)):
                if _is_within(place, allowed):
                    continue
                # Something may lie over it, or over a folder on the way.
                with suppress(OSError, LinkRefused):
                    if find_mount_id(look.open_in(root, place)) == mount.number:
                        return place
    return ""


def find_hard_links(own: Iterable[str], roots: Iterable[str], *, spared: str = "") -> list[str]:
    """Return hard links in the roots to Moot's own files. Searches only if one of those has more than one link."""
    wanted = set(_list_linked(own, spared))
    return [path for root in roots for path in _find_files(root, wanted)] if wanted else []


def find_program_links(program: Sequence[str], root: str) -> list[str]:
    """Return the packages in a root that share files with the program: uv and conda link them into each environment.

    A module that lies beside the packages, or in the root itself, is returned alone.
    """
    wanted = _list_program_links(tuple(program))
    paths = _find_files(root, wanted) if wanted else ()
    outside = (path for path in paths if not _is_within(path, program))
    return list(dict.fromkeys(path if _is_alone(path, root) else os.path.dirname(path) for path in outside))


def _is_alone(path: str, root: str) -> bool:
    folder = os.path.dirname(path)
    return folder == root or os.path.basename(folder) in ("site-packages", "bin")


@cache
def _list_program_links(program: tuple[str, ...]) -> frozenset[Identity]:
    """Return the files of the program with more than one link. They are looked for once, as they are at the start."""
    found = (status for folder in program for _, status in _walk_files(folder, most=_MOST_OF_PROGRAM))
    return frozenset(file_identity(status) for status in found if status.st_nlink > 1)


def _list_linked(own: Iterable[str], spared: str) -> Iterator[Identity]:
    """Return the own files with more than one link, to a limited depth: keys, configuration, store and logs."""
    for place in map(os.path.realpath, own):
        for _, status in (*_stat_itself(place), *_walk_files(place, most=_MOST_OWN, depth=_DEEPEST_OWN, spared=spared)):
            if status.st_nlink > 1:
                yield file_identity(status)


def _find_files(root: str, wanted: Set[Identity]) -> Iterator[str]:
    for path, status in _walk_files(root, most=_MOST_ENTRIES):
        if file_identity(status) in wanted:
            yield path


def _stat_itself(path: str) -> Iterator[tuple[str, os.stat_result]]:
    with suppress(OSError):
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            yield path, status


def _walk_files(
    folder: str, *, most: int, depth: int = sys.maxsize, spared: str = ""
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files among the first entries below a folder, breadth first."""
    folders = [(folder, 0)]
    for place, level in folders:
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                most -= 1
                if most < 0:
                    return
                if entry.is_dir(follow_symlinks=False):
                    if level < depth and entry.path != spared:
                        folders.append((entry.path, level + 1))
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False)


def _is_inside(path: str, folder: str) -> bool:
    return path != folder and is_beneath(path, folder)


def _is_within(path: str, folders: Iterable[str]) -> bool:
    return any(is_beneath(path, folder) for folder in folders)
