"""What a local daemon is told of the calling process: its working directory and PATH. Used by clients and the CLI."""

import os
import re

_LONGEST_PATH = 16_000
_ESCAPED = re.compile("[\ud800-\udfff]")


def read_search_path() -> str:
    """The PATH, so that commands of agents use the same programs; empty if it cannot be sent."""
    path = os.environ.get("PATH", "")
    return path if len(path) <= _LONGEST_PATH and not _ESCAPED.search(path) else ""


def read_folder() -> str:
    """The working directory; empty if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""
