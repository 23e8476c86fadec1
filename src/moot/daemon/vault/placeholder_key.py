"""The key for placeholders of personal data, stored so that they stay the same after a restart."""

import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

_KEY_BYTES = 32


def load_placeholder_key(path: Path) -> bytes:
    """Return the key in the file; create it if there is none. Losing it only invalidates providers' prompt caches."""
    with suppress(OSError):
        found = path.read_bytes()
        if len(found) == _KEY_BYTES:
            return found
    key = secrets.token_bytes(_KEY_BYTES)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(key)
        draft.replace(path)
    except OSError as error:
        logger.warning("placeholders will change after a restart: %s cannot be written: %s", path, error.strerror)
    return key
