"""The sender of the conversation that belongs to a project directory (`--here`): `user@NAME-ID`."""

import os
import re
from hashlib import blake2b
from pathlib import Path

_OTHER = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 32


def find_project(folder: str) -> str:
    """Return the nearest folder at or above `folder` that is a git checkout; `folder` itself if there is none."""
    start = Path(os.path.realpath(folder))
    return str(next((each for each in (start, *start.parents) if (each / ".git").exists()), start))


def derive_sender(name: str, folder: str) -> str:
    """Return the sender that `name` has in the project of this folder. The same folder always has the same sender."""
    project = find_project(folder)
    label = _OTHER.sub("-", os.path.basename(project)).strip("-")[:_LONGEST_NAME] or "root"
    return f"{name}@{label}-{blake2b(os.fsencode(project), digest_size=3).hexdigest()}"
