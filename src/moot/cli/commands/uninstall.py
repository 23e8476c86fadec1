"""`moot uninstall`: stops the daemon and removes its service; with --purge also everything Moot has stored."""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.commands import stop_daemon
from moot.cli.connect import find_paths
from moot.cli.program import hint, removal_command
from moot.cli.setup.unit_files import LABEL, SYSTEM_UNITS, UNIT
from moot.client import daemon_process
from moot.daemon.folder_trees import remove_tree
from moot.daemon.paths import Paths
from moot.domain.errors import BadRequest, Conflict

_SECONDS = 60.0


@click.command()
@click.option("--dry-run", is_flag=True, help="List what would be removed; change nothing.")
@click.option("--purge", is_flag=True, help="Delete conversations, keys, agents and settings too.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@output.json_option
def uninstall(dry_run: bool, purge: bool, yes: bool) -> None:
    """Stop the daemon; with --purge, delete everything Moot has stored. `moot backup` saves the conversations first.

    The program itself is removed with the tool it was installed with: pip, pipx or uv.
    """
    home = find_paths()
    service, removal = _find_unit_file()
    if service is not None and not dry_run:
        raise Conflict(f"the daemon is installed as a service ({service})", fix=f"First run: {removal}")
    folders = _list_folders(home) if purge else []
    data: dict[str, Any] = {
        "dry_run": dry_run,
        "daemon": daemon_process.running_pid(home) or None,
        "service": str(service) if service else None,
        "service_removal": hint(removal) if service else None,
        "deleted": [str(folder) for folder in folders],
        "kept": [] if purge else [str(folder) for folder in _list_folders(home)],
        "program": removal_command(),
    }
    if not dry_run:
        if folders and not yes:
            _confirm(folders)
        if daemon_process.is_locked(home.lock):
            asyncio.run(stop_daemon.stop(home, now=False, seconds=_SECONDS))
        for folder in folders:
            _remove(folder)
        if purge:
            data["deleted"] += _remove_empty_parents(home)
            data["kept"] = [str(path) for path in _list_other_files(home)]
    output.emit(data, render=_render)


def _list_folders(home: Paths) -> list[Path]:
    """Moot's own files and folders that exist, without those inside another of them."""
    own = [path for path in dict.fromkeys([*home.own, home.workspaces]) if path.exists() or path.is_symlink()]
    return [path for path in own if not any(other in path.parents for other in own)]


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    else:
        remove_tree(path)


def _remove_empty_parents(home: Paths) -> list[str]:
    """Remove Moot's own folders, such as ~/.config/moot, if they contained only what was deleted; return them."""
    removed = []
    for folder in dict.fromkeys((home.config.parent, home.logs.parent)):
        if folder != Path.home() and not folder.is_symlink():
            # Refused if anything else is in it.
            with suppress(OSError):
                folder.rmdir()
                removed.append(str(folder))
    return removed


def _list_other_files(home: Paths) -> list[Path]:
    """What is still beside the configuration after a purge, because somebody else has put it there."""
    folder = home.config.parent
    return sorted(folder.iterdir()) if folder != Path.home() and folder.is_dir() else []


def _confirm(folders: list[Path]) -> None:
    if output.wants_json() or not sys.stdin.isatty():
        raise BadRequest("nothing was deleted: there is no terminal to confirm on", fix="Add --yes.")
    output.print_note("\n".join(["This deletes, and cannot be undone:", *(f"  {folder}" for folder in folders)]))
    prompts.require_confirmation("Delete all of it?")


def _find_unit_file() -> tuple[Path | None, str]:
    """The file of the installed service, and the command that removes it."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    own = "moot service uninstall"
    places = (
        (config / "systemd" / "user" / UNIT, own),
        (SYSTEM_UNITS / UNIT, f"{own} --system"),
        (Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist", own),
    )
    return next(((path, command) for path, command in places if path.exists()), (None, ""))


def _render(data: dict[str, Any]) -> str:
    would = "Would stop" if data["dry_run"] else "Stopped"
    lines = [f"{would} the daemon (pid {data['daemon']})." if data["daemon"] else "The daemon is not running."]
    if data["service"]:
        lines.append(f"Would first need: {data['service_removal']} ({data['service']})")
    if data["deleted"]:
        lines.append("Would delete:" if data["dry_run"] else "Deleted:")
        lines += [f"  {path}" for path in data["deleted"]]
    if data["kept"]:
        head = "Kept, because Moot has not made them:" if data["deleted"] else "Kept (--purge deletes them):"
        lines += [head, *(f"  {path}" for path in data["kept"])]
    return "\n".join([*lines, f"To remove the program: {data['program']}"])
