"""The text of UUIDs, read and written without `UUID` objects: mail needs several for each message. Pure.

Used by goal.py, mail.py and outbox.py.
"""

import re
from hashlib import sha1
from uuid import NAMESPACE_OID, UUID

_USUAL_FORM = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAMESPACE = NAMESPACE_OID.bytes
# What is kept of a hash, and what says that it is a UUID of version 5.
_HASH_BITS = (1 << 128) - 1 & ~(15 << 76 | 3 << 62)
_VERSION_5 = 5 << 76 | 2 << 62


def write_uuid(value: int) -> str:
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def read_uuid(text: str) -> int | None:
    """Return the value of a UUID in any form that `UUID` accepts; None if the text is none."""
    if _USUAL_FORM.fullmatch(text):
        return int(text.replace("-", ""), 16)
    try:
        return UUID(text).int
    except ValueError:
        return None


def hash_to_uuid(name: str) -> str:
    """Return the UUID of version 5 for a name, as `uuid5` does."""
    digest = sha1(_NAMESPACE + name.encode(), usedforsecurity=False).digest()
    return write_uuid(int.from_bytes(digest[:16], "big") & _HASH_BITS | _VERSION_5)
