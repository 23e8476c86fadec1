"""Ports for secrets and keys: where they are kept, sealed and used. Implemented in store/ and daemon/vault/."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from moot.domain.ports.tool import RunContext
from moot.domain.secret import Holder, KeyInfo, SealedKey, SealedSecret, SecretInfo, SecretUse


class SecretStore(Protocol):
    """Sealed secrets and the audit of their use. A change and its line in the audit are one transaction."""

    async def put(self, secret: SealedSecret, use: SecretUse) -> bool:
        """Whether one of that name was replaced."""
        ...

    async def load_sealed(self) -> list[SealedSecret]: ...
    async def list_all(self) -> list[SecretInfo]: ...
    async def remove(self, name: str, use: SecretUse) -> None: ...
    async def record_uses(self, uses: Sequence[SecretUse]) -> None: ...
    async def audit(self, *, name: str = "", limit: int = 100) -> list[SecretUse]: ...


class KeyStore(Protocol):
    async def add(self, key: SealedKey) -> None:
        """Conflict when the id is taken."""
        ...

    async def find(self, key_id: str) -> SealedKey | None: ...
    async def list_all(self) -> list[KeyInfo]: ...
    async def touch(self, key_id: str, *, now: float) -> None: ...


class Secrets(Protocol):
    """What tools may do with secrets. No method gives a value to a model; `resolve` is for execution alone."""

    async def store(self, name: str, value: str, holder: Holder) -> bool: ...
    async def list_all(self) -> list[SecretInfo]: ...
    async def reference(self, name: str, holder: Holder) -> str: ...
    async def delete(self, name: str, holder: Holder) -> None: ...
    async def resolve(self, text: str, context: RunContext, *, tool: str) -> dict[str, str]:
        """Each reference token in the text and the value it stands for. NotFound for one that stands for nothing."""
        ...


class Keys(Protocol):
    """What tools may do with keys."""

    async def encrypt(self, data: str, key_id: str) -> str: ...
    async def decrypt(self, ciphertext: str, key_id: str, context: RunContext) -> str:
        """A reference token for the plain text, good for this conversation and a while."""
        ...

    async def sign(self, data: str, key_id: str) -> str: ...
    async def list_all(self) -> list[KeyInfo]: ...


class Sealer(Protocol):
    """Closes bytes so that only this daemon's owner can open them, and only for the place they were closed for."""

    def close(self, data: bytes, *, place: str) -> bytes: ...
    def open(self, sealed: bytes, *, place: str) -> bytes:
        """ValueError when it was changed, moved to another place, or sealed with another key."""
        ...

    def proof(self, data: bytes, *, place: str) -> str:
        """A digest that tells nothing to whoever has no key."""
        ...


class SealerSource(Protocol):
    async def seal(self) -> Sealer:
        """Unavailable while the key cannot be had."""
        ...


class SecretRegistry(Protocol):
    """Where values are told that must never be seen again."""

    def register(self, name: str, value: str) -> None: ...
    def register_all(self, values: Mapping[str, str]) -> None: ...
    def forget(self, name: str) -> None: ...


class Reveal(Protocol):
    async def __call__(self, reference: str, *, place: str) -> str:
        """What the reference stands for. `place` is where it is written, for the error; the value is in no error."""
        ...


def holder_of(context: RunContext, tool: str) -> Holder:
    """Who uses a secret in a call of the tool."""
    return Holder(agent=context.speaker, sender=context.key.sender, run=context.run_id, tool=tool)
