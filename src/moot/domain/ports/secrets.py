"""Ports for secrets and keys: storage, sealing and use. Implemented in store/ and daemon/vault/."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from moot.domain.ports.tool import RunContext
from moot.domain.secret import Holder, KeyInfo, SealedKey, SealedSecret, SecretInfo, SecretScope, SecretUse
from moot.domain.senders import owner_of


class SecretStore(Protocol):
    """Sealed secrets and the audit of their use. A change and its audit entry are one transaction."""

    async def put(self, secret: SealedSecret, use: SecretUse, *, scope: SecretScope | None = None) -> bool:
        """Store a secret; return whether one with that name was replaced. Without a scope that one's scope is kept."""
        ...

    async def load_sealed(self) -> list[SealedSecret]: ...
    async def list_all(self) -> list[SecretInfo]: ...
    async def remove(self, use: SecretUse) -> None:
        """Remove the secret that the audit entry names. Raise NotFound if there is none."""
        ...

    async def set_scope(self, scope: SecretScope, use: SecretUse) -> None:
        """Replace the scope of the secret that the audit entry names. Raise NotFound if there is none."""
        ...

    async def record_uses(self, uses: Sequence[SecretUse]) -> None: ...
    async def audit(self, *, name: str = "", limit: int = 100) -> list[SecretUse]: ...


class KeyStore(Protocol):
    async def add(self, key: SealedKey) -> None:
        """Add a key. Raise Conflict if the id is taken."""
        ...

    async def find(self, key_id: str) -> SealedKey | None: ...
    async def list_all(self) -> list[KeyInfo]: ...
    async def touch(self, key_id: str, *, now: float) -> None: ...


class Secrets(Protocol):
    """What tools may do with secrets. No method gives a value to a model; `resolve` is for execution only."""

    async def store(self, name: str, value: str, holder: Holder) -> bool:
        """Store a secret of the holder's sender; return whether it replaced one."""
        ...

    async def list_for(self, sender: str) -> list[SecretInfo]:
        """Return the secrets that conversations with the sender may use."""
        ...

    async def reference(self, name: str, context: RunContext, *, tool: str) -> str: ...
    async def delete(self, name: str, holder: Holder) -> None: ...
    async def resolve(self, text: str, context: RunContext, *, tool: str) -> dict[str, str]:
        """Return each reference token in the text with its value. Raise NotFound for an unknown one."""
        ...


class SecretConsent(Protocol):
    async def judge(self, text: str, context: RunContext, *, tool: str, host: str) -> tuple[str, str]:
        """Return why a call with this text may not use the secrets it refers to, and why their owner is asked first."""
        ...


class Keys(Protocol):
    """What tools may do with keys."""

    async def encrypt(self, data: str, key_id: str) -> str: ...
    async def decrypt(self, ciphertext: str, key_id: str, context: RunContext) -> str:
        """Return a reference token for the plain text, valid in this conversation for a limited time."""
        ...

    async def sign(self, data: str, key_id: str) -> str: ...
    async def list_all(self) -> list[KeyInfo]: ...


class Sealer(Protocol):
    """Seals bytes so that only this daemon's owner can open them, and only for the place they were sealed for."""

    def close(self, data: bytes, *, place: str) -> bytes: ...
    def open(self, sealed: bytes, *, place: str) -> bytes:
        """Open sealed bytes.

        Raise ValueError if they were changed, moved to another place, or sealed with another key.
        """
        ...

    def proof(self, data: bytes, *, place: str) -> str:
        """Return a digest that reveals nothing without the key."""
        ...


class SealerSource(Protocol):
    async def seal(self) -> Sealer:
        """Return the sealer. Raise Unavailable while the key is not available."""
        ...


class SecretRegistry(Protocol):
    """Registers values that must be redacted everywhere."""

    def register(self, name: str, value: str) -> None: ...
    def register_all(self, values: Mapping[str, str]) -> None: ...
    def forget(self, name: str) -> None: ...


class Reveal(Protocol):
    async def __call__(self, reference: str, *, place: str, host: str = "") -> str:
        """Return the referenced value.

        `place` is where the reference is written, for the error, which never has the value. `host` is where the value
        is sent; a secret whose scope names other hosts is refused.
        """
        ...


def holder_of(context: RunContext, tool: str) -> Holder:
    """Return who uses a secret in a call of the tool. The sender is the person at the root of the run's tree."""
    return Holder(agent=context.speaker, sender=owner_of(context.asks_in.sender), run=context.run_id, tool=tool)
