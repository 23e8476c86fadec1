"""Restores the backup of a home: unpacks it beside the old files, then exchanges all of them.

What has to be exchanged is written to a plan. Without a plan on disk nothing has changed; once it is there, the
exchange is completed, by this process or, after a crash, by the next one that starts in this home.
"""

import base64
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from moot.daemon.backup import archive
from moot.daemon.backup.home_backup import find_folder, find_key_file, is_setting, sync_folder
from moot.daemon.backup.key_seal import MAX_SEALED, open_key
from moot.daemon.paths import Paths, make_folder
from moot.daemon.vault.master_key import KEY_BYTES, MasterKey, note_not_restored
from moot.domain.errors import BadRequest, StoreError
from moot.failpoint import reach
from moot.store.backup import copy_verified

_STAGED = ".moot-restoring-"


class HomeExchange(Struct, frozen=True):
    """Move `target` to `aside`, if it exists, and then `staged` to `target`, if there is one."""

    target: str
    aside: str
    staged: str = ""


class Restored(Struct, frozen=True, kw_only=True):
    # The old files, under their new names.
    kept: tuple[str, ...]
    # Whether the secrets in the store can be read here: there were none, or their key is here.
    has_key: bool


def restore_home(paths: Paths, backup: Path, *, passphrase: str) -> Restored:
    """Replace the home by a backup. The caller holds the lock of the home."""
    finish_restore(paths)
    with _translating(paths):
        with closing(archive.ArchiveReader(backup)) as reader:
            _clear_staged(paths)
            _require_space(reader, paths)
            try:
                plan = _stage(reader, paths, passphrase)
            except BaseException:
                _clear_staged(paths)
                raise
        _write_plan(paths, plan)
        reach("restore.planned")
        kept = finish_restore(paths)
    key_is_here = MasterKey(find_key_file(paths)).place in ("file", "keyring")
    return Restored(kept=tuple(kept), has_key=key_is_here or reader.manifest.key == "none")


def finish_restore(paths: Paths) -> list[str]:
    """Complete a restore that was planned. Can be repeated after a crash at any point. Return what was kept."""
    plan_file = paths.restore_plan
    try:
        plan = msgspec.json.decode(plan_file.read_bytes(), type=list[HomeExchange])
    except FileNotFoundError:
        return []
    kept: list[str] = []
    for each in plan:
        if each.staged and not os.path.lexists(each.staged):
            # Done before a crash.
            kept += [each.aside] if os.path.lexists(each.aside) else []
            continue
        if os.path.lexists(each.target) and not os.path.lexists(each.aside):
            os.rename(each.target, each.aside)
        kept += [each.aside] if os.path.lexists(each.aside) else []
        reach("restore.moved")
        if each.staged:
            os.rename(each.staged, each.target)
        reach("restore.exchanged")
    for folder in {os.path.dirname(path) for each in plan for path in (each.target, each.aside)}:
        sync_folder(Path(folder))
    with suppress(OSError):
        # Nothing had to be kept there: on a new machine, for example.
        paths.before_restore.rmdir()
        sync_folder(paths.before_restore.parent)
    plan_file.unlink()
    sync_folder(plan_file.parent)
    return kept


def _stage(reader: archive.ArchiveReader, paths: Paths, passphrase: str) -> list[HomeExchange]:
    """Unpack everything beside its target, and return the exchanges that put it in place."""
    stamp = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime())}-{secrets.token_hex(2)}"
    plan: list[HomeExchange] = []

    def name_aside(target: Path) -> str:
        if target.parent == paths.data:
            return f"{target}.before-restore-{stamp}"
        return str(paths.before_restore / f"{target.name}.{stamp}")

    def exchange(target: Path) -> Path:
        make_folder(target.parent)
        # In a folder of Moot's own, on the file system of the target.
        beside = make_folder(paths.data if target.parent == paths.data else paths.before_restore)
        staged = beside / f"{_STAGED}{target.name}"
        plan.append(HomeExchange(str(target), name_aside(target), str(staged)))
        return staged

    # The log of the old store must not be applied to the new one.
    plan += [
        HomeExchange(f"{paths.store}{suffix}", f"{name_aside(paths.store)}{suffix}") for suffix in ("-wal", "-shm")
    ]
    _stage_store(reader, exchange(paths.store))
    _stage_key(reader, paths, passphrase, exchange)
    last_good = paths.data / "config.last-good.toml"
    plan.append(HomeExchange(str(last_good), name_aside(last_good)))
    if reader.has(archive.APPROVALS):
        reader.unpack_file(archive.APPROVALS, exchange(paths.project_approvals))
    for entry in reader.list_below(archive.SETTINGS):
        name = entry.partition("/")[2]
        if is_setting(name):
            reader.unpack_file(entry, exchange(paths.config.with_name(name)))
    for name in reader.manifest.folders:
        reader.unpack_folder(name, exchange(find_folder(paths, name)))
    return plan


def _stage_store(reader: archive.ArchiveReader, staged: Path) -> None:
    packed = staged.with_name(f"{staged.name}.packed")
    reader.unpack_file(archive.STORE, packed)
    try:
        staged.touch(mode=0o600, exist_ok=False)
        copy_verified(packed, staged)
    finally:
        packed.unlink()


def _stage_key(reader: archive.ArchiveReader, paths: Paths, passphrase: str, exchange: Callable[[Path], Path]) -> None:
    if not passphrase:
        _stage_consent(reader, paths, exchange)
        return
    if not reader.has(archive.SEALED_KEY):
        raise BadRequest("this backup has no key to the secrets", fix="Restore it without --with-keys.")
    key = open_key(reader.read_bytes(archive.SEALED_KEY, MAX_SEALED), passphrase)
    if len(key) != KEY_BYTES:
        raise BadRequest("the key in the backup is damaged", fix="Choose another backup; nothing was changed.")
    staged = exchange(find_key_file(paths))
    handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(b"moot-vault-1 key " + base64.b64encode(key) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _stage_consent(reader: archive.ArchiveReader, paths: Paths, exchange: Callable[[Path], Path]) -> None:
    """Note that secrets come without their key, so that they can be set again here. A key that is here stays in use."""
    key_file = find_key_file(paths)
    note = note_not_restored(key_file)
    if reader.manifest.key == "none" or MasterKey(key_file).place != "none" or note.exists():
        return
    handle = os.open(exchange(note), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(b"The secrets were restored without their master key. The next one that is set gets a new key.\n")
        file.flush()
        os.fsync(file.fileno())


def _write_plan(paths: Paths, plan: list[HomeExchange]) -> None:
    for folder in {os.path.dirname(each.aside) for each in plan}:
        sync_folder(Path(folder))
    draft = paths.data / f"{_STAGED}plan"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(plan))
        file.flush()
        os.fsync(file.fileno())
    reach("restore.staged")
    os.rename(draft, paths.restore_plan)
    sync_folder(paths.data)


def _clear_staged(paths: Paths) -> None:
    """Remove what a restore that was not planned to the end has left."""
    for folder in (paths.data, paths.before_restore):
        for left in folder.glob(f"{_STAGED}*") if folder.is_dir() else ():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            else:
                left.unlink()


def _require_space(reader: archive.ArchiveReader, paths: Paths) -> None:
    free = shutil.disk_usage(make_folder(paths.data)).free
    if reader.size * 2 > free:
        raise StoreError(
            f"the backup needs {reader.size * 2} bytes and {free} are free", fix="Free some space; nothing was changed."
        )


@contextmanager
def _translating(paths: Paths) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        is_planned = paths.restore_plan.exists()
        text = "The next start completes the restore." if is_planned else "Nothing was changed."
        raise StoreError(f"the restore failed: {error.filename}: {error.strerror}", fix=text) from error
