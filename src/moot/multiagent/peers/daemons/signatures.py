"""Signatures of daemons: the identity key of this one, and the check of what others signed. Ed25519.

The key file is read by daemon/daemon_link.py. Used by relay.py, receiver.py and presence_record.py.
"""

from base64 import b64decode, b64encode
from binascii import Error
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_KEY_BYTES = 32
_FINGERPRINT_DIGITS = 32


class Identity:
    """The key pair of this daemon. `key` is the public one, in base64."""

    def __init__(self, seed: bytes | memoryview) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415  heavy, only with a broker
            Ed25519PrivateKey,
        )

        self._private = Ed25519PrivateKey.from_private_bytes(bytes(seed))
        self.key = b64encode(self._private.public_key().public_bytes_raw()).decode()

    def sign(self, data: bytes) -> str:
        return b64encode(self._private.sign(data)).decode()


def is_key(text: str) -> bool:
    """Whether the text is a public key as `Identity.key` has it."""
    decoded = _decode(text)
    return len(decoded) == _KEY_BYTES and b64encode(decoded).decode() == text


def verify(key: str, signature: str, data: bytes) -> bool:
    """Whether the owner of the public key signed the data."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  heavy, only with a broker

    decoded = _decode(signature)
    if not decoded:
        return False
    try:
        _load(key).verify(decoded, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def make_fingerprint(key: str) -> str:
    """Return a short form of a public key for people to compare."""
    digest = sha256(_decode(key)).hexdigest()[:_FINGERPRINT_DIGITS]
    return ":".join(digest[at : at + 4] for at in range(0, len(digest), 4))


@lru_cache(maxsize=256)
def _load(key: str) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    return Ed25519PublicKey.from_public_bytes(_decode(key))


def _decode(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Error, ValueError):
        return b""
