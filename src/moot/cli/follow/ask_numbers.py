"""Stores the numbers of the last `moot inbox` listing, so that an ask can be named by its number.

The numbers are stored per terminal, so that a listing elsewhere cannot change their meaning.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from moot.cli.connect import find_paths, remote_address
from moot.daemon.paths import make_folder
from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.wire import moot_pb2 as pb

_AGAIN = "Run `moot inbox` to list the open asks again."


def remember_list(found: list[pb.AskInfo]) -> None:
    """Store the listed asks; if they cannot be stored, only ids work."""
    listed = {"where": _list_key(), "asks": [[info.ask_id, info.attempt] for info in found]}
    with suppress(OSError):
        path = _list_file()
        make_folder(path.parent)
        path.write_text(json.dumps(listed), encoding="utf-8")


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
    return find_paths().run / "inbox.json"


def _list_key() -> list[str]:
    """A key for the daemon and the terminal."""
    return [remote_address(), str(os.getsid(0))]
