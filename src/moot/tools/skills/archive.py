"""Reads the files of skills from a folder or an archive within limits. Writes nothing."""

import gzip
import hashlib
import io
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import BinaryIO

from msgspec import Struct

from moot.domain.approval import digest
from moot.domain.ask import Binding
from moot.domain.config import SkillConfig
from moot.domain.errors import BadRequest, Forbidden, TooLarge
from moot.domain.skill import SKILL_FILE
from moot.tools.files.confined_paths import ConfinedFolder, PathEntry, translate_errors

_MEBIBYTE = 1_048_576
_MOST_DEPTH = 10
_MOST_ROOT_DEPTH = 4
_MOST_DIRECTORY = 524_288
_BLOCK = 512
_MOST_HEADER = 16_384
_TAR_KINDS = (
    tarfile.REGTYPE,
    tarfile.AREGTYPE,
    tarfile.DIRTYPE,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
# In the extended headers of a tar: long numbers, and what changes how the rest is read.
_ODD_RECORD = re.compile(rb"\d{32}|(?:^|[ \n])(?:size|hdrcharset|GNU\.sparse[^=]{0,40})=")
# What packers and version control leave behind, and the mark that only Moot writes.
_LEFT_OUT = {".git", "__MACOSX", ".DS_Store", ".moot.json"}
_FIX = "Unpack it yourself, look at it, and import the folder."


class Member(Struct, frozen=True):
    """One file of a skill."""

    data: bytes
    executable: bool = False


# The files of one skill by their paths in its folder.
Members = dict[str, Member]


def gather_files(ground: ConfinedFolder, spot: PathEntry, config: SkillConfig) -> Members:
    """All files in the folder or archive at this path."""
    status = spot.status()
    contents = _ArchiveContents(config, config.unpacked_bytes)
    if status is not None and stat.S_ISDIR(status.st_mode):
        with translate_errors(spot.path):
            _take_folder(ground, spot, "", contents)
        return contents.members
    file, status = ground.open_file(spot)
    if status.st_size > config.archive_bytes:
        raise TooLarge(f"{spot.path} has {status.st_size} bytes; at most {config.archive_bytes} are allowed", fix=_FIX)
    with translate_errors(spot.path), open(file, "rb", closefd=False) as reader:
        data = reader.read(config.archive_bytes + 1)
    return unpack(data, config)


def unpack(data: bytes, config: SkillConfig) -> Members:
    """All files of a .zip, .tar.gz or .tar. One invalid entry rejects the whole archive."""
    room = min(config.unpacked_bytes, max(_MEBIBYTE, config.ratio * len(data)))
    contents = _ArchiveContents(config, room)
    try:
        if data.startswith(b"PK\x03\x04"):
            _take_zip(data, contents)
        elif data.startswith(b"\x1f\x8b"):
            _take_tar(_inflate(data, room), contents)
        elif data[257:262] == b"ustar":
            _take_tar(data, contents)
        else:
            raise BadRequest("this is neither a folder nor a .zip or .tar.gz archive", fix="Name one of these.")
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile) as error:
        raise BadRequest(f"the archive is damaged: {error}", fix="Get it again.") from error
    except (EOFError, ValueError, OverflowError, NotImplementedError, RuntimeError) as error:
        raise BadRequest("the archive is damaged", fix="Get it again.") from error
    return contents.members


def split_skills(members: Members) -> dict[str, Members]:
    """The skills among these files by folder. A skill inside another skill is part of it."""
    roots = sorted((path[: -len(SKILL_FILE)] for path in members if path.rpartition("/")[2] == SKILL_FILE), key=len)
    outer: list[str] = []
    for root in roots:
        if root.count("/") <= _MOST_ROOT_DEPTH and not any(root.startswith(taken) for taken in outer):
            outer.append(root)
    return {
        root: {path[len(root) :]: member for path, member in members.items() if path.startswith(root)} for root in outer
    }


def bind_skills(skills: Iterable[Members]) -> Binding:
    """A binding for exactly what would be imported."""
    parts = [
        part
        for members in skills
        for path, member in sorted(members.items(), key=lambda item: item[0])
        for part in (path, str(member.executable), hashlib.sha256(member.data).hexdigest())
    ]
    return Binding(seen=digest(*parts))


class _ArchiveContents:
    """The extracted files, counted against the limits."""

    def __init__(self, config: SkillConfig, room: int) -> None:
        self.members: Members = {}
        self._config = config
        self._room = room
        self._names: set[str] = set()
        self._entries = 0

    @property
    def most(self) -> int:
        """How many entries there may be."""
        return self._config.files

    def admit(self, name: str) -> str:
        """The path of an entry, or "" to skip it. Raises if it could be written elsewhere."""
        self._entries += 1
        if self._entries > self._config.files:
            raise TooLarge(f"there are more than {self._config.files} files in it", fix=_FIX)
        parts = name.removeprefix("./").rstrip("/").split("/")
        if not set(parts).isdisjoint(_LEFT_OUT):
            return ""
        if name.startswith("/") or not all(map(_is_plain, parts)) or len(parts) > _MOST_DEPTH:
            raise Forbidden(f"it contains an entry with the path {ascii(name[:80])}", fix=_FIX)
        return "/".join(parts)

    def put(self, path: str, reader: BinaryIO, *, executable: bool) -> None:
        data = reader.read(self._room + 1)
        self._room -= len(data)
        if self._room < 0:
            raise TooLarge("it unpacks to more than is allowed", fix=_FIX)
        if path.casefold() in self._names:
            raise Forbidden(f"it contains {path!r} twice", fix=_FIX)
        self._names.add(path.casefold())
        self.members[path] = Member(data, executable)


def _is_plain(part: str) -> bool:
    return (
        part not in ("", ".", "..")
        and part.isprintable()
        and not set(part) & set('\\:*?"<>|')
        and len(part.encode("utf-8", "replace")) <= 200
    )


def _take_folder(ground: ConfinedFolder, spot: PathEntry, prefix: str, contents: _ArchiveContents) -> None:
    folder = ground.open_folder(spot)
    with os.scandir(folder) as entries:
        # One too many is refused: there can be millions.
        names = sorted(entry.name for entry in islice(entries, contents.most + 1))
    for name in names:
        path = contents.admit(f"{prefix}{name}")
        if not path:
            continue
        with ground.passing():
            _take_entry(ground, ground.spot(f"{spot.path}/{name}", follow=False), path, contents)


def _take_entry(ground: ConfinedFolder, spot: PathEntry, path: str, contents: _ArchiveContents) -> None:
    status = spot.status()
    if status is not None and stat.S_ISDIR(status.st_mode):
        _take_folder(ground, spot, f"{path}/", contents)
        return
    file, status = ground.open_file(spot)
    with open(file, "rb", closefd=False) as reader:
        contents.put(path, reader, executable=bool(status.st_mode & 0o100))


def _take_zip(data: bytes, contents: _ArchiveContents) -> None:
    _check_directory(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            path = contents.admit(entry.filename)
            mode = entry.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _not_a_file_error(entry.filename)
            if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise BadRequest("it is encrypted, or packed in an unusual way", fix=_FIX)
            if path and not entry.is_dir():
                with archive.open(entry) as reader:
                    contents.put(path, reader, executable=bool(mode & 0o100))  # type: ignore[arg-type]


def _check_directory(data: bytes) -> None:
    """Check the zip directory before the library reads it: too many entries are rejected unread."""
    end = len(data) - 22 if data[-22:-18] == b"PK\x05\x06" and data[-2:] == b"\0\0" else data.rfind(b"PK\x05\x06")
    size = int.from_bytes(data[end + 12 : end + 16], "little")
    if end < 0 or size > _MOST_DIRECTORY or b"PK\x06\x07" in data[max(0, end - 20) : end]:
        raise TooLarge("its table of contents is too long, or missing", fix=_FIX)


def _inflate(data: bytes, room: int) -> bytes:
    """Decompress the tar archive once with a limit, since reading its headers must not expand a bomb."""
    most = room + _MEBIBYTE
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as reader:
        inside = reader.read(most + 1)
    if len(inside) > most:
        raise TooLarge("it unpacks to more than is allowed", fix=_FIX)
    return inside


def _take_tar(data: bytes, contents: _ArchiveContents) -> None:
    _check_headers(data)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for entry in _entries(archive):
            path = contents.admit(entry.name)
            if not (entry.isreg() or entry.isdir()) or entry.issparse():
                raise _not_a_file_error(entry.name)
            reader = archive.extractfile(entry) if path and entry.isreg() else None
            if reader is not None:
                with reader:
                    contents.put(path, reader, executable=bool(entry.mode & 0o100))  # type: ignore[arg-type]


def _check_headers(data: bytes) -> None:
    """Refuse headers that the library would take long over: some of its versions search them in quadratic time.

    Whatever could make the library find its next header elsewhere than this does is refused as well.
    """
    at = 0
    while any(header := data[at : at + _BLOCK]):
        info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        size, kind = info.size, info.type
        if not 0 <= size <= len(data):
            raise tarfile.ReadError("a size is wrong")
        content = data[at + _BLOCK : at + _BLOCK + size]
        if kind in (tarfile.XHDTYPE, tarfile.XGLTYPE) and (size > _MOST_HEADER or _ODD_RECORD.search(content)):
            raise Forbidden("it contains a header that is too long or unusual", fix=_FIX)
        if kind in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK) and size > _MOST_HEADER:
            raise Forbidden("it contains a name that is too long", fix=_FIX)
        if kind not in _TAR_KINDS or (kind == tarfile.DIRTYPE and size):
            raise _not_a_file_error(info.name)
        at += _BLOCK + -(-size // _BLOCK) * _BLOCK


def _entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The entries without the common top folder."""
    return (entry for entry in archive if entry.name not in (".", "./"))


def _not_a_file_error(name: str) -> Forbidden:
    return Forbidden(f"it contains a link or a device: {ascii(name[:80])}", fix=_FIX)
