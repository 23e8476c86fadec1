"""`moot backup` and `moot restore`: the whole home as one file, or only the store."""

import fcntl
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.connect import find_paths, send_request
from moot.cli.render import sanitize
from moot.cli.render.numbers import format_plural
from moot.cli.stdin import read_stdin
from moot.client import daemon_process
from moot.daemon.lock import hold_lock
from moot.daemon.paths import Paths
from moot.daemon.process_protection import hide_memory
from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.wire import moot_pb2 as pb

_SQLITE = b"SQLite format 3\0"
_SHOWN = 3
_TAR_NAMES = (".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z")


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--workspaces", is_flag=True, help="Include the working folders of conversations.")
@click.option("--with-keys", is_flag=True, help="Include the key to the secrets, sealed with a passphrase.")
@click.option("--store-only", is_flag=True, help="Copy only the store, as a SQLite file.")
@output.json_option
def backup(path: Path, workspaces: bool, with_keys: bool, store_only: bool) -> None:
    """Write a backup of the whole home to PATH while the daemon runs.

    It contains conversations, settings, agents, skills, tools, workflows, approved project files and the stored
    secrets, which stay encrypted. The passphrase is prompted for, or read from stdin.

    Not part of it: keys (the master key without --with-keys, the identity for other daemons, the key of placeholders),
    the token for metrics, models, logs, the history for `moot undo`, the folders of `moot demo` and `moot nats dev`,
    working folders without --workspaces, what a restore has kept, links, and agents outside the home.
    """
    # The daemon has another working directory, so paths are absolute.
    target = path.expanduser().absolute()
    _refuse_other_format(target, store_only=store_only)
    if store_only:
        if workspaces or with_keys:
            raise click.UsageError("--store-only goes with no other option.")
        _back_up_store(target)
        return
    from moot.daemon.backup.home_backup import write_home_backup  # noqa: PLC0415 - only this command needs it

    passphrase = _read_passphrase(twice=True) if with_keys else ""
    with output.progress("Backing up"), _store_copy(target) as copy:
        done = write_home_backup(find_paths(), copy, target, workspaces=workspaces, passphrase=passphrase)
    data = {
        "path": done.path,
        "bytes": done.bytes,
        "files": done.files,
        "key": done.key,
        "has_key": done.has_key,
        "left_out": list(done.left_out),
    }
    output.emit(data, render=lambda _: _render_backup(data))


def _refuse_other_format(target: Path, *, store_only: bool) -> None:
    """Raise if the name promises another format: whoever finds the file later would not be able to open it."""
    is_other = target.name.lower().endswith(_TAR_NAMES) or (store_only and target.suffix.lower() == ".zip")
    if is_other:
        form, name = ("a SQLite file", "x.db") if store_only else ("a ZIP archive", "x.zip")
        raise BadRequest(f"a backup is {form}, not what the name {target.name} says", fix=f"Name it like {name}.")


def _render_backup(data: dict[str, Any]) -> str:
    files = format_plural(data["files"], "file")
    lines = [f"Wrote {data['bytes']} bytes to {data['path']}: the store, settings and {files}."]
    if data["left_out"]:
        shown = ", ".join(data["left_out"][:_SHOWN])
        more = len(data["left_out"]) - _SHOWN
        lines.append(f"Left out (links, unreadable, or elsewhere): {shown}{f' and {more} more' if more > 0 else ''}.")
    if data["key"] != "none" and not data["has_key"]:
        place = "data/vault.key" if data["key"] == "file" else "the keyring of this user"
        lines.append(
            f"The secrets in it can be read only with the key in {place}, which is not part of it. Keep that, or add it"
            " with --with-keys."
        )
    return "\n".join(output.wrap_prose(sanitize.line(line), sys.stdout, indent="  ") for line in lines)


def _back_up_store(target: Path) -> None:
    with output.progress("Backing up"):
        answer = send_request(pb.ClientMessage(backup=pb.BackupMsg(path=str(target)))).backed_up
    data = {"path": answer.path, "bytes": answer.bytes}
    output.emit(data, render=lambda _: f"Wrote {answer.bytes} bytes to {sanitize.name(answer.path)}.")


@contextmanager
def _store_copy(target: Path) -> Iterator[Path]:
    """Let the daemon copy the store beside the target; the copy is removed afterwards."""
    # By this suffix the next backup recognizes a copy that was left behind by a crash, unless it is locked.
    copy = target.with_name(f".{target.name}.{secrets.token_hex(4)}.moot-part")
    try:
        send_request(pb.ClientMessage(backup=pb.BackupMsg(path=str(copy))))
        with copy.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield copy
    finally:
        copy.unlink(missing_ok=True)


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--with-keys", is_flag=True, help="Restore the key to the secrets too; needs the passphrase.")
@click.option("--yes", is_flag=True, help="Restore without asking.")
@output.json_option
def restore(path: Path, with_keys: bool, yes: bool) -> None:
    """Replace the home with the backup at PATH. The daemon must be stopped; what is replaced is kept under other names.

    A backup can be restored into a home at another path. Shows what it would do and asks first. With --json and
    without --yes it only shows it. A SQLite file replaces only the store.
    """
    home = find_paths()
    if daemon_process.running_pid(home):
        raise Conflict("the daemon is running", fix="Stop it first: moot down.")
    source = path.expanduser().absolute()
    is_store = _is_store(source)
    passphrase = _read_passphrase(twice=False) if with_keys and not is_store else ""
    if not yes and not _may_restore(source, home, is_store=is_store):
        return
    with hold_lock(home):
        data = _restore_store(home, source) if is_store else _restore_home(home, source, passphrase)
    output.emit(data, render=_render_restored)


def _is_store(source: Path) -> bool:
    try:
        with source.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except FileNotFoundError as error:
        raise NotFound(f"no backup {source}", fix="Give a file made by `moot backup`.") from error
    except OSError as error:
        raise BadRequest(f"{source} cannot be read: {error.strerror}", fix="Check the path.") from error


def _restore_store(home: Paths, source: Path) -> dict[str, Any]:
    from moot.store.backup import restore_backup  # noqa: PLC0415 - the store is heavy, and only this command needs it

    kept = restore_backup(source, home.store)
    return {
        "home": str(home.store),
        "store": str(home.store),
        "backup": str(source),
        "kept": str(kept or ""),
        "restored": True,
    }


def _restore_home(home: Paths, source: Path, passphrase: str) -> dict[str, Any]:
    from moot.daemon.backup.restore import restore_home  # noqa: PLC0415 - only this command needs it

    with output.progress("Restoring"):
        done = restore_home(home, source, passphrase=passphrase)
    store = next((each for each in done.kept if Path(each).name.startswith(f"{home.store.name}.before")), "")
    return {
        "home": str(home.config.parent),
        "store": str(home.store),
        "backup": str(source),
        "kept": store,
        "kept_folder": str(home.before_restore) if home.before_restore.exists() else "",
        "kept_files": list(done.kept),
        "has_key": done.has_key,
        "restored": True,
    }


def _render_restored(data: dict[str, Any]) -> str:
    lines = [f"Restored {data['home']} from {data['backup']}."]
    if data["kept"]:
        lines.append(f"The old store is {data['kept']}.")
    if folder := data.get("kept_folder"):
        lines.append(f"The old settings, agents, skills and tools are in {folder}.")
    if not data.get("has_key", True):
        lines.append(
            "The key to the stored secrets is not here. Restore again with --with-keys if the backup has it, or copy"
            " data/vault.key of the old home. Otherwise set the secrets again: moot secrets set NAME. The first one"
            " gets a new key; those you do not set again stay unreadable."
        )
    return "\n".join(output.wrap_prose(sanitize.line(line), sys.stdout, indent="  ") for line in lines)


def _may_restore(source: Path, home: Paths, *, is_store: bool) -> bool:
    """Show what would happen and ask; False if only showing it was requested."""
    size = source.stat().st_size
    if output.wants_json():
        data = {"store": str(home.store), "backup": str(source), "bytes": size, "restored": False}
        output.emit(data)
        return False
    kept = "What is there now is kept." if home.store.exists() else "There is no store yet."
    what = f"{home.store}" if is_store else f"the store, settings, agents, skills and tools of {home.config.parent}"
    output.print_note(output.wrap_prose(f"This replaces {what} by {source} ({size} bytes). {kept}"))
    if not sys.stdin.isatty():
        raise BadRequest("nothing was restored: there is no terminal to confirm on", fix="Add --yes.")
    prompts.require_confirmation("Restore it?")
    return True


def _read_passphrase(*, twice: bool) -> str:
    hide_memory()
    if sys.stdin.isatty():
        prompt = "Passphrase for the keys (not shown)"
        return str(click.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True))
    found = read_stdin().removesuffix("\n").removesuffix("\r")
    if not found:
        raise BadRequest("no passphrase was given", fix="Pipe it in, or run the command on a terminal.")
    return found
