"""Reads text from stdin: all of it, or what is piped in beside an argument."""

import os
import select
import stat
import sys

from moot.cli import output
from moot.domain.errors import BadRequest

# A pipe may be open with nobody ever writing to it, as under many a job runner.
FIRST_SECONDS = 0.2
NEXT_SECONDS = 10.0


def read_stdin() -> str:
    """Everything on stdin, however long it takes."""
    return _decode(sys.stdin.buffer.read())


def read_piped() -> str:
    """What a file or a pipe on stdin holds, empty when there is none. Never waits for a pipe that stays silent."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError, AttributeError):
        # No stdin at all, or one that is no file.
        return ""
    if stat.S_ISREG(mode):
        return read_stdin()
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        return _decode(_read_pipe(descriptor))
    return ""


def _read_pipe(descriptor: int) -> bytes:
    if not _is_readable(descriptor, FIRST_SECONDS):
        output.print_note("Nothing arrived on stdin in time; continuing without it. Omit TEXT or use - to wait for it.")
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
    """Whether there is something to read, the end included."""
    return bool(select.select([descriptor], [], [], seconds)[0])


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"stdin is not valid UTF-8 at byte {error.start}", fix="Convert it first.") from error
