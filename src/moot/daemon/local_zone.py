"""Finds the IANA name of the time zone of this computer. Used by daemon/app.py for schedules."""

import os
from pathlib import Path

from moot.domain.errors import BadRequest
from moot.domain.schedule import find_zone

_LINK = Path("/etc/localtime")
_NAME = Path("/etc/timezone")
_FOLDER = "zoneinfo/"


def find_local_zone() -> str:
    """Return the name from TZ, or from the files of the system; UTC if none of them names a zone."""
    # TZ may also name the file of a zone.
    given = os.environ.get("TZ", "").lstrip(":").rpartition(_FOLDER)[2]
    for name in (given, _read_link(), _read_name()):
        if name and _is_zone(name):
            return name
    return "UTC"


def _read_link() -> str:
    try:
        return os.path.realpath(_LINK).partition(_FOLDER)[2]
    except OSError:
        return ""


def _read_name() -> str:
    try:
        return _NAME.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _is_zone(name: str) -> bool:
    try:
        find_zone(name)
    except BadRequest:
        return False
    return True
