"""Encrypts the earlier contents of files that have a secret in them, for the log of file changes."""

from pathlib import Path

from moot.daemon.vault.key_memory import KeyMemory
from moot.daemon.vault.master_key import load_key
from moot.daemon.vault.seal import Seal
from moot.redaction.redactor import Redactor


class FileContentSeal:
    """Implements `ContentSeal` with a key of its own, which is made when it is first needed."""

    def __init__(self, redactor: Redactor, key: Path) -> None:
        self._redactor = redactor
        self._key = key
        self._seal: Seal | None = None
        self._held: KeyMemory | None = None

    def has_secret(self, data: bytes) -> bool:
        return self._redactor.has_secret(data)

    def close(self, data: bytes, digest: str) -> bytes:
        return self._get().close(data, place=f"file\0{digest}")

    def open(self, sealed: bytes, digest: str) -> bytes:
        seal = self._get()
        try:
            return seal.open(sealed, place=f"file\0{digest}")
        except ValueError:
            return b""

    def _get(self) -> Seal:
        if self._seal is None:
            # Kept as long as the seal, since the cipher reads it.
            self._held = load_key(self._key, "file")
            self._seal = Seal(self._held.view)
        return self._seal
