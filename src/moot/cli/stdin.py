"""Reads text from stdin: all of it, or what is piped in besides an argument."""

import os
import select
import stat
import sys

from moot.cli import output
from moot.domain.errors import BadRequest

# Job runners often leave a pipe open to which nothing is ever written.
FIRST_SECONDS = 0.2
NEXT_SECONDS = 10.0


def read_stdin() -> str:
    """Read stdin to its end."""
    return _decode(sys.stdin.buffer.read())


def read_piped() -> str:
    """The content of a file or pipe on stdin; empty if there is none. Does not wait for a silent pipe."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError, AttributeError):
        # stdin is closed or has no file descriptor.
        return ""
    if stat.S_ISREG(mode):
        return read_stdin()
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        return _decode(_read_pipe(descriptor))
    return ""


def _read_pipe(descriptor: int) -> bytes:
    if not _is_readable(descriptor, FIRST_SECONDS):
        output.print_prose(
            "Nothing arrived on stdin in time; continuing without it. Omit TEXT or use - to wait for it."
        )
        return b""
    pieces: list[bytes] = []
    while piece := os.read(descriptor, 65536):
        pieces.append(piece)
        if not _is_readable(descriptor, NEXT_SECONDS):
            raise BadRequest(
                f"stdin sent data and then nothing for {NEXT_SECONDS:.0f} seconds",
                fix="Close the pipe, or use - to wait for it: moot ask AGENT -",
            )
    return b"".join(pieces)


def _is_readable(descriptor: int, seconds: float) -> bool:
    """Whether stdin has data or is at its end."""
    return bool(select.select([descriptor], [], [], seconds)[0])


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"stdin is not valid UTF-8 at byte {error.start}", fix="Convert it first.") from error
