"""Opens database connections, and translates disk faults into StoreError."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import apsw
from msgspec import Struct

from moot.domain.errors import StoreError
from moot.store import dialect

# Errors after which the disk or the file cannot be trusted for this transaction.
FAULTS = (
    apsw.IOError, apsw.FullError, apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError,
    apsw.ReadOnlyError, apsw.NoMemError, apsw.BusyError, apsw.LockedError, apsw.ProtocolError,
    apsw.PermissionsError, apsw.ConnectionClosedError, OSError,
)  # fmt: skip

BUSY_MS = 5_000
JOURNAL_LIMIT = 16 * 1024 * 1024
# With less free bytes than this, a transaction may be refused.
_LEAST_ROOM = 1024 * 1024


class Tuning(Struct, frozen=True, kw_only=True):
    """Settings of the store for its disk. The durability guarantees hold for the defaults."""

    vfs: str = ""
    synchronous: str = "FULL"
    batch: int = 256
    readers: int = 2
    checkpoint_pages: int = 1_000


def connect(path: Path, tuning: Tuning) -> apsw.Connection:
    """Open an existing database with the settings of every connection of the store."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=tuning.vfs or None)
    try:
        connection.set_busy_timeout(BUSY_MS)
        dialect.configure(connection, synchronous=tuning.synchronous, journal_bytes=JOURNAL_LIMIT)
    except BaseException:
        connection.close(True)
        raise
    return connection


def is_nearly_full(folder: str) -> bool:
    """Whether the disk of this folder has little room left. Asked before each message."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < _LEAST_ROOM


def connect_reader(path: Path, tuning: Tuning) -> apsw.Connection:
    connection = connect(path, tuning)
    try:
        dialect.only_read(connection)
        dialect.register_functions(connection)
    except BaseException:
        connection.close(True)
        raise
    return connection


def prepare_file(path: Path) -> bool:
    """Create the file if necessary and restrict it to its owner; return whether it was created."""
    make_private_folder(path.parent)
    for part in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        if part.is_symlink():
            raise StoreError(
                f"{part} is a symbolic link", fix="Put the real file there; the store does not follow links."
            )
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        _make_private(path)
        return False
    os.close(descriptor)
    sync_directory(path.parent)
    return True


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, accessible to the owner only."""
    missing: list[Path] = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for made in reversed(missing):
        made.mkdir(mode=0o700, exist_ok=True)
        sync_directory(made.parent)


def _make_private(path: Path) -> None:
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise StoreError(f"{path} is not a file", fix="Move it away; the store needs this path.")
    if stat.S_IMODE(mode) & 0o077:
        path.chmod(0o600)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fault(error: BaseException, path: Path) -> StoreError:
    """Return the error for a failing disk or file, with what the user can do."""
    for known, say in _FAULTS:
        if isinstance(error, known):
            return say(error, path)
    return StoreError(f"the store {path} failed: {error}", fix="Run `moot doctor` and look at the disk.")


def _full(_error: BaseException, path: Path) -> StoreError:
    return StoreError(f"the disk of {path} is full; nothing was stored", fix="Free some space and try again.")


def _damage_error(error: BaseException, path: Path) -> StoreError:
    return StoreError(
        f"{path} is damaged: {error}", fix="Bring a backup back with `moot restore`; the damaged file is kept aside."
    )


def _busy(_error: BaseException, path: Path) -> StoreError:
    return StoreError(f"another process keeps {path} locked", fix="Close the program that has it open and try again.")


def _unwritable(error: BaseException, path: Path) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error}", fix="Check that the folder exists, is yours and is not read-only."
    )


def _system(error: BaseException, path: Path) -> StoreError:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(error, path)
    return _unwritable(error, path)


def _failing(error: BaseException, path: Path) -> StoreError:
    return StoreError(
        f"the disk refused to read or write {path} ({error}); nothing was stored",
        fix="Look at the disk and its free space; Moot tries again by itself.",
    )


_Kinds = type[BaseException] | tuple[type[BaseException], ...]
_FAULTS: tuple[tuple[_Kinds, Callable[[BaseException, Path], StoreError]], ...] = (
    (apsw.FullError, _full),
    ((apsw.CorruptError, apsw.NotADBError), _damage_error),
    ((apsw.BusyError, apsw.LockedError, apsw.ProtocolError), _busy),
    ((apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError), _unwritable),
    (apsw.IOError, _failing),
    (OSError, _system),
)  # fmt: skip
