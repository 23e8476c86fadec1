"""The archive of a home: writes it, and unpacks one from anywhere within limits. Used by home_backup.py and restore.py.

A zip file with `manifest.json` and entries below fixed names. An archive may be hostile: it is unpacked only below the
given folders, without links, and never to more than it declares.
"""

import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from moot.domain.errors import BadRequest, TooLarge

MANIFEST = "manifest.json"
STORE = "store.db"
SEALED_KEY = "vault.sealed"
# The project files that the owner has approved.
APPROVALS = "project-files.json"
# Folders of a home; each is replaced as a whole.
FOLDERS = ("agents", "skills", "tools", "workflows", "workspaces")
# Files beside config.toml, such as scripts of models.
SETTINGS = "settings"

_FORM = "moot-home-1"
_CHUNK = 1_048_576
_MAX_ENTRIES = 500_000
_MAX_DEPTH = 64
_MAX_NAME = 1_024
_MAX_MANIFEST = 65_536
# How much larger an archive may get, beyond the first part.
_MAX_RATIO = 200
_FREE_BYTES = 268_435_456
# Characters that a file name may not contain.
_ODD = re.compile(r"[\x00-\x1f\x7f\\]")
_FIX = "Choose another backup; nothing was changed."


class Manifest(Struct, frozen=True, kw_only=True):
    """What a backup contains. `key` is where the master key was: none, file or keyring."""

    form: str
    version: str
    made_at: str
    key: str
    folders: tuple[str, ...]


def make_manifest(*, version: str, made_at: str, key: str, folders: Iterable[str]) -> Manifest:
    return Manifest(form=_FORM, version=version, made_at=made_at, key=key, folders=tuple(folders))


class ArchiveWriter:
    """Adds files to an archive. `left_out` are the names of links, devices and files that could not be read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=3)
        self.files = 0
        self.left_out: list[str] = []

    def add_bytes(self, name: str, data: bytes) -> None:
        self._zip.writestr(_describe_entry(name), data)

    def add_file(self, name: str, path: Path) -> None:
        with open(path, "rb") as source:
            self._copy(_describe_entry(name), source)

    def add_folder(self, name: str, folder: Path) -> None:
        """Add all regular files below a folder. Folders are held open, so that none can be exchanged for a link."""
        if folder.is_symlink():
            self.left_out.append(name)
            return
        if not folder.is_dir():
            return
        for place, folders, files, handle in os.fwalk(folder, follow_symlinks=False):
            inside = os.path.relpath(place, folder)
            prefix = name if inside == "." else f"{name}/{inside}"
            self.left_out += [f"{prefix}/{each}" for each in folders if _is_link(each, handle)]
            for each in files:
                self._add_entry(f"{prefix}/{each}", each, handle)

    def close(self) -> None:
        self._zip.close()

    def _add_entry(self, name: str, file: str, folder: int) -> None:
        try:
            handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            self.left_out.append(name)
            return
        with os.fdopen(handle, "rb") as source:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or not _is_plain(name):
                self.left_out.append(name)
                return
            self._copy(_describe_entry(name, executable=bool(status.st_mode & stat.S_IXUSR)), source)
            self.files += 1

    def _copy(self, entry: zipfile.ZipInfo, source: IO[bytes]) -> None:
        with self._zip.open(entry, "w", force_zip64=True) as target:
            shutil.copyfileobj(source, target, _CHUNK)


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _describe_entry(name: str, *, executable: bool = False) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3
    entry.external_attr = (stat.S_IFREG | (0o700 if executable else 0o600)) << 16
    return entry


class ArchiveReader:
    """An archive whose entries were checked. Nothing is written before all of them are."""

    def __init__(self, path: Path) -> None:
        with ExitStack() as stack:
            try:
                self._zip = stack.enter_context(zipfile.ZipFile(path))
                self._entries = self._check(path.stat().st_size)
                self.manifest = self._read_manifest()
            except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError, RuntimeError) as error:
                raise BadRequest(f"{path} is not a backup of a home: {error}", fix=_FIX) from error
            stack.pop_all()

    @property
    def size(self) -> int:
        """The number of bytes it unpacks to."""
        return sum(entry.file_size for entry in self._entries.values())

    def has(self, name: str) -> bool:
        return name in self._entries

    def close(self) -> None:
        self._zip.close()

    def read_bytes(self, name: str, most: int) -> bytes:
        with _reading(name), self._zip.open(self._entries[name]) as source:
            data = source.read(most + 1)
        if len(data) > most:
            raise TooLarge(f"{name} in the backup is too large", fix=_FIX)
        return data

    def unpack_file(self, name: str, target: Path) -> None:
        """Write an entry to a new file that only the owner can read."""
        entry = self._entries[name]
        mode = 0o700 if (entry.external_attr >> 16) & stat.S_IXUSR else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(target, flags, mode), "wb") as file, _reading(name), self._zip.open(entry) as source:
            left = entry.file_size
            while chunk := source.read(_CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise TooLarge(f"{name} in the backup is larger than it says", fix=_FIX)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    def unpack_folder(self, name: str, target: Path) -> None:
        """Write all entries below a name into a new folder."""
        target.mkdir(mode=0o700)
        for entry in self.list_below(name):
            path = target.joinpath(*entry.split("/")[1:])
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.unpack_file(entry, path)

    def list_below(self, name: str) -> list[str]:
        return [each for each in self._entries if each.startswith(f"{name}/")]

    def _check(self, size: int) -> Mapping[str, zipfile.ZipInfo]:
        entries = self._zip.infolist()
        if len(entries) > _MAX_ENTRIES:
            raise ValueError(f"it has more than {_MAX_ENTRIES} entries")
        found: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            _check_entry(entry)
            if entry.filename in found:
                raise ValueError(f"it has {ascii(entry.filename)} twice")
            found[entry.filename] = entry
        total = sum(entry.file_size for entry in entries)
        if total > _FREE_BYTES and total > size * _MAX_RATIO:
            raise ValueError("it would unpack to many times its size")
        _require_no_overlap(found)
        return found

    def _read_manifest(self) -> Manifest:
        if MANIFEST not in self._entries or STORE not in self._entries:
            raise ValueError("it has no manifest or no store")
        manifest = msgspec.json.decode(self.read_bytes(MANIFEST, _MAX_MANIFEST), type=Manifest)
        if manifest.form != _FORM:
            raise ValueError(f"its form is {ascii(manifest.form)}, which this version does not know")
        if not set(manifest.folders) <= set(FOLDERS) or len(set(manifest.folders)) < len(manifest.folders):
            raise ValueError("it names folders twice, or folders that a home does not have")
        return manifest


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Report damaged content, which shows only when it is unpacked, as damage of the backup."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise BadRequest(f"{ascii(name)} in the backup is damaged", fix=_FIX) from error


def _check_entry(entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    first, _, rest = name.partition("/")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or name.endswith("/"):
        raise ValueError(f"{ascii(name)} is not a regular file")
    if not _is_plain(name):
        raise ValueError(f"the name {ascii(name[:100])} is not allowed")
    if entry.flag_bits & 0x1:
        raise ValueError(f"{ascii(name)} is encrypted")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{ascii(name)} is compressed in a way that no backup is")
    if not rest and name in (MANIFEST, STORE, SEALED_KEY, APPROVALS):
        return
    if not rest or first not in (*FOLDERS, SETTINGS) or (first == SETTINGS and "/" in rest):
        raise ValueError(f"{ascii(name)} does not belong to a home")


def _is_plain(name: str) -> bool:
    """Whether a name is a relative path that stays below where it is unpacked."""
    parts = name.split("/")
    return (
        len(parts) <= _MAX_DEPTH
        and not _ODD.search(name)
        and all(part not in ("", ".", "..") and len(os.fsencode(part)) <= 255 for part in parts)
        and len(name) <= _MAX_NAME
        and name.isprintable()
    )


def _require_no_overlap(entries: Mapping[str, zipfile.ZipInfo]) -> None:
    """Raise if a file is also a folder, or if entries share compressed data, as bombs do."""
    folders = {parent for name in entries for parent in _list_parents(name)}
    if both := folders & entries.keys():
        raise ValueError(f"{ascii(min(both))} is a file and a folder")
    end = 0
    for entry in sorted(entries.values(), key=lambda each: each.header_offset):
        if entry.header_offset < end:
            raise ValueError("its entries overlap")
        end = entry.header_offset + entry.compress_size


def _list_parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name
