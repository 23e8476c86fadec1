"""Sealed secrets with their audit log, and keys, in memory. Built by storage.py."""

from collections.abc import Sequence

from msgspec.structs import replace

from moot.domain.errors import Conflict, NotFound
from moot.domain.secret import KeyInfo, SealedKey, SealedSecret, SecretInfo, SecretScope, SecretUse
from moot.store.memory.account_rows import SecretRow
from moot.store.memory.database import Database
from moot.store.memory.transactions import Transactions

# Entries kept in the audit log.
_MOST_USES = 20_000
# Actions that count as uses; storing and deleting are logged but do not.
_COUNTED = ("resolve", "reference")


class MemorySecrets:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def put(self, secret: SealedSecret, use: SecretUse, *, scope: SecretScope | None = None) -> bool:
        return await self._transactions.write(lambda db: _put_secret(db, secret, use, scope))

    async def load_sealed(self) -> list[SealedSecret]:
        return await self._transactions.read(lambda db: [row.secret for _, row in sorted(db.secrets.pairs())])

    async def list_all(self) -> list[SecretInfo]:
        return await self._transactions.read(lambda db: [row.info for _, row in sorted(db.secrets.pairs())])

    async def remove(self, use: SecretUse) -> None:
        await self._transactions.write(lambda db: _remove_secret(db, use))

    async def set_scope(self, scope: SecretScope, use: SecretUse) -> None:
        await self._transactions.write(lambda db: _set_scope(db, scope, use))

    async def record_uses(self, uses: Sequence[SecretUse]) -> None:
        given = tuple(uses)
        await self._transactions.write(lambda db: _count_uses(db, given))

    async def audit(self, *, name: str = "", limit: int = 100) -> list[SecretUse]:
        return await self._transactions.read(lambda db: _audit(db, name, limit))


def _put_secret(db: Database, secret: SealedSecret, use: SecretUse, scope: SecretScope | None) -> bool:
    known = db.secrets.get((secret.name, secret.owner))
    info = SecretInfo(name=secret.name, owner=secret.owner, created_at=use.at, updated_at=use.at)
    if known is not None:
        info = replace(known.info, updated_at=use.at)
    if scope is not None:
        info = replace(info, scope=scope)
    db.secrets.put((secret.name, secret.owner), SecretRow(secret=secret, info=info))
    _note_use(db, use)
    return known is not None


def _remove_secret(db: Database, use: SecretUse) -> None:
    if not db.secrets.remove((use.name, use.owner)):
        raise _unknown_error(use)
    _note_use(db, use)


def _set_scope(db: Database, scope: SecretScope, use: SecretUse) -> None:
    row = db.secrets.get((use.name, use.owner))
    if row is None:
        raise _unknown_error(use)
    db.secrets.put((use.name, use.owner), replace(row, info=replace(row.info, scope=scope)))
    _note_use(db, use)


def _unknown_error(use: SecretUse) -> NotFound:
    return NotFound(f"there is no secret {use.name!r}", fix="`moot secrets list` lists them.")


def _count_uses(db: Database, uses: Sequence[SecretUse]) -> None:
    for use in uses:
        row = db.secrets.get((use.name, use.owner))
        if row is not None and use.action in _COUNTED:
            info = replace(row.info, uses=row.info.uses + 1, used_at=use.at)
            db.secrets.put((use.name, use.owner), replace(row, info=info))
        _note_use(db, use)


def _note_use(db: Database, use: SecretUse) -> None:
    number = db.count_up("secret_uses")
    db.secret_uses.put(number, use)
    db.secret_uses.remove(number - _MOST_USES)


def _audit(db: Database, name: str, limit: int) -> list[SecretUse]:
    """Return audit entries, newest first."""
    newest = sorted(db.secret_uses.pairs(), key=lambda item: item[0], reverse=True)
    return [use for _, use in newest if name in ("", use.name)][:limit]


class MemoryKeys:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add(self, key: SealedKey) -> None:
        await self._transactions.write(lambda db: _add_key(db, key))

    async def find(self, key_id: str) -> SealedKey | None:
        return await self._transactions.read(lambda db: db.keys.get(key_id))

    async def list_all(self) -> list[KeyInfo]:
        return await self._transactions.read(
            lambda db: sorted((key.info for key in db.keys), key=lambda info: (info.created_at, info.id))
        )

    async def touch(self, key_id: str, *, now: float) -> None:
        await self._transactions.write(lambda db: _touch_key(db, key_id, now))


def _add_key(db: Database, key: SealedKey) -> None:
    if key.info.id in db.keys:
        raise Conflict(f"there is a key {key.info.id!r} already")
    db.keys.put(key.info.id, key)


def _touch_key(db: Database, key_id: str, now: float) -> None:
    key = db.keys.get(key_id)
    if key is not None:
        db.keys.put(key_id, replace(key, info=replace(key.info, used_at=now)))
