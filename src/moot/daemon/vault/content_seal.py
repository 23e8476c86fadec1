"""Encrypts the earlier contents of files that have a secret in them, for the log of file changes."""

from pathlib import Path

from moot.daemon.vault.placeholder_key import load_placeholder_key
from moot.daemon.vault.seal import Seal
from moot.redaction.redactor import Redactor


class FileContentSeal:
    """Implements `ContentSeal` with a key of its own, which is made when it is first needed."""

    def __init__(self, redactor: Redactor, key: Path) -> None:
        self._redactor = redactor
        self._key = key
        self._seal: Seal | None = None

    def has_secret(self, data: bytes) -> bool:
        return self._redactor.has_secret(data)

    def close(self, data: bytes, digest: str) -> bytes:
        return self._get().close(data, place=f"file\0{digest}")

    def open(self, sealed: bytes, digest: str) -> bytes:
        try:
            return self._get().open(sealed, place=f"file\0{digest}")
        except ValueError:
            return b""

    def _get(self) -> Seal:
        if self._seal is None:
            self._seal = Seal(load_placeholder_key(self._key))
        return self._seal
