"""The text of UUIDs, read and written without `UUID` objects: mail needs several for each message. Pure.

Used by goal.py, mail.py and outbox.py.
"""

import re
from functools import lru_cache
from hashlib import sha1
from uuid import NAMESPACE_OID, UUID

_USUAL_FORM = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAMESPACE = NAMESPACE_OID.bytes
# The digit that contains the variant of a UUID, by the digit that a hash has there.
_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
# The bits of a time at the beginning of a UUID.
_TIME = (1 << 48) - 1


@lru_cache(maxsize=4096)
def write_uuid(value: int) -> str:
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_usual_form(text: str) -> bool:
    """Whether the text is a UUID as `write_uuid` writes it."""
    return _USUAL_FORM.fullmatch(text) is not None


def read_uuid(text: str) -> int | None:
    """Return the value of a UUID in any form that `UUID` accepts; None if the text is none."""
    if is_usual_form(text):
        return int(text.replace("-", ""), 16)
    try:
        return UUID(text).int
    except ValueError:
        return None


def hash_to_uuid(name: str) -> str:
    """Return the UUID of version 5 for a name, as `uuid5` does."""
    digits = sha1(_NAMESPACE + name.encode(), usedforsecurity=False).hexdigest()
    variant = _VARIANTS[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def hash_to_ordered_uuid(milliseconds: int, name: str) -> str:
    """Return a UUID of version 8 for a name, which sorts by a time: the first 48 bits are that, the others a hash."""
    digits = sha1(_NAMESPACE + name.encode(), usedforsecurity=False).hexdigest()
    time = f"{milliseconds & _TIME:012x}"
    return f"{time[:8]}-{time[8:]}-8{digits[:3]}-8{digits[3:6]}-{digits[6:18]}"
