"""The daemon's log: JSON lines in a rotating file, readable lines on stderr."""

import logging
import os
import queue
import shutil
import sys
import threading
import time
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import QueueHandler, RotatingFileHandler
from pathlib import Path

import msgspec

from moot.daemon.paths import Paths, make_folder
from moot.domain.errors import MootError

_BYTES = 8 * 1024 * 1024
_KEPT = 4
_CONSOLE_LINES = 1000
# `extra` of a record for the file only, because standard error gets it from somebody else.
NOT_ON_CONSOLE = {"is_on_console": False}


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_text:
            line["trace"] = record.exc_text
        return msgspec.json.encode(line).decode()


class _Console(QueueHandler):
    """Writes to standard error from a thread of its own.

    Standard error may be a pipe that is not read. Lines are dropped then, without blocking the daemon; the file
    contains them anyway.
    """

    def __init__(self) -> None:
        self._lines: queue.Queue[logging.LogRecord] = queue.Queue(_CONSOLE_LINES)
        super().__init__(self._lines)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        threading.Thread(target=self._write, name="console log", daemon=True).start()

    def enqueue(self, record: logging.LogRecord) -> None:
        with suppress(queue.Full):
            self._lines.put_nowait(record)

    def _write(self) -> None:
        while True:
            record = self._lines.get()
            with suppress(OSError, ValueError):
                sys.stderr.write(f"{record.getMessage()}\n")


class _PrivateFile(RotatingFileHandler):
    """A rotating log file that only the owner can read, begun again if it is moved or removed while it is written."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream is not None and not self._is_in_place(self.stream):
            with suppress(OSError, MootError):
                make_folder(Path(self.baseFilename).parent)
                earlier, self.stream = self.stream, self._open()
                earlier.close()
        super().emit(record)

    def _is_in_place(self, stream: TextIOWrapper) -> bool:
        try:
            return os.path.samestat(os.stat(self.baseFilename), os.fstat(stream.fileno()))
        except FileNotFoundError:
            return False
        except OSError:
            # It cannot be looked at now; what is open can still be written.
            return True

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        handle = os.open(self.baseFilename, flags, 0o600)
        with suppress(OSError):
            # An existing file may have other permissions.
            os.fchmod(handle, 0o600)
        return open(handle, "a", encoding=self.encoding, errors=self.errors)


def _make_private(paths: Paths) -> None:
    for rotated in paths.logs.glob(f"{paths.log.name}.*"):
        with suppress(OSError):
            rotated.chmod(0o600)


def rotate_console(paths: Paths) -> None:
    """Rotate the output of the daemon and its children if it is long. It is held open, so it is copied and emptied."""
    console = paths.console
    with suppress(FileNotFoundError):
        if console.stat().st_size <= _BYTES:
            return
        for number in range(_KEPT - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{console}.{number}", f"{console}.{number + 1}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with console.open("rb") as source, os.fdopen(os.open(f"{console}.1", flags, 0o600), "wb") as target:
            # No more than two files' worth, however fast a child writes.
            source.seek(max(0, os.fstat(source.fileno()).st_size - 2 * _BYTES))
            shutil.copyfileobj(source, target)
        # Every writer appends, so the next line is at the beginning.
        os.truncate(console, 0)


def open_log_file(paths: Paths, redaction: logging.Filter) -> logging.Handler:
    """Return the handler for the log file of a home."""
    make_folder(paths.logs)
    _make_private(paths)
    rotate_console(paths)
    lines = _PrivateFile(paths.log, maxBytes=_BYTES, backupCount=_KEPT, encoding="utf-8")
    lines.setFormatter(_JsonLines())
    # Each handler has the redaction filter, because a filter on a logger does not apply to its children.
    lines.addFilter(redaction)
    return lines


def start_logging(paths: Paths, redaction: logging.Filter) -> None:
    lines = open_log_file(paths, redaction)
    console = _Console()
    console.setLevel(logging.WARNING)
    console.addFilter(redaction)
    console.addFilter(lambda record: getattr(record, "is_on_console", True))
    logging.basicConfig(level=logging.INFO, handlers=[lines, console], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
