"""Keeps the working directory out of the import path: that is often a project in which agents write."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress

_NAME = "PYTHONPATH"


def drop_working_directory(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without the entries of PYTHONPATH that mean the working directory.

    `PYTHONPATH=$PYTHONPATH:/x` leaves such an empty entry where the variable was not set before.
    """
    kept = dict(environment)
    if _NAME in kept:
        kept[_NAME] = os.pathsep.join(entry for entry in kept[_NAME].split(os.pathsep) if not _is_here(entry))
    return kept


def forget_working_directory() -> None:
    """Import nothing from the working directory from now on, neither here nor in processes started from here."""
    kept = drop_working_directory(os.environ).get(_NAME, "")
    if kept == os.environ.get(_NAME, ""):
        return
    os.environ[_NAME] = kept
    # Where the folder is gone there is nothing to import from it.
    with suppress(OSError):
        here = os.getcwd()
        if here not in kept.split(os.pathsep):
            sys.path[:] = [entry for entry in sys.path if entry != here]


def _is_here(entry: str) -> bool:
    return os.path.normpath(entry) == "."
