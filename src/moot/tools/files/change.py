"""Atomic changes to files through open directory handles. Used by `file_tools`."""

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct, field

from moot.domain.ask import Binding
from moot.domain.errors import BadRequest, Conflict, Forbidden, MootError, NotFound, TooLarge
from moot.tools.files.confined_paths import ConfinedFolder, PathEntry, translate_errors
from moot.tools.files.mount_table import find_mount_id
from moot.tools.files.off_limits import file_identity

_MOST_DEPTH = 100
# Entries in a folder that is deleted: each is counted first, and is part of what is approved.
_MOST_REMOVED = 250_000
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def replace(spot: PathEntry, data: bytes, *, mode: int = 0) -> None:
    """Write a file atomically: temporary file, fsync, rename. An existing file keeps its mode and owner.

    A new one gets exactly the mode, or the usual one if there is none.
    """
    before = spot.status()
    check_writable(spot, before)
    beside = f".{secrets.token_hex(8)}.moot-part"
    with translate_errors(spot.path):
        file = os.open(beside, _NEW, 0o600 if before or mode else 0o666, dir_fd=spot.folder)
        try:
            with open(file, "wb") as writer:
                if before is not None:
                    _copy_owner_and_mode(file, before)
                elif mode:
                    os.fchmod(file, mode)
                writer.write(data)
                writer.flush()
                os.fsync(file)
            os.rename(beside, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside, dir_fd=spot.folder)
            raise
        sync_folder(spot.folder)


def check_writable(spot: PathEntry, status: os.stat_result | None) -> None:
    if spot.name == "." or (status is not None and stat.S_ISDIR(status.st_mode)):
        raise BadRequest(f"{spot.path} is a folder", fix="Name a file in it.")
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise Forbidden(f"{spot.path} is not a regular file", fix="Only regular files can be changed.")


def check_unchanged(spot: PathEntry, seen: os.stat_result) -> None:
    """Raise if the file was changed since the caller read it."""
    now = spot.status()
    if now is None or (file_identity(now), now.st_mtime_ns, now.st_size) != (
        file_identity(seen),
        seen.st_mtime_ns,
        seen.st_size,
    ):
        raise Conflict(f"{spot.path} changed since it was read", fix="Read it again, then edit it again.")


class Removal(Struct):
    """What a deletion would remove or has removed."""

    files: int = 0
    folders: int = 0
    size: int = 0
    # Each name with its identity, if the entries were counted.
    names: list[str] = field(default_factory=list)

    def render_counts(self, between: str) -> str:
        files = "1 file" if self.files == 1 else f"{self.files} files"
        return f"{files}{between}{'1 folder' if self.folders == 1 else f'{self.folders} folders'}"


def check_removable(ground: ConfinedFolder, spot: PathEntry) -> os.stat_result:
    status = spot.status()
    if status is None:
        raise NotFound(f"{spot.path} does not exist", fix="List the folder with fs_list.")
    if spot.name == "." or ground.is_top(spot):
        raise Forbidden(
            f"{spot.path} does not name something inside the working directory",
            fix="Name the file or folder to delete.",
        )
    if ground.holds_off_limits(spot):
        raise Forbidden(f"{spot.path} contains files that are off limits", fix="Delete the other entries by name.")
    return status


def remove(ground: ConfinedFolder, spot: PathEntry) -> Removal:
    """Delete a file, a symbolic link, or a folder and everything in it on the same file system."""
    status = check_removable(ground, spot)
    removed = Removal()
    with translate_errors(spot.path):
        if stat.S_ISDIR(status.st_mode):
            count_removal(spot, status)
            _remove_folder(spot.folder, spot.name, status, removed, _MOST_DEPTH)
        else:
            os.unlink(spot.name, dir_fd=spot.folder)
            removed.files, removed.size = 1, status.st_size
        sync_folder(spot.folder)
    return removed


def remove_entry(spot: PathEntry) -> None:
    """Delete a file, a link or an empty folder, if it is there. A folder with something in it stays."""
    status = spot.status()
    if status is None:
        return
    if stat.S_ISDIR(status.st_mode):
        with contextlib.suppress(OSError):
            os.rmdir(spot.name, dir_fd=spot.folder)
    else:
        os.unlink(spot.name, dir_fd=spot.folder)
    sync_folder(spot.folder)


def count_removal(spot: PathEntry, status: os.stat_result) -> Removal:
    """Count what deleting a folder would remove. Raises if part of it could not be deleted."""
    found = Removal()
    _count_entries(spot.folder, spot.name, status, found, _MOST_DEPTH)
    return found


def _count_entries(folder: int, name: str, status: os.stat_result, found: Removal, depth: int) -> None:
    with _open_entry(folder, name, status, depth) as inside, os.scandir(inside) as entries:
        found.folders += 1
        room = _MOST_REMOVED - len(found.names)
        there_are = list(islice(entries, room + 1))
        if len(there_are) > room:
            raise TooLarge(f"there are more than {_MOST_REMOVED} files in it", fix="Delete them with a command.")
        for entry in sorted(there_are, key=lambda entry: entry.name):
            there = entry.stat(follow_symlinks=False)
            found.names.append(f"{name}/{entry.name} {_status_facts(there)}")
            if stat.S_ISDIR(there.st_mode):
                _count_entries(inside, entry.name, there, found, depth - 1)
            else:
                found.files += 1
                found.size += there.st_size


def _remove_folder(folder: int, name: str, status: os.stat_result, removed: Removal, depth: int) -> None:
    with _open_entry(folder, name, status, depth) as inside:
        with os.scandir(inside) as entries:
            names = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        for below, there in names:
            if stat.S_ISDIR(there.st_mode):
                _remove_folder(inside, below, there, removed, depth - 1)
            else:
                os.unlink(below, dir_fd=inside)
                removed.files += 1
                removed.size += there.st_size
    os.rmdir(name, dir_fd=folder)
    removed.folders += 1


@contextlib.contextmanager
def _open_entry(folder: int, name: str, status: os.stat_result, depth: int) -> Iterator[int]:
    """Open a subfolder; raises if it is no longer the one that was counted or is a link or mount point."""
    if depth == 0:
        raise BadRequest(f"folders are nested more than {_MOST_DEPTH} deep", fix="Delete the inner ones first.")
    inside = os.open(name, _FOLDER, dir_fd=folder)
    try:
        if file_identity(os.fstat(inside)) != file_identity(status):
            raise Conflict(f"{name} changed while it was being read", fix="Try again.")
        if os.stat(".", dir_fd=folder).st_dev != status.st_dev or find_mount_id(inside) != find_mount_id(folder):
            raise Forbidden(f"{name} is mounted there from elsewhere", fix="Unmount it first.")
        yield inside
    finally:
        os.close(inside)


def require_agreed(found: Binding, agreed: Binding | None, path: str) -> None:
    """Raise unless the target is the one that was bound when the call was approved."""
    if agreed is not None and found != agreed:
        raise Conflict(f"{path} changed since it was approved", fix="Check it again, then repeat the call.")


def bind_spot(ground: ConfinedFolder, spot: PathEntry, most: int) -> Binding:
    """Describe the real path and current state of a target; files up to `most` bytes include a content digest."""
    return Binding(place=ground.real(spot), seen=_spot_state(ground, spot, most))


def _spot_state(ground: ConfinedFolder, spot: PathEntry, most: int) -> str:
    status = spot.status()
    if status is None:
        return "nothing"
    with translate_errors(spot.path):
        if stat.S_ISDIR(status.st_mode):
            names = "\0".join(count_removal(spot, status).names)
            return (
                f"folder {file_identity(status)} {hashlib.sha256(names.encode('utf-8', 'surrogateescape')).hexdigest()}"
            )
        if stat.S_ISLNK(status.st_mode):
            return f"link to {os.readlink(spot.name, dir_fd=spot.folder)}"
        if stat.S_ISREG(status.st_mode) and status.st_size <= most:
            # A file that cannot be read is identified by its metadata alone.
            with contextlib.suppress(MootError):
                return f"file {_content_digest(ground, spot)}"
    return f"file {_status_facts(status)}"


def _content_digest(ground: ConfinedFolder, spot: PathEntry) -> str:
    with ground.passing():
        file, _ = ground.open_file(spot)
        with translate_errors(spot.path), open(file, "rb", closefd=False) as reader:
            return hashlib.file_digest(reader, "sha256").hexdigest()


def _status_facts(status: os.stat_result) -> str:
    return f"{file_identity(status)} {status.st_mode:o} {status.st_size} {status.st_mtime_ns}"


def _copy_owner_and_mode(file: int, before: os.stat_result) -> None:
    """Give a new file the owner and mode of the old one, without set-user-ID bits."""
    with contextlib.suppress(PermissionError):
        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(file, before.st_uid, before.st_gid)
    os.fchmod(file, stat.S_IMODE(before.st_mode) & 0o777)


def sync_folder(folder: int) -> None:
    """Flush a directory so that a rename or deletion survives a power cut. O_PATH handles are reopened first."""
    flushed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(flushed)
    finally:
        os.close(flushed)
