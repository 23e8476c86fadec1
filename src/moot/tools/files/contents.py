"""Contents of files by digest, in a folder that only the owner can read. Used by `change_log`."""

import contextlib
import os
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from moot.domain.errors import Unavailable
from moot.tools.files.read_files import digest_of

_SEALED = ".sealed"


class ContentSeal(Protocol):
    """Encrypts contents with a stored secret in them: no file of Moot's own may have a secret in clear."""

    def has_secret(self, data: bytes) -> bool: ...

    def close(self, data: bytes, digest: str) -> bytes: ...

    def open(self, sealed: bytes, digest: str) -> bytes:
        """Return the content, or b"" if it cannot be opened."""
        ...


class Contents:
    """Each content is stored once, however many versions of files have it."""

    def __init__(self, folder: Path, seal: ContentSeal) -> None:
        self._folder = folder
        self._seal = seal

    def put(self, data: bytes, *, durably: bool = True) -> None:
        """Store a content. One that is not stored durably may be missing after a power cut."""
        digest = digest_of(data)
        place = self._folder / digest
        if self._seal.has_secret(data):
            place, data = self._folder / f"{digest}{_SEALED}", self._seal.close(data, digest)
        if not place.exists():
            write_whole(place, data, durably=durably)
        elif durably:
            # It may have been stored otherwise before; this costs nothing if it is on disk.
            _sync(place, os.O_RDONLY)
            _sync(place.parent, os.O_RDONLY | os.O_DIRECTORY)

    def get(self, digest: str) -> bytes:
        data = _read(self._folder / digest)
        if not data and (sealed := _read(self._folder / f"{digest}{_SEALED}")):
            data = self._seal.open(sealed, digest)
        if digest_of(data) != digest:
            raise Unavailable("the earlier content of the file is no longer kept", fix="Restore it from a backup.")
        return data

    def keep_only(self, digests: Collection[str]) -> None:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._folder):
                if name.removesuffix(_SEALED) not in digests:
                    (self._folder / name).unlink(missing_ok=True)


def _read(place: Path) -> bytes:
    try:
        return place.read_bytes()
    except FileNotFoundError:
        return b""


def write_whole(place: Path, data: bytes, *, durably: bool = True) -> None:
    """Write a private file, so that after a crash it is there whole or not at all."""
    for folder in (place.parent.parent, place.parent):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = place.with_name(f".{secrets.token_hex(8)}.part")
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(file, "wb") as writer:
            writer.write(data)
            writer.flush()
            if durably:
                os.fsync(writer.fileno())
        part.rename(place)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durably:
        _sync(place.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(place: Path, how: int) -> None:
    handle = os.open(place, how | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
