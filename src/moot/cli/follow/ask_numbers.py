"""Stores the numbers of the last `moot inbox` listing, so that an ask can be named by its number.

Each terminal has a file of its own, so that a listing elsewhere can neither change what a number means nor forget it.
"""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from moot.cli.connect import find_paths, remote_address
from moot.daemon.paths import make_folder, write_private
from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.wire import moot_pb2 as pb

# So many terminals are remembered; the one that listed longest ago is forgotten first.
_MOST_TERMINALS = 32
_AGAIN = "Run `moot inbox` to list the open asks again."


def remember_list(found: list[pb.AskInfo]) -> None:
    """Store the listed asks; if they cannot be stored, only ids work."""
    listed = {"where": _list_key(), "asks": [[info.ask_id, info.attempt] for info in found]}
    with suppress(OSError):
        path = _list_file()
        make_folder(path.parent)
        write_private(path, json.dumps(listed))
        _forget_oldest(path.parent)


def find_by_number(number: int, waiting: list[pb.AskInfo]) -> pb.AskInfo:
    """The ask listed under the number, if it is still open and unchanged."""
    listed = _read_list()
    if not listed:
        raise BadRequest(f"no list was shown in this terminal, so {number} is not known", fix=_AGAIN)
    if not 1 <= number <= len(listed):
        raise NotFound(f"the last list has no number {number}", fix=_AGAIN)
    ask_id, attempt = listed[number - 1]
    info = next((info for info in waiting if info.ask_id == ask_id), None)
    if info is None:
        raise NotFound(f"number {number} of the last list is no longer open", fix=_AGAIN)
    if info.attempt != attempt:
        raise Conflict(f"number {number} of the last list has changed", fix=_AGAIN)
    return info


def _read_list() -> list[tuple[str, int]]:
    try:
        kept = json.loads(_list_file().read_text(encoding="utf-8"))
        if kept["where"] == _list_key():
            return [(str(ask_id), int(attempt)) for ask_id, attempt in kept["asks"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    return []


def _list_file() -> Path:
    digest = hashlib.sha256(json.dumps(_list_key()).encode()).hexdigest()
    return find_paths().run / "inbox" / f"{digest[:32]}.json"


def _forget_oldest(folder: Path) -> None:
    ages = []
    for path in folder.glob("*.json"):
        # Another terminal may have forgotten it meanwhile.
        with suppress(FileNotFoundError):
            ages.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(ages, reverse=True)[_MOST_TERMINALS:]:
        path.unlink(missing_ok=True)


def _list_key() -> list[str]:
    """A key for the daemon and the terminal. The number of a terminal that was closed can be given to another one."""
    terminal = os.getsid(0)
    return [remote_address(), str(terminal), _start_of(terminal)]


def _start_of(pid: int) -> str:
    """When a process was started, in a form that only differs between processes; empty where the system hides it."""
    try:
        # The boot tells apart two processes that were started at the same time after a start of the machine.
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return f"{boot} {fields[19]}"
