"""Seal: encrypts bytes with the master key, bound to the place they are stored in. Used by the vault."""

import hmac
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION = b"\x01"
_NONCE_BYTES = 12
_TAG_BYTES = 16


class Seal:
    """AES-256-GCM with a new nonce for each text. The place of a text is bound to it as associated data."""

    def __init__(self, key: bytes | memoryview) -> None:
        self._cipher = _make_cipher(key)
        self._proving = hmac.digest(key, b"moot vault 1 proof", "sha256")

    def close(self, data: bytes, *, place: str) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, data, _associated_data(place))

    def open(self, sealed: bytes, *, place: str) -> bytes:
        """Return the text. Raise ValueError if it was changed, moved to another place or sealed with another key."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  heavy, and only for those who have secrets

        if len(sealed) < len(_VERSION) + _NONCE_BYTES + _TAG_BYTES or sealed[:1] != _VERSION:
            raise ValueError("not a sealed text")
        nonce, text = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, text, _associated_data(place))
        except InvalidTag:
            raise ValueError("sealed with another key, or changed") from None

    def proof(self, data: bytes, *, place: str) -> str:
        return hmac.new(self._proving, _associated_data(place) + b"\0" + data, "sha256").hexdigest()


def _make_cipher(key: bytes | memoryview) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  heavy, only for those with secrets

    return AESGCM(key)


def _associated_data(place: str) -> bytes:
    return f"moot vault 1\0{place}".encode()
