"""Paths that no tool may read or change: Moot's own files and private files of the user."""

import os
import unicodedata
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from moot.tools.files.mount_table import shows_part_of

# Device and inode, which identify a file regardless of its path.
Identity = tuple[int, int]

# File systems that expose the kernel and the daemon's own process, including its environment.
_ALWAYS = ("/proc", "/sys", "/dev")
_MOST_FILES = 20_000


def file_identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


class OffLimits(Struct, frozen=True, kw_only=True):
    """Moot's own folders and files, and the user's `private` files.

    A folder strictly inside `workspaces` can still be a working directory.
    """

    places: Sequence[str] = ()
    workspaces: str = ""
    private: Sequence[str] = ()
    # What `identities` returned before; None if it is to be looked up for each file.
    known: frozenset[Identity] | None = None

    def look_up(self) -> "OffLimits":
        """Return the same with the identities of now: for listings, whose files are checked again when read."""
        return replace(self, known=frozenset(self.identities()))

    def identities(self, *, with_parents: bool = False) -> set[Identity]:
        """The current device and inode of each place, and of all its parents if asked."""
        if self.known is not None and not with_parents:
            return set(self.known)
        found: set[Identity] = set()
        # A link counts as its target; its parents are those of the link itself.
        for path in self._paths() if with_parents else [*self._own_paths(), *self.private]:
            lineage = [path]
            while with_parents and lineage[-1] != "/":
                lineage.append(os.path.dirname(lineage[-1]))
            found.update(known for each in lineage if (known := _path_identity(each)) is not None)
        return found

    def reserves(self, folder: os.stat_result, name: str) -> bool:
        """Whether creating `name` in this folder would create one of the places."""
        wanted = _fold_name(name)
        return any(
            _fold_name(os.path.basename(path)) == wanted
            and _path_identity(os.path.dirname(path)) == file_identity(folder)
            for path in self._paths()
        )

    def exempts(self, chain: Sequence[Identity]) -> bool:
        """Whether a working directory (given with all its parents) is a workspace."""
        return bool(self.workspaces) and _path_identity(self.workspaces) in chain[1:]

    def mounts(self, mount_id: int) -> bool:
        """Whether a mount shows only a part of one of the places, so that nothing above it tells what it is."""
        paths = [place for place in (*self.places, *self.private) if os.path.isabs(place)]
        return bool(paths) and shows_part_of(mount_id, paths, spared=self.workspaces)

    def owns(self, file: os.stat_result) -> bool:
        """Whether the file is one of Moot's own files under another name. True if that cannot be determined."""
        wanted = file_identity(file)
        return any(known == wanted or count >= _MOST_FILES for count, known in enumerate(self._files()))

    def _paths(self) -> list[str]:
        """Each place as configured and with links resolved, since an attacker may create either."""
        return [*self._own_paths(), *self._private_paths()]

    def _own_paths(self) -> list[str]:
        written = [os.path.abspath(place) for place in (*self.places, *_ALWAYS)]
        return list(dict.fromkeys([*written, *map(os.path.realpath, written)]))

    def _private_paths(self) -> Iterator[str]:
        # There are many and the home folders have no links, so only the last component is resolved.
        for place in self.private:
            yield place
            if os.path.islink(place):
                yield os.path.realpath(place)

    def _files(self) -> Iterator[Identity]:
        spared = os.path.realpath(self.workspaces) if self.workspaces else ""
        for place in self.places:
            if (known := _path_identity(place)) is not None:
                yield known
            for folder, folders, files in os.walk(os.path.realpath(place)):
                folders[:] = [name for name in folders if os.path.join(folder, name) != spared]
                for name in files:
                    if (known := _path_identity(os.path.join(folder, name))) is not None:
                        yield known


def _path_identity(path: str) -> Identity | None:
    try:
        return file_identity(os.stat(path))
    except OSError:
        return None


def _fold_name(name: str) -> str:
    """Normalise a name for comparison, as the most tolerant file system would."""
    return unicodedata.normalize("NFC", name).casefold()
