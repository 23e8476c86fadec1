"""Keychain: keys for encryption and signatures, sealed with the master key. Uses the vault."""

import asyncio
import base64
import binascii
import os

from moot.daemon.vault.seal import Seal
from moot.daemon.vault.vault import Vault, make_wrong_key_error
from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.domain.ports.clock import Clock
from moot.domain.ports.secrets import KeyStore, holder_of
from moot.domain.ports.tool import RunContext
from moot.domain.secret import KeyInfo, SealedKey, SecretUse

DEFAULT_KEY = "default"
SIGNING_KEY = "local"
ENCRYPTION, SIGNING = "encryption", "signing"
LONGEST_DATA = 1024 * 1024


class Keychain:
    """Implements the port `Keys`. The default two are created at first use; keys are never exported."""

    def __init__(self, *, keys: KeyStore, vault: Vault, clock: Clock) -> None:
        self._store = keys
        self._vault = vault
        self._clock = clock
        self._making = asyncio.Lock()

    async def encrypt(self, data: str, key_id: str) -> str:
        raw = _check_size(data).encode()
        key_id, key = await self._key(key_id or DEFAULT_KEY, ENCRYPTION)
        return base64.b64encode(Seal(key).close(raw, place=_data_place(key_id))).decode()

    async def decrypt(self, ciphertext: str, key_id: str, context: RunContext) -> str:
        """Return a token for the plain text, valid in this conversation for a while."""
        try:
            sealed = base64.b64decode("".join(_check_size(ciphertext).split()), validate=True)
        except (binascii.Error, ValueError):
            raise BadRequest("the ciphertext is not base64", fix="Give exactly what crypto_encrypt returned.") from None
        key_id, key = await self._key(key_id or DEFAULT_KEY, ENCRYPTION, make=False)
        try:
            value = Seal(key).open(sealed, place=_data_place(key_id)).decode()
        except ValueError:
            raise BadRequest(
                f"the ciphertext cannot be opened with the key {key_id!r}",
                fix="Name the key it was encrypted with, and give the complete ciphertext.",
            ) from None
        use = SecretUse(
            name=key_id, action="decrypt", holder=holder_of(context, "crypto_decrypt"), at=self._clock.now()
        )
        await self._vault.note([use])
        return self._vault.hold(value, context.key)

    async def sign(self, data: str, key_id: str) -> str:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415  heavy

        raw = _check_size(data).encode()
        _, key = await self._key(key_id or SIGNING_KEY, SIGNING)
        return base64.b64encode(Ed25519PrivateKey.from_private_bytes(key).sign(raw)).decode()

    async def list_all(self) -> list[KeyInfo]:
        return await self._store.list_all()

    async def _key(self, key_id: str, kind: str, *, make: bool = True) -> tuple[str, bytes]:
        seal = await self._vault.seal()
        async with self._making:
            kept = await self._store.find(key_id)
            if kept is None and make and key_id == {ENCRYPTION: DEFAULT_KEY, SIGNING: SIGNING_KEY}[kind]:
                kept = await self._make(key_id, kind, seal)
        if kept is None or kept.info.type != kind:
            raise NotFound(f"there is no {kind} key {key_id!r}", fix="crypto_keys lists them.")
        await self._store.touch(key_id, now=self._clock.now())
        try:
            return key_id, seal.open(kept.sealed, place=_key_place(key_id, kind))
        except ValueError:
            raise make_wrong_key_error(f"the key {key_id!r}") from None

    async def _make(self, key_id: str, kind: str, seal: Seal) -> SealedKey:
        info = KeyInfo(id=key_id, name=key_id, type=kind, created_at=self._clock.now())
        key = SealedKey(info=info, sealed=seal.close(os.urandom(32), place=_key_place(key_id, kind)))
        try:
            await self._store.add(key)
        except Conflict:
            return await self._store.find(key_id) or key
        return key


def _key_place(key_id: str, kind: str) -> str:
    return f"key\0{kind}\0{key_id}"


def _data_place(key_id: str) -> str:
    return f"data\0{key_id}"


def _check_size(data: str) -> str:
    if len(data) > LONGEST_DATA:
        raise BadRequest(f"the data has {len(data)} characters; at most {LONGEST_DATA} are taken")
    return data
