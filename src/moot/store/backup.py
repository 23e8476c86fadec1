"""Backup of the store while it is in use, and restore of a backup."""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from moot.domain.errors import Conflict, MootError, NotFound, StoreError
from moot.failpoint import reach
from moot.store import dialect, migrate
from moot.store.connection import FAULTS, Tuning, connect, fault, make_private_folder, sync_directory

_STEP_PAGES = 500
_IN_USE_MS = 200
# The suffix of a copy until it is complete.
UNFINISHED = ".moot-part"
_MAGIC = b"SQLite format 3\0"


def write_backup(source: Path, target: Path, tuning: Tuning) -> None:
    """Write a consistent copy of `source` to `target`, which must not exist. Does not block writers."""
    if os.path.lexists(target):
        raise Conflict(f"{target} exists", fix="Choose another name; a backup never overwrites a file.")
    clear_unfinished(target.parent)
    part = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with being_written(part):
            _copy(source, part, tuning)
            reach("backup.copied")
            _place(part, target)
    except FAULTS as error:
        raise fault(error, target) from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def being_written(part: Path) -> Iterator[None]:
    """Create the file and lock it for the duration of the block.

    The lock ends with the process, so that `clear_unfinished` can tell an active copy from an abandoned one.
    """
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def clear_unfinished(folder: Path) -> None:
    """Remove unfinished copies in a folder, left by a daemon that was killed."""
    for part in folder.glob(f".*{UNFINISHED}"):
        with suppress(OSError):
            handle = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for suffix in ("-journal", "-wal", "-shm", ""):
                    Path(f"{part}{suffix}").unlink(missing_ok=True)
            finally:
                os.close(handle)


def _copy(source: Path, part: Path, tuning: Tuning) -> None:
    reader = connect(source, tuning)
    copy = apsw.Connection(str(part), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        # An open read transaction fixes a snapshot; without it every commit would restart the copy.
        dialect.fix_moment(reader)
        with copy.backup("main", reader, "main") as running:
            while not running.done:
                running.step(_STEP_PAGES)
        reader.execute("COMMIT")
        # A copy is a single file, without a write-ahead log.
        dialect.drop_log(copy)
    finally:
        copy.close(True)
        reader.close(True)


def _place(part: Path, target: Path) -> None:
    descriptor = os.open(part, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(part, target)
    except FileExistsError as error:
        raise Conflict(f"{target} exists", fix="Choose another name; a backup never overwrites a file.") from error
    sync_directory(target.parent)


def restore_backup(backup: Path, target: Path) -> Path | None:
    """Replace the store by a backup. The old store is kept under another name; return that, if there was one."""
    if not backup.is_file():
        raise NotFound(f"no backup {backup}", fix="Name a file that `moot backup` made.")
    part = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{UNFINISHED}")
    try:
        make_private_folder(target.parent)
        clear_unfinished(target.parent)
        with being_written(part):
            copy_verified(backup, part)
        aside = _set_aside(target) if os.path.lexists(target) else None
        os.replace(part, target)
        sync_directory(target.parent)
    except FAULTS as error:
        raise fault(error, target) from error
    finally:
        part.unlink(missing_ok=True)
    return aside


def copy_verified(backup: Path, part: Path) -> None:
    """Copy a backup, migrate it to the current schema and check its integrity."""
    try:
        source = apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            migrate.version(source)
            copy = apsw.Connection(str(part), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                with copy.backup("main", source, "main") as running:
                    running.step(-1)
                dialect.drop_log(copy)
                _prove(copy, backup)
                migrate.migrate(copy)
            finally:
                copy.close(True)
        finally:
            source.close(True)
    except FAULTS as error:
        raise StoreError(
            f"{backup} cannot be used: {error}", fix="Choose another backup; the store was left as it is."
        ) from error


def _prove(copy: apsw.Connection, backup: Path) -> None:
    found = dialect.damages(copy, 1)
    if found or migrate.version(copy) == 0:
        answer = found[0] if found else "it is empty"
        raise StoreError(
            f"{backup} is not a whole backup: {answer}", fix="Choose another one; the store was left as it is."
        )


def _set_aside(target: Path) -> Path:
    """Keep the old store under another name, after a checkpoint of its log if that is possible; return the name."""
    if target.is_symlink():
        raise StoreError(f"{target} is a symbolic link", fix="Put the real file there, then restore.")
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime())
    aside = target.with_name(f"{target.name}.before-restore-{stamp}")
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = target.with_name(f"{target.name}.before-restore-{stamp}-{number}")
    _fold_log(target)
    # A log that was not checkpointed must not be applied to the new file, so it is renamed with the old one.
    for suffix in ("-wal", "-shm"):
        if os.path.lexists(f"{target}{suffix}"):
            os.replace(f"{target}{suffix}", f"{aside}{suffix}")
    os.link(target, aside)
    sync_directory(target.parent)
    return aside


def _fold_log(target: Path) -> None:
    with target.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            # SQLite would delete the log of a file it cannot read, and the log may be all that can be saved.
            return
    try:
        old = connect(target, Tuning())
    except FAULTS:
        return
    try:
        old.set_busy_timeout(_IN_USE_MS)
        dialect.fold_log(old)
    except apsw.BusyError as error:
        raise Conflict(f"{target} is in use", fix="Stop the daemon with `moot down`, then restore.") from error
    except FAULTS:
        return
    finally:
        old.close(True)


def keep_before_migration(path: Path, have: int, tuning: Tuning) -> Path:
    """Copy a store before its migration and return the path of the copy, which is named after its schema version."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime())
    kept = path.with_name(f"{path.name}.before-migration-from-{have}-{stamp}")
    try:
        write_backup(path, kept, tuning)
    except Conflict:
        # The copy exists from an earlier attempt.
        return kept
    except MootError as error:
        raise StoreError(
            f"the store could not be copied before its migration: {error.message}",
            fix="Free some space beside it; nothing was changed.",
        ) from error
    return kept
