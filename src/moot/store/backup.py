"""Copies of the store: taken while it is in use, and put back in its place."""

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
# What a copy is called until it is whole.
_UNFINISHED = ".moot-part"
_MAGIC = b"SQLite format 3\0"


def write_backup(source: Path, target: Path, tuning: Tuning) -> None:
    """Write a consistent copy of `source` to `target`, which must not exist. Writers go on meanwhile."""
    if os.path.lexists(target):
        raise Conflict(f"{target} exists", fix="Choose another name; a backup never overwrites a file.")
    clear_unfinished(target.parent)
    part = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{_UNFINISHED}")
    try:
        with _being_written(part):
            _copy(source, part, tuning)
            reach("backup.copied")
            _place(part, target)
    except FAULTS as error:
        raise fault(error, target) from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _being_written(part: Path) -> Iterator[None]:
    """Make the file, and hold a lock on it that falls with the process: nobody takes it for a forgotten one."""
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def clear_unfinished(folder: Path) -> None:
    """Remove the copies in a folder that were never finished: their daemon was killed."""
    for part in folder.glob(f".*{_UNFINISHED}"):
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
        # The open read keeps one moment of the store; without it every commit would start the copy over.
        dialect.fix_moment(reader)
        with copy.backup("main", reader, "main") as running:
            while not running.done:
                running.step(_STEP_PAGES)
        reader.execute("COMMIT")
        # A copy is one file: no log beside it.
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
    """Put a backup in the store's place; the old store is kept aside and its path returned."""
    if not backup.is_file():
        raise NotFound(f"no backup {backup}", fix="Name a file that `moot backup` made.")
    part = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{_UNFINISHED}")
    try:
        make_private_folder(target.parent)
        clear_unfinished(target.parent)
        with _being_written(part):
            _copy_proven(backup, part)
        aside = _set_aside(target) if os.path.lexists(target) else None
        os.replace(part, target)
        sync_directory(target.parent)
    except FAULTS as error:
        raise fault(error, target) from error
    finally:
        part.unlink(missing_ok=True)
    return aside


def _copy_proven(backup: Path, part: Path) -> None:
    """Copy a backup, bring it to today's schema, and make sure that it is whole."""
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
    """Keep the old store under another name, with its log folded in where that still works."""
    if target.is_symlink():
        raise StoreError(f"{target} is a symbolic link", fix="Put the real file there, then restore.")
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    aside = target.with_name(f"{target.name}.before-restore-{stamp}")
    number = 1
    while os.path.lexists(aside):
        number += 1
        aside = target.with_name(f"{target.name}.before-restore-{stamp}-{number}")
    _fold_log(target)
    # A log that could not be folded in must never meet the new file: it goes with the old one.
    for suffix in ("-wal", "-shm"):
        if os.path.lexists(f"{target}{suffix}"):
            os.replace(f"{target}{suffix}", f"{aside}{suffix}")
    os.link(target, aside)
    sync_directory(target.parent)
    return aside


def _fold_log(target: Path) -> None:
    with target.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            # Opening rubbish would throw away the log beside it, which may be all there is to save.
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
    """Copy a store that is about to be migrated; the copy is named after the schema it has."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    kept = path.with_name(f"{path.name}.before-migration-from-{have}-{stamp}")
    try:
        write_backup(path, kept, tuning)
    except Conflict:
        # Tried a moment ago, and the copy is there.
        return kept
    except MootError as error:
        raise StoreError(
            f"the store could not be copied before its migration: {error.message}",
            fix="Free some space beside it; nothing was changed.",
        ) from error
    return kept
