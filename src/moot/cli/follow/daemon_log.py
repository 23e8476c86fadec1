"""Prints the daemon's log, and follows it across rotation. Used by `moot logs --daemon`."""

import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from moot.cli import output
from moot.cli.render import sanitize, terminal
from moot.daemon.paths import Paths

LEVELS = ("debug", "info", "warning", "error", "critical")
_COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}
_POLL_SECONDS = 0.2
_READ_BYTES = 1024 * 1024


def show_log(home: Paths, *, follow: bool, last: int, level: str) -> None:
    """Print the newest lines of at least this level; with `follow`, print new ones until interrupted."""
    if not home.log.exists():
        output.print_note(f"There is no log yet: {home.log}")
    entries = [entry for entry in _read_newest(home.log) if _is_at_least(entry, level)][-last:]
    if output.wants_json() and not follow:
        output.emit(entries)
        return
    for entry in entries:
        _print(entry)
    if follow:
        for entry in _follow(home.log):
            if _is_at_least(entry, level):
                _print(entry)


def _read_newest(path: Path) -> list[dict[str, Any]]:
    """The entries in the newest part of the log, also of the file before it if this one was just begun."""
    found: list[dict[str, Any]] = []
    for file in (path.with_name(f"{path.name}.1"), path):
        if not file.exists():
            continue
        with file.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(0, size - _READ_BYTES))
            lines = log.read().split(b"\n")
        found += _parse_lines(lines[1:] if size > _READ_BYTES else lines)
    return found


def _parse_lines(lines: list[bytes]) -> list[dict[str, Any]]:
    found = []
    for line in lines:
        try:
            entry = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError:
            # The end of a line that is being written, or damage.
            continue
        found.append(entry)
    return found


def _is_at_least(entry: dict[str, Any], level: str) -> bool:
    return str(entry.get("level")) in LEVELS[LEVELS.index(level) :]


def _follow(path: Path) -> Iterator[dict[str, Any]]:
    """Yield new entries. When the log is rotated, the rest of the old file comes first."""
    log: IO[bytes] | None = None
    rest = b""
    is_first = True
    while True:
        if log is None and path.exists():
            log = path.open("rb")
            if is_first:
                log.seek(0, 2)
        is_first = False
        data = log.read() if log is not None else b""
        if data:
            *lines, rest = (rest + data).split(b"\n")
            yield from _parse_lines(lines)
        elif log is not None and _is_rotated(path, log):
            log.close()
            log, rest = None, b""
        else:
            time.sleep(_POLL_SECONDS)


def _is_rotated(path: Path, log: IO[bytes]) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(log.fileno()))
    except FileNotFoundError:
        return False


def _print(entry: dict[str, Any]) -> None:
    if output.wants_json():
        output.write(msgspec.json.encode(entry).decode() + "\n")
        return
    level = str(entry.get("level", ""))
    text = f"{_format_moment(str(entry.get('at', '')))} {level:<7} {sanitize.clean(str(entry.get('message', '')))}"
    if entry.get("trace"):
        text += "\n" + sanitize.clean(str(entry["trace"]))
    output.write((terminal.paint(text, fg=_COLOURS[level]) if level in _COLOURS else text) + "\n")


def _format_moment(text: str) -> str:
    """The time of an entry in the local time zone."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return sanitize.line(text)
