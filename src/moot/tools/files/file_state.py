"""What is at a path: nothing, a file, a link or a folder; how it is looked at and how it is put back."""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from moot.domain.errors import Conflict, NotFound, TooLarge
from moot.tools.files.change import remove_entry, replace, sync_folder
from moot.tools.files.confined_paths import ConfinedFolder, PathEntry, translate_errors
from moot.tools.files.read_files import digest_of

_MOST_ENTRIES = 2_000


class FileState(Struct, frozen=True, kw_only=True):
    """`content` is the digest of a file's content, or where a link leads. None stands for a path with nothing there."""

    kind: str
    content: str = ""
    mode: int = 0
    size: int = 0

    def is_same(self, other: "FileState | None") -> bool:
        """Whether kind and content are the same; the mode may differ."""
        return other is not None and (self.kind, self.content) == (other.kind, other.content)


FOLDER = FileState(kind="folder", mode=0o777)


class Captured(Struct, frozen=True, kw_only=True):
    path: str
    state: FileState | None
    data: bytes = b""


def state_of_content(data: bytes, mode: int = 0) -> FileState:
    return FileState(kind="file", content=digest_of(data), mode=mode, size=len(data))


def capture(ground: ConfinedFolder, path: str, most: int) -> Captured:
    """Look at what is there, with its content. Raises TooLarge for a file of more than `most` bytes."""
    try:
        spot = ground.spot(path, follow=False)
    except NotFound:
        return Captured(path=path, state=None)
    status = spot.status()
    if status is None:
        return Captured(path=path, state=None)
    mode = stat.S_IMODE(status.st_mode) & 0o777
    if stat.S_ISDIR(status.st_mode):
        return Captured(path=path, state=FileState(kind="folder", mode=mode))
    with translate_errors(path):
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(spot.name, dir_fd=spot.folder)
            return Captured(path=path, state=FileState(kind="link", content=target))
        if not stat.S_ISREG(status.st_mode):
            raise TooLarge(f"{path} is not a regular file", fix="It cannot be restored.")
        if status.st_size > most:
            raise TooLarge(f"{path} has {status.st_size} bytes", fix="It cannot be restored.")
        with ground.passing():
            file, _ = ground.open_file(spot)
            with open(file, "rb", closefd=False) as reader:
                data = reader.read(most + 1)
    if len(data) > most:
        raise TooLarge(f"{path} has more than {most} bytes", fix="It cannot be restored.")
    return Captured(path=path, state=state_of_content(data, mode), data=data)


def capture_all(ground: ConfinedFolder, paths: Iterable[str], most: int) -> list[Captured]:
    """Look at what is at each path. The bound is for all together."""
    found: list[Captured] = []
    for path in paths:
        found.append(capture(ground, path, most))
        most -= len(found[-1].data)
    return found


def capture_tree(ground: ConfinedFolder, path: str, most: int) -> list[Captured]:
    """Look at everything at and beneath a path; a folder comes after what is in it. The bound is for all together."""
    found: list[Captured] = []
    for each in _walk_tree(ground, path):
        found.append(capture(ground, each, most - sum(len(one.data) for one in found)))
        if len(found) > _MOST_ENTRIES:
            raise TooLarge(f"{path} has more than {_MOST_ENTRIES} entries", fix="It cannot be restored.")
    return found


def _walk_tree(ground: ConfinedFolder, path: str) -> Iterator[str]:
    spot = ground.spot(path, follow=False)
    status = spot.status()
    if status is not None and stat.S_ISDIR(status.st_mode):
        with ground.passing(), translate_errors(path), os.scandir(ground.open_folder(spot)) as entries:
            # More would be refused: there can be millions.
            names = sorted(entry.name for entry in islice(entries, _MOST_ENTRIES + 1))
        for name in names:
            yield from _walk_tree(ground, f"{path}/{name}")
    yield path


def put(ground: ConfinedFolder, path: str, state: FileState | None, data: bytes) -> None:
    """Make the path what it was. A folder that is to go stays if there is something in it."""
    spot = _find(ground, path, state)
    if spot is None:
        return
    status = spot.status()
    if state is None:
        with translate_errors(path):
            remove_entry(spot)
        return
    if state.kind == "folder":
        if status is None:
            with translate_errors(path):
                os.mkdir(spot.name, state.mode, dir_fd=spot.folder)
                sync_folder(spot.folder)
        return
    if state.kind == "link":
        with translate_errors(path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(spot.name, dir_fd=spot.folder)
            os.symlink(state.content, spot.name, dir_fd=spot.folder)
            sync_folder(spot.folder)
        return
    replace(spot, data, mode=state.mode)


def check_folder(ground: ConfinedFolder, path: str) -> None:
    """Raise Conflict if the folder that a path is in is gone."""
    _find(ground, path, FOLDER)


def _find(ground: ConfinedFolder, path: str, state: FileState | None) -> PathEntry | None:
    try:
        return ground.spot(path, follow=False)
    except NotFound:
        if state is None:
            return None
        folder = os.path.dirname(path)
        raise Conflict(f"the folder {folder} is gone, so {path} cannot be restored", fix="Make it again.") from None
