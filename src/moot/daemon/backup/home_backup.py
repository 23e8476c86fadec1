"""Writes the backup of a home from a copy of its store. Used by `moot backup`; the daemon makes the copy."""

import os
import time
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from moot import __version__
from moot.daemon.backup import archive
from moot.daemon.backup.key_seal import seal_key
from moot.daemon.config.agent_keys import find_agents_folder, find_foreign_folders
from moot.daemon.config.config_file import load_config
from moot.daemon.paths import Paths
from moot.daemon.vault.master_key import MasterKey, load_key
from moot.domain.errors import ConfigError, Conflict, NotFound, StoreError
from moot.store.backup import UNFINISHED, being_written

# Settings beside config.toml that are part of a backup.
_SETTINGS = (".toml", ".md")
_MAX_SETTING = 1_048_576


class HomeBackup(Struct, frozen=True, kw_only=True):
    path: str
    bytes: int
    files: int
    # Where the master key is (none, file, keyring), and whether the backup has it, sealed.
    key: str
    has_key: bool
    left_out: tuple[str, ...]


def write_home_backup(paths: Paths, store_copy: Path, target: Path, *, workspaces: bool, passphrase: str) -> HomeBackup:
    """Write the archive to a new file, durably and as a whole. With a passphrase it contains the sealed master key."""
    if os.path.lexists(target):
        raise Conflict(f"{target} exists", fix="Choose another name; a backup never overwrites a file.")
    part = target.with_name(f".{target.name}.{os.getpid()}{UNFINISHED}")
    folders = [name for name in archive.FOLDERS if workspaces or name != "workspaces"]
    key = MasterKey(find_key_file(paths)).place
    made_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    manifest = archive.make_manifest(version=__version__, made_at=made_at, key=key, folders=folders)
    try:
        with being_written(part), open(part, "r+b") as file:
            with closing(archive.ArchiveWriter(file)) as writer:
                writer.add_bytes(archive.MANIFEST, msgspec.json.encode(manifest))
                writer.add_file(archive.STORE, store_copy)
                if passphrase:
                    writer.add_bytes(archive.SEALED_KEY, _seal_master_key(paths, key, passphrase))
                _add_settings(writer, paths)
                for name in folders:
                    writer.add_folder(name, find_folder(paths, name))
            writer.left_out += _list_agents_elsewhere(paths)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, target)
        except FileExistsError as error:
            raise Conflict(f"{target} exists", fix="Choose another name.") from error
        sync_folder(target.parent)
    except OSError as error:
        raise StoreError(
            f"{target} cannot be written: {error.strerror}", fix="Free some space, or choose another place."
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return HomeBackup(
        path=str(target),
        bytes=target.stat().st_size,
        files=writer.files,
        key=key,
        has_key=bool(passphrase),
        left_out=tuple(writer.left_out),
    )


def _list_agents_elsewhere(paths: Paths) -> list[str]:
    """Return the folders of agents that are outside the home, which are not part of a backup."""
    try:
        config = load_config(paths.config)[0]
    except ConfigError:
        return []
    folders = (find_agents_folder(config, paths), *find_foreign_folders(config))
    return [str(folder) for folder in folders if folder != paths.agents]


def find_folder(paths: Paths, name: str) -> Path:
    """Return where a folder of the archive is in a home."""
    return {
        "agents": paths.agents,
        "skills": paths.skills,
        "tools": paths.tools,
        "workflows": paths.workflows,
        "workspaces": paths.workspaces,
    }[name]


def find_key_file(paths: Paths) -> Path:
    return paths.data / "vault.key"


def is_setting(name: str) -> bool:
    return name.endswith(_SETTINGS) and not name.startswith(".")


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _seal_master_key(paths: Paths, place: str, passphrase: str) -> bytes:
    if place == "none":
        raise NotFound("there is no key to back up: no secret was ever stored", fix="Leave --with-keys out.")
    return seal_key(bytes(load_key(find_key_file(paths), place).view), passphrase)


def _add_settings(writer: archive.ArchiveWriter, paths: Paths) -> None:
    approvals = paths.project_approvals
    if approvals.is_file() and not approvals.is_symlink():
        writer.add_file(archive.APPROVALS, approvals)
    folder = paths.config.parent
    for file in sorted(folder.glob("*")) if folder.is_dir() else ():
        if is_setting(file.name) and file.is_file() and not file.is_symlink():
            if file.stat().st_size > _MAX_SETTING:
                writer.left_out.append(file.name)
            else:
                writer.add_file(f"{archive.SETTINGS}/{file.name}", file)
