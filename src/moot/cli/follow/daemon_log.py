"""Prints the daemon's log, and follows it across rotation. Used by `moot logs --daemon`."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import msgspec

from moot.cli import output
from moot.cli.render import numbers, sanitize, terminal
from moot.daemon.paths import Paths

LEVELS = ("debug", "info", "warning", "error", "critical")
_COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}
_POLL_SECONDS = 0.2
_READ_BYTES = 1024 * 1024


def show_log(home: Paths, *, follow: bool, last: int, level: str) -> None:
    """Print the newest lines of at least this level; with `follow`, print new ones until interrupted."""
    if not home.log.exists():
        output.print_note(f"There is no log yet: {home.log}")
    # What is followed is the file that was read: a rotation in between would hide lines otherwise.
    with closing(_LogReader(home.log)) as log:
        entries = [entry for entry in log.read_newest() if _is_at_least(entry, level)][-last:]
        if output.wants_json() and not follow:
            output.emit(entries)
            return
        for entry in entries:
            _print(entry)
        if follow:
            for entry in log.follow():
                if _is_at_least(entry, level):
                    _print(entry)


class _LogReader:
    """Reads a log from the file that was opened first, and goes on in the next one when that is rotated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = _open(path)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def read_newest(self) -> list[dict[str, Any]]:
        """Return the newest entries of this log and the one before it; what follows comes after the last whole line."""
        found: list[dict[str, Any]] = []
        if (earlier := _open(self._path.with_name(f"{self._path.name}.1"))) is not None:
            with earlier:
                # A rotation after this log was opened makes it the earlier one.
                if self._log is None or not _is_same_file(earlier, self._log):
                    found += _read_end(earlier)
        return found + _read_end(self._log) if self._log is not None else found

    def follow(self) -> Iterator[dict[str, Any]]:
        """Yield new entries. When the log is rotated, the rest of the old file comes first."""
        rest = b""
        while True:
            if self._log is None:
                self._log = _open(self._path)
            # Looked at before the last read: what was written until the rotation is then in it.
            is_rotated = self._log is not None and _is_rotated(self._path, self._log)
            if self._log is not None and (data := self._log.read()):
                *lines, rest = (rest + data).split(b"\n")
                yield from _parse_lines(lines)
            elif self._log is not None and is_rotated:
                self._log.close()
                self._log, rest = None, b""
            else:
                time.sleep(_POLL_SECONDS)


def _open(path: Path) -> IO[bytes] | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _read_end(log: IO[bytes]) -> list[dict[str, Any]]:
    start = max(0, log.seek(0, 2) - _READ_BYTES)
    log.seek(start)
    *lines, rest = log.read().split(b"\n")
    log.seek(-len(rest), 1)
    return _parse_lines(lines[1:] if start else lines)


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


def _is_same_file(one: IO[bytes], other: IO[bytes]) -> bool:
    return os.path.samestat(os.fstat(one.fileno()), os.fstat(other.fileno()))


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
    text = (
        f"{numbers.format_moment(str(entry.get('at', '')))} {level:<7} {sanitize.clean(str(entry.get('message', '')))}"
    )
    if entry.get("trace"):
        text += "\n" + sanitize.clean(str(entry["trace"]))
    output.write((terminal.paint(text, fg=_COLOURS[level]) if level in _COLOURS else text) + "\n")
