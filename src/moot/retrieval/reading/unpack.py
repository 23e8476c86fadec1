"""Unpacks ZIP and tar archives within limits, in the reading process. Works with child.py and formats.py.

The names of members are only text: nothing is written to a disk. Links and devices are left out.
"""

import gzip
import importlib
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO, cast

from msgspec import Struct

from moot.domain.errors import BadRequest, MootError, TooLarge
from moot.domain.rag import join_member
from moot.retrieval.reading.formats import find_archive
from moot.retrieval.reading.messages import Member, Unpacked, UnpackTask

# An archive in an archive in an archive is the deepest that is read.
_DEEPEST = 3
_MOST_NAME = 500
# What is sent to the daemon at once.
_ROUND_BYTES, _ROUND_MEMBERS = 16 << 20, 1_000
_READ_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What programs for archives add for themselves.
_ADDED = "__MACOSX"
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, RuntimeError, ValueError, KeyError)


class _Entry(Struct, frozen=True):
    """A file in an archive. `read` returns its content, which has at most `size` bytes."""

    name: str
    size: int
    read: Callable[[], bytes]
    problem: str = ""


def unpack(task: UnpackTask) -> Unpacked:
    """Return the members from the number `first` on, as many as are sent at once."""
    try:
        return _unpack(task)
    except _LimitExceeded as error:
        raise TooLarge(str(error), fix="Split it.") from error


def _unpack(task: UnpackTask) -> Unpacked:
    if not task.first:
        # The limits hold for all of it: of an archive that exceeds them no member is read.
        for _ in _Unpacking(task).list_members(task.kind, task.data):
            pass
    work = _Unpacking(task)
    members: list[Member] = []
    size = 0
    for number, member in enumerate(work.list_members(task.kind, task.data)):
        if number < task.first:
            continue
        members.append(member)
        size += len(member.data)
        if size >= _ROUND_BYTES or len(members) >= _ROUND_MEMBERS:
            return Unpacked(members=tuple(members), next=number + 1)
    return Unpacked(members=tuple(members), links=work.links)


class _Unpacking:
    """Counts what one archive unpacks to, together with the archives in it."""

    def __init__(self, task: UnpackTask) -> None:
        self._task = task
        self._members = task.most_members
        self._bytes = task.most_bytes
        self.links = 0

    def list_members(self, kind: str, data: bytes, depth: int = 1) -> Iterator[Member]:
        try:
            entries = self._list_zip(data) if kind == "zip" else self._list_tar(data)
        except _DAMAGED as error:
            raise BadRequest("it is damaged", fix="Pack it again.") from error
        for entry in entries:
            yield from self._read(entry, depth)

    def _read(self, entry: _Entry, depth: int) -> Iterator[Member]:
        """Yield the member, or its own members if it is an archive."""
        try:
            data, kind = self._open(entry, depth)
            if not kind:
                yield Member(name=entry.name, data=data)
                return
            for inner in self.list_members(kind, data, depth + 1):
                yield Member(name=join_member(entry.name, inner.name), data=inner.data, problem=inner.problem)
        except MootError as error:
            yield Member(name=entry.name, problem=error.message)

    def _open(self, entry: _Entry, depth: int) -> tuple[bytes, str]:
        """Return the content, and which kind of archive it is if it is one; raises if it cannot be read."""
        if entry.problem:
            raise BadRequest(entry.problem)
        if entry.size > self._task.most_member_bytes:
            raise TooLarge(f"it has {entry.size} bytes; at most {self._task.most_member_bytes} are read")
        data = self._take_bytes(entry)
        kind = find_archive(entry.name, data)
        if kind and depth >= _DEEPEST:
            raise TooLarge(f"it is an archive in {depth} others; deeper ones are not read")
        return data, kind

    def _take_bytes(self, entry: _Entry) -> bytes:
        if entry.size > self._bytes:
            raise _LimitExceeded(f"it unpacks to more than {self._task.most_bytes} bytes")
        try:
            data = entry.read()
        except _DAMAGED as error:
            raise BadRequest("it is damaged", fix="Pack it again.") from error
        self._bytes -= len(data)
        return data

    def _list_zip(self, data: bytes) -> list[_Entry]:
        archive = zipfile.ZipFile(BytesIO(data))
        # Of several members with one name the last counts, as when they are unpacked.
        found: dict[str, _Entry] = {}
        for info in archive.infolist():
            mode = info.external_attr >> 16
            if info.is_dir():
                continue
            # Programs that do not know Unix leave the mode out.
            if stat.S_IFMT(mode) and not stat.S_ISREG(mode):
                self.links += 1
                continue
            problem = ""
            if info.flag_bits & 1:
                problem = "it is encrypted"
            elif info.compress_type not in _READ_METHODS:
                problem = "it is packed with a method that is not supported"
            self._add(found, info.filename, info.file_size, partial(_read_zip, archive, info), problem)
        return list(found.values())

    def _list_tar(self, data: bytes) -> list[_Entry]:
        stream = _open_compressed(data)
        if stream is not None:
            data = self._decompress(stream)
        archive = tarfile.TarFile(fileobj=BytesIO(data), errors="replace")
        found: dict[str, _Entry] = {}
        for info in archive:
            if info.isreg():
                self._add(found, info.name, info.size, partial(_read_tar, archive, info), "")
            elif not info.isdir():
                self.links += 1
        return list(found.values())

    def _decompress(self, stream: BinaryIO) -> bytes:
        try:
            with stream:
                whole = stream.read(self._task.most_bytes + 1)
        except MemoryError:
            # A header of xz may ask for gigabytes, which the process does not get.
            raise
        except Exception as error:
            # Each module has errors of its own.
            raise BadRequest("it is damaged", fix="Pack it again.") from error
        if len(whole) > self._task.most_bytes:
            raise _LimitExceeded(f"it unpacks to more than {self._task.most_bytes} bytes")
        return whole

    def _add(self, found: dict[str, _Entry], raw: str, size: int, read: Callable[[], bytes], problem: str) -> None:
        self._members -= 1
        if self._members < 0:
            raise _LimitExceeded(f"it has more than {self._task.most_members} members")
        name = _clean_name(raw)
        if len(name) > _MOST_NAME:
            name, problem = name[:_MOST_NAME], "its name is too long"
        if name and not _is_hidden(name):
            found.pop(name, None)
            found[name] = _Entry(name, size, read, problem)


class _LimitExceeded(Exception):
    """The archive as a whole exceeds a limit, and not only one member."""


def _open_compressed(data: bytes) -> BinaryIO | None:
    """Return a stream that decompresses gzip, bzip2 or xz; None for other bytes."""
    packed: Any = BytesIO(data)
    stream: Any = None
    if data.startswith(b"\x1f\x8b"):
        stream = gzip.GzipFile(fileobj=packed)
    # Python can be built without the next two.
    elif data.startswith(b"BZh"):
        stream = _import("bz2").BZ2File(packed)
    elif data.startswith(b"\xfd7zXZ\0"):
        stream = _import("lzma").LZMAFile(packed)
    return cast(BinaryIO | None, stream)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise BadRequest(f"this Python has no module {name}", fix="Pack it with gzip.") from None


def _read_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as member:
        # Not more than it says to have; the reader ends there.
        return member.read(info.file_size)


def _read_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    member = archive.extractfile(info)
    return member.read(info.size) if member is not None else b""


def _clean_name(raw: str) -> str:
    """Return the name of a member as one line with single slashes, which begins with none."""
    printable = "".join(char if char.isprintable() else "\ufffd" for char in raw[: 4 * _MOST_NAME])
    return "/".join(part for part in printable.replace("\\", "/").split("/") if part not in ("", "."))


def _is_hidden(name: str) -> bool:
    return any((part.startswith(".") and part != "..") or part == _ADDED for part in name.split("/"))
