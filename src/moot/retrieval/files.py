"""Lists and reads the files of a source, confined to the working directory it was indexed from. Used by the indexer."""

import os
import stat
from collections.abc import Callable, Iterable

from msgspec import Struct

from moot.domain.errors import BadRequest, Conflict, MootError, NotFound, TooLarge
from moot.domain.ports.clock import Clock
from moot.domain.rag import Source, SourceKind
from moot.tools.files.confined_paths import ConfinedFolder, translate_errors
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.ripgrep import Query, choose_ignore_files, find_ripgrep, list_files, list_ignore_files
from moot.tools.threads import run_in_thread


class FileState(Struct, frozen=True):
    """What tells that a file has changed, without reading it."""

    size: int
    # When its content or its attributes were changed: unlike the time of the content, no program can set this one back.
    modified: int


def _read_state(status: os.stat_result) -> FileState:
    return FileState(status.st_size, status.st_ctime_ns)


class Place(Struct, frozen=True, kw_only=True):
    """A file or folder inside a working directory, both as absolute paths without links."""

    kind: SourceKind
    path: str
    folder: str


class SourceFiles:
    def __init__(self, off_limits: Callable[[], OffLimits], clock: Clock) -> None:
        self._clock = clock
        self._off_limits = off_limits

    async def locate(self, path: str, cwd: str) -> Place:
        """Return the place of a path in a working directory; raises if it is neither a file nor a folder in it."""
        return await run_in_thread(self._locate, path, cwd)

    def _locate(self, path: str, cwd: str) -> Place:
        with ConfinedFolder(cwd, self._off_limits()) as ground:
            spot = ground.spot(path)
            status = spot.status()
            if status is None:
                raise NotFound(f"{path} does not exist", fix="Check the path.")
            if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
                raise BadRequest(f"{path} is neither a file nor a folder", fix="Name a file or a folder.")
            kind = SourceKind.FOLDER if stat.S_ISDIR(status.st_mode) else SourceKind.FILE
            return Place(kind=kind, path=ground.real(spot), folder=ground.real(ground.spot(".")))

    async def scan(self, source: Source, most: int) -> dict[str, FileState]:
        """Return the files of a source that may be read, by absolute path. Ignored and hidden files are left out.

        It is empty if the source is gone; raises TooLarge if there are more than `most`.
        """
        return await self.scan_place(Place(kind=source.kind, path=source.place, folder=source.folder), most)

    async def scan_place(self, place: Place, most: int) -> dict[str, FileState]:
        inner = _find_inner(place.path, place.folder)
        if place.kind is SourceKind.FILE:
            return await run_in_thread(self._look, place.folder, [inner])
        if not await run_in_thread(os.path.isdir, place.path):
            return {}
        query = await run_in_thread(_build_query, place.folder, inner, most, self._clock)
        found = await list_files(query)
        if len(found.paths) > most:
            raise TooLarge(
                f"{place.path} has more than {most} files",
                fix="Index a folder inside it, or raise max_files in [rag].",
            )
        if found.stopped:
            raise BadRequest(f"{place.path} cannot be listed in full", fix="Index a folder inside it.")
        return await run_in_thread(self._look, place.folder, found.paths)

    async def find_states(self, source: Source, names: Iterable[str]) -> dict[str, FileState]:
        """Return the states of files of a source, without those that are gone or may not be read."""
        paths = [_find_inner(name, source.folder) for name in names]
        return await run_in_thread(self._look, source.folder, paths)

    def _look(self, folder: str, paths: list[str]) -> dict[str, FileState]:
        states: dict[str, FileState] = {}
        try:
            with ConfinedFolder(folder, self._off_limits().look_up()) as ground:
                _check_unmoved(ground, folder)
                for path in sorted(paths):
                    state = _find_state(ground, path)
                    if state is not None:
                        states[os.path.normpath(os.path.join(folder, path))] = state
        except NotFound:
            return {}
        except Conflict as error:
            if not isinstance(error.__cause__, NotADirectoryError):
                raise
            return {}
        return states

    async def read(self, source: Source, name: str, most: int) -> tuple[bytes, FileState]:
        """Return the content of a file of the source and the state it was read in."""
        return await run_in_thread(self._read, source.folder, _find_inner(name, source.folder), most)

    def _read(self, folder: str, path: str, most: int) -> tuple[bytes, FileState]:
        with ConfinedFolder(folder, self._off_limits()) as ground:
            _check_unmoved(ground, folder)
            file, status = ground.open_file(ground.spot(path, follow=False))
            if status.st_size > most:
                raise TooLarge(f"it has {status.st_size} bytes; at most {most} are read", fix="Split it.")
            with translate_errors(path), open(file, "rb", closefd=False) as reader:
                data = reader.read(most + 1)
        if len(data) > most:
            raise TooLarge(f"it has more than {most} bytes", fix="Split it.")
        return data, _read_state(status)


def _check_unmoved(ground: ConfinedFolder, folder: str) -> None:
    """Raise if a folder on the way was replaced by a link after the source was indexed."""
    if ground.real(ground.spot(".")) != folder:
        raise NotFound(f"{folder} is another folder now", fix="Index it again.")


def _find_inner(path: str, folder: str) -> str:
    """Return the path from the folder on; both are absolute and without links."""
    return path.removeprefix(folder.rstrip("/")).lstrip("/") or "."


def _build_query(folder: str, inner: str, most: int, clock: Clock) -> Query:
    top = "" if inner == "." else f"{inner}/"
    return Query(
        program=find_ripgrep(),
        clock=clock,
        cwd=folder,
        ignoring=choose_ignore_files(folder),
        ignore_files=list_ignore_files(folder),
        targets=[inner],
        most=most + 1,
        wants=lambda path: not any(part.startswith(".") for part in path.removeprefix(top).split("/")),
    )


def _find_state(ground: ConfinedFolder, path: str) -> FileState | None:
    """Return the state of a file; None if it is off limits, gone, or no regular file."""
    try:
        with ground.passing():
            status = ground.spot(path, follow=False).status()
    except (MootError, OSError):
        return None
    if status is None or not stat.S_ISREG(status.st_mode):
        return None
    return _read_state(status)
