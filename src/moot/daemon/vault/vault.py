"""The vault: sealed secrets, resolved only for execution and registered with the redactor."""

import asyncio
import logging
import os
from collections.abc import Sequence

from msgspec import Struct

from moot.daemon.vault.master_key import MasterKey
from moot.daemon.vault.seal import Seal
from moot.domain import secret as secret_
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Forbidden, MootError, NotFound, Unavailable
from moot.domain.ports.clock import Clock
from moot.domain.ports.secrets import SecretRegistry, SecretStore, holder_of
from moot.domain.ports.tool import RunContext
from moot.domain.secret import (
    Holder,
    Reference,
    SealedSecret,
    SecretCall,
    SecretInfo,
    SecretScope,
    SecretUse,
)

logger = logging.getLogger(__name__)

_MOST_DECRYPTED = 256
_SET_AGAIN = "Set the secrets again: moot secrets set NAME"
_NEW_KEY = "give up what it seals and set the secrets again: moot secrets set NAME --new-key"
# How long a decrypted value is still redacted after its token has expired.
_LINGER_SECONDS = 3600.0


class _Decrypted(Struct, frozen=True, kw_only=True):
    """A decrypted value in memory: its conversation, when its token expires, and when it is removed."""

    value: str
    key: ConversationKey
    usable_until: float
    forget_at: float


class Vault:
    """Implements the port `Secrets`, and the requests of the owner."""

    def __init__(
        self,
        *,
        secrets: SecretStore,
        master: MasterKey,
        known: SecretRegistry,
        clock: Clock,
        decrypted_seconds: float = 300.0,
    ) -> None:
        self._store = secrets
        self._master = master
        self._known = known
        self._clock = clock
        self._seconds = decrypted_seconds
        # Values by owner and name.
        self._values: dict[tuple[str, str], str] = {}
        # The owners and names of secrets that were sealed with another key, or damaged.
        self._unreadable: set[tuple[str, str]] = set()
        self._decrypted: dict[str, _Decrypted] = {}
        self._opened = False
        self._opening = asyncio.Lock()

    async def start(self) -> None:
        """Open the stored secrets, so that they are redacted from the start. If that fails, it is tried again later."""
        if not await self._store.list_all():
            return
        try:
            await self._open()
        except MootError as error:
            logger.warning("the vault stays closed: %s. %s", error.message, error.fix)

    async def seal(self) -> Seal:
        """Return the seal. Raise Unavailable if the key of existing secrets is lost; no second key is created."""
        await self._open()
        return await self._seal()

    async def _seal(self) -> Seal:
        return Seal(await self._master.get())

    async def _open(self, *, new_key: bool = False) -> None:
        """Open the stored secrets. With `new_key` the owner accepts a key that opens none of them."""
        async with self._opening:
            if self._opened:
                return
            kept = await self._store.load_sealed()
            if kept and not self._master.exists and not new_key:
                raise Unavailable(
                    "the master key of the vault is missing",
                    fix=_SET_AGAIN if self._master.may_be_new else f"Restore vault.key from a backup, or {_NEW_KEY}",
                )
            if kept:
                values = _open_secrets(await self._seal(), kept)
                if not values and not new_key:
                    # If none can be opened, the key is wrong; a secret sealed with it now could be lost.
                    raise make_wrong_key_error("the vault")
                self._values = values
                self._unreadable = {(secret.owner, secret.name) for secret in kept} - values.keys()
                for (_, name), value in values.items():
                    self._known.register(name, value)
                if values:
                    self._master.settle()
            self._opened = True

    # ---- secrets ---------------------------------------------------------------------------------

    async def store(
        self, name: str, value: str, holder: Holder, *, scope: SecretScope | None = None, new_key: bool = False
    ) -> bool:
        """Store a secret of the holder's sender; return whether it replaced one of the same name.

        Without a scope, one that is replaced keeps its scope. If the master key is missing, or opens none of the stored
        secrets, `new_key` stores this one nevertheless; the others stay as they are.
        """
        secret_.check_name(name)
        secret_.check_value(value)
        await self._require_changeable(name, holder)
        await self._open(new_key=new_key or self._master.may_be_new)
        # Registered with the redactor before it is stored: from here on nothing may show it.
        self._known.register(name, value)
        owner = holder.sender
        sealed = (await self._seal()).close(value.encode(), place=_secret_place(owner, name))
        use = self._secret_use(owner, name, "store", holder)
        secret = SealedSecret(owner=owner, name=name, sealed=sealed)
        replaced = await self._store.put(secret, use, scope=scope and secret_.check_scope(scope))
        self._values[owner, name] = value
        self._unreadable.discard((owner, name))
        # Only now: until a secret is stored under the key, a crash must leave the consent to it.
        self._master.settle()
        return replaced

    async def list_all(self) -> list[SecretInfo]:
        return await self._store.list_all()

    async def list_unreadable(self) -> set[tuple[str, str]]:
        """Return the owners and names of the stored secrets that cannot be opened."""
        try:
            await self._open()
        except MootError:
            return {(info.owner, info.name) for info in await self._store.list_all()}
        return set(self._unreadable)

    async def list_for(self, sender: str) -> list[SecretInfo]:
        return [info for info in await self._list_visible(sender) if not info.scope.configuration_only]

    async def _list_visible(self, sender: str) -> list[SecretInfo]:
        return [info for info in await self._store.list_all() if secret_.may_see(info, sender)]

    async def _require_changeable(self, name: str, holder: Holder) -> None:
        """Raise Forbidden if a tool may not replace or delete the secret of the holder's sender."""
        if not holder.tool:
            return
        for info in await self._list_visible(holder.sender):
            if (info.owner, info.name) == (holder.sender, name):
                _require_allowed(secret_.refuse_change(info, holder.agent))

    async def set_scope(self, name: str, owner: str, scope: SecretScope, holder: Holder) -> None:
        use = self._secret_use(owner, name, "scope", holder)
        await self._store.set_scope(secret_.check_scope(scope), use)

    async def reference(self, name: str, context: RunContext, *, tool: str) -> str:
        await self._open()
        holder = holder_of(context, tool)
        info = await self._find(name, holder.sender)
        if info.scope.configuration_only:
            _require_allowed(secret_.refuse_change(info, holder.agent))
        await self._store.record_uses([self._secret_use(info.owner, name, "reference", holder)])
        return secret_.secret_token(name)

    async def delete(self, name: str, holder: Holder, *, owner: str = "") -> None:
        owner = owner or holder.sender
        await self._require_changeable(name, holder)
        await self._store.remove(self._secret_use(owner, name, "delete", holder))
        # The redactor keeps the value until the daemon stops, because copies may still exist.
        self._values.pop((owner, name), None)
        self._unreadable.discard((owner, name))

    async def judge(self, text: str, context: RunContext, *, tool: str, host: str) -> tuple[str, str]:
        """Return why a call with this text may not use the secrets it refers to, and why their owner is asked first."""
        holder = holder_of(context, tool)
        call = SecretCall(agent=holder.agent, sender=holder.sender, tool=tool, host=host)
        reasons: list[str] = []
        for reference in {each.token: each for each in secret_.references(text)}.values():
            if reference.kind != "secret":
                reasons.append("a decrypted value")
                continue
            # A reference to nothing is text; the tool that looks for it says so.
            info = next(iter(await self._candidates(reference.name, holder.sender)), None)
            if info is not None and (refused := secret_.refuse_use(info, call)):
                return refused, ""
            if info is None or secret_.needs_consent(info, call):
                reasons.append(f"the secret {reference.name}")
        return "", f"it uses {', '.join(reasons)}" if reasons else ""

    async def audit(self, *, name: str = "", limit: int = 100) -> list[SecretUse]:
        return await self._store.audit(name=name, limit=limit)

    async def resolve(self, text: str, context: RunContext, *, tool: str) -> dict[str, str]:
        """Return the value of each reference in the text; each use is written to the audit first."""
        found = secret_.references(text)
        if not found:
            return {}
        await self._open()
        self.tidy()
        holder = holder_of(context, tool)
        values: dict[str, str] = {}
        uses: dict[Reference, SecretUse] = {}
        for reference in found:
            if reference.kind == "secret":
                info = await self._find(reference.name, holder.sender)
                call = SecretCall(agent=holder.agent, sender=holder.sender, tool=tool)
                _require_allowed(secret_.refuse_use(info, call))
                values[reference.token] = self._values[info.owner, info.name]
                uses[reference] = self._secret_use(info.owner, reference.name, "resolve", holder)
            else:
                values[reference.token] = self._reveal_decrypted(reference, context)
                uses[reference] = self._secret_use(holder.sender, reference.name, "resolve decrypted", holder)
        await self._store.record_uses(list({(use.action, use.name): use for use in uses.values()}.values()))
        return values

    async def read_for_configuration(self, name: str, *, host: str = "") -> str:
        """Return a secret that the owner's configuration refers to, such as the key of a model. Not in the audit.

        With a host, raise Forbidden if the scope of the secret does not include it.
        """
        await self._open()
        for info in await self._store.list_all() if host else ():
            if (info.owner, info.name) == (secret_.OWNER, name):
                _require_allowed(secret_.refuse_host(info, host))
        value = self._values.get((secret_.OWNER, name))
        if value is None:
            raise _lost_error(name) if (secret_.OWNER, name) in self._unreadable else _unknown_error(name)
        return value

    def _reveal_decrypted(self, reference: Reference, context: RunContext) -> str:
        held = self._decrypted.get(reference.name)
        now = self._clock.monotonic()
        if held is None or held.key != context.key or now >= held.usable_until:
            raise NotFound(
                f"the decrypted value {reference.name!r} has expired or is unknown here",
                fix="Call crypto_decrypt again and use the reference it gives.",
            )
        return held.value

    async def _candidates(self, name: str, sender: str) -> list[SecretInfo]:
        """Return the secrets of this name that conversations with the sender may use: first its own."""
        found = [info for info in await self._list_visible(sender) if info.name == name]
        return sorted(found, key=lambda info: info.owner != sender)

    async def _find(self, name: str, sender: str) -> SecretInfo:
        candidates = await self._candidates(name, sender)
        for info in candidates:
            if (info.owner, name) in self._values:
                return info
        if candidates:
            raise _lost_error(name)
        # Whether somebody else has a secret of this name is not said.
        raise _unknown_error(name)

    # ---- decrypted values ------------------------------------------------------------------------

    def hold(self, value: str, key: ConversationKey) -> str:
        """Keep a decrypted value in memory for a while; return the token for it, valid in this conversation."""
        self.tidy()
        if len(self._decrypted) >= _MOST_DECRYPTED:
            self._drop(next(iter(self._decrypted)))
        name = os.urandom(12).hex()
        until = self._clock.monotonic() + self._seconds
        self._decrypted[name] = _Decrypted(value=value, key=key, usable_until=until, forget_at=until + _LINGER_SECONDS)
        self._known.register(_name_decrypted(name), value)
        return secret_.decrypt_token(name)

    def tidy(self) -> None:
        """Remove expired decrypted values."""
        now = self._clock.monotonic()
        for name in [name for name, held in self._decrypted.items() if now >= held.forget_at]:
            self._drop(name)

    def _drop(self, name: str) -> None:
        del self._decrypted[name]
        self._known.forget(_name_decrypted(name))

    def _secret_use(self, owner: str, name: str, action: str, holder: Holder) -> SecretUse:
        return SecretUse(owner=owner, name=name, action=action, holder=holder, at=self._clock.now())

    async def note(self, uses: Sequence[SecretUse]) -> None:
        await self._store.record_uses(uses)


def _secret_place(owner: str, name: str) -> str:
    return f"secret\0{name}" if owner == secret_.OWNER else f"secret\0{name}\0{owner}"


def _name_decrypted(name: str) -> str:
    return f"decrypted:{name[:8]}"


def _open_secrets(seal: Seal, kept: Sequence[SealedSecret]) -> dict[tuple[str, str], str]:
    """Return the secrets that can be opened, by owner and name; damaged ones are skipped."""
    values: dict[tuple[str, str], str] = {}
    for secret in kept:
        try:
            place = _secret_place(secret.owner, secret.name)
            values[secret.owner, secret.name] = seal.open(secret.sealed, place=place).decode()
        except ValueError:
            logger.warning("%s", make_wrong_key_error(f"the secret {secret.name!r}").message)
    return values


def _require_allowed(refused: str) -> None:
    if refused:
        raise Forbidden(refused, fix="The owner can change the scope: `moot secrets scope`.")


def _unknown_error(name: str) -> NotFound:
    return NotFound(f"there is no secret {name!r}", fix="secrets_list lists them.")


def _lost_error(name: str) -> Unavailable:
    return Unavailable(
        f"the secret {name!r} cannot be opened: it was changed, or sealed with another master key",
        fix=f"Set it again: moot secrets set {name}",
    )


def make_wrong_key_error(what: str) -> Unavailable:
    return Unavailable(
        f"{what} cannot be opened: it was changed, or sealed with another master key",
        fix=f"Restore the vault.key that belongs to this store, or {_NEW_KEY}",
    )
