"""Seals the master key of the vault with a passphrase, so that a backup never has it in clear."""

import base64
import os

import msgspec
from msgspec import Struct

from moot.daemon.vault.seal import Seal
from moot.domain.errors import BadRequest

MAX_SEALED = 4_096
_PLACE = "backup of a home"
# Memory of 64 MiB and about a fifth of a second for one guess.
_COST, _BLOCK = 2**16, 8
# What a backup from anywhere may ask for.
_MAX_COST = 2**18
SHORTEST_PASSPHRASE = 8


class _SealedKey(Struct, frozen=True, kw_only=True):
    salt: str
    cost: int
    sealed: str


def seal_key(key: bytes, passphrase: str) -> bytes:
    if len(passphrase) < SHORTEST_PASSPHRASE:
        raise BadRequest(f"the passphrase is shorter than {SHORTEST_PASSPHRASE} characters", fix="Choose a longer one.")
    salt = os.urandom(16)
    sealed = Seal(_derive(passphrase, salt, _COST)).close(key, place=_PLACE)
    return msgspec.json.encode(
        _SealedKey(salt=base64.b64encode(salt).decode(), cost=_COST, sealed=base64.b64encode(sealed).decode())
    )


def open_key(data: bytes, passphrase: str) -> bytes:
    """Return the key. Raise BadRequest if the passphrase is wrong or the text is damaged."""
    try:
        found = msgspec.json.decode(data, type=_SealedKey)
        if not 2 <= found.cost <= _MAX_COST or found.cost & (found.cost - 1):
            raise ValueError("cost")
        wrapping = _derive(passphrase, base64.b64decode(found.salt, validate=True), found.cost)
        return Seal(wrapping).open(base64.b64decode(found.sealed, validate=True), place=_PLACE)
    except ValueError:
        raise BadRequest(
            "the passphrase is wrong, or the key in the backup is damaged", fix="Try again; nothing was changed."
        ) from None


def _derive(passphrase: str, salt: bytes, cost: int) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt  # noqa: PLC0415 - heavy, only for backups with keys

    return Scrypt(salt=salt, length=32, n=cost, r=_BLOCK, p=1).derive(passphrase.encode())
