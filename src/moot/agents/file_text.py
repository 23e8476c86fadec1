"""Reads the text of an agent file safely: regular file, inside its folder, bounded size."""

import os
import stat
from pathlib import Path

from moot.domain.front_matter import MAX_BYTES, Broken, decode


def read_text(path: Path, within: Path) -> str:
    """Return the text of a file, which must lie inside `within` after resolving links. Raises Broken."""
    if not _is_within(path, within):
        raise Broken(1, f"it is a link that leads out of {within}; put the file itself there")
    try:
        # Non-blocking, so that a named pipe cannot block the daemon.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Broken(1, "it is not a regular file")
            return decode(file.read(MAX_BYTES + 1))
    except OSError as error:
        raise Broken(1, f"it cannot be read: {error.strerror}") from error


def _is_within(path: Path, within: Path) -> bool:
    try:
        return path.resolve().is_relative_to(within.resolve())
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError in Python 3.11
        return False
