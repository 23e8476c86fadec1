"""The table of secrets: sealed values and the audit of their uses. This module cannot unseal them."""

from collections.abc import Sequence

import apsw
import msgspec

from moot.domain.errors import NotFound
from moot.domain.secret import Holder, SealedSecret, SecretInfo, SecretScope, SecretUse
from moot.store.sqlite import SqliteStore

# Actions that count as a use; storing and deleting are audited too, but do not count.
_COUNTED = ("resolve", "reference")
# The number of audit entries that are kept.
_KEPT = 20_000


class SqliteSecrets:
    """Sealed secrets. A change and its audit entry are one transaction, so that no access goes unrecorded."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def put(self, secret: SealedSecret, use: SecretUse, *, scope: SecretScope | None = None) -> bool:
        return await self._store.write(lambda db: _put(db, secret, use, scope), "secret.put")

    async def load_sealed(self) -> list[SealedSecret]:
        return await self._store.read(_load_sealed)

    async def list_all(self) -> list[SecretInfo]:
        return await self._store.read(_list_all)

    async def remove(self, use: SecretUse) -> None:
        await self._store.write(lambda db: _remove(db, use), "secret.remove")

    async def set_scope(self, scope: SecretScope, use: SecretUse) -> None:
        await self._store.write(lambda db: _set_scope(db, scope, use), "secret.scope")

    async def record_uses(self, uses: Sequence[SecretUse]) -> None:
        await self._store.write(lambda db: _record_uses(db, uses), "secret.used")

    async def audit(self, *, name: str = "", limit: int = 100) -> list[SecretUse]:
        return await self._store.read(lambda db: _audit(db, name, limit))


def _put(db: apsw.Connection, secret: SealedSecret, use: SecretUse, scope: SecretScope | None) -> bool:
    replaced = _is_known(db, use)
    db.execute(
        "INSERT INTO secrets (owner, name, sealed, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)"
        " ON CONFLICT (owner, name) DO UPDATE SET sealed = ?3, updated_at = ?4",
        (secret.owner, secret.name, secret.sealed, use.at),
    )
    if scope is not None:
        _update_scope(db, scope, use)
    _note(db, use)
    return replaced


def count_secrets(db: apsw.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM secrets").get)


def _load_sealed(db: apsw.Connection) -> list[SealedSecret]:
    return [
        SealedSecret(owner=str(owner), name=str(name), sealed=bytes(sealed))
        for owner, name, sealed in db.execute("SELECT owner, name, sealed FROM secrets ORDER BY name, owner")
    ]


def _list_all(db: apsw.Connection) -> list[SecretInfo]:
    rows = db.execute(
        "SELECT owner, name, scope, created_at, updated_at, uses, used_at FROM secrets ORDER BY name, owner"
    )
    return [
        SecretInfo(
            owner=owner,
            name=name,
            scope=msgspec.json.decode(scope, type=SecretScope),
            created_at=created_at,
            updated_at=updated_at,
            uses=uses,
            used_at=used_at,
        )
        for owner, name, scope, created_at, updated_at, uses, used_at in rows
    ]


def _is_known(db: apsw.Connection, use: SecretUse) -> bool:
    return bool(db.execute("SELECT 1 FROM secrets WHERE owner = ? AND name = ?", (use.owner, use.name)).get)


def _require(db: apsw.Connection, use: SecretUse) -> None:
    if not _is_known(db, use):
        raise NotFound(f"there is no secret {use.name!r}", fix="`moot secrets list` lists them.")


def _remove(db: apsw.Connection, use: SecretUse) -> None:
    _require(db, use)
    db.execute("DELETE FROM secrets WHERE owner = ? AND name = ?", (use.owner, use.name))
    _note(db, use)


def _set_scope(db: apsw.Connection, scope: SecretScope, use: SecretUse) -> None:
    _require(db, use)
    _update_scope(db, scope, use)
    _note(db, use)


def _update_scope(db: apsw.Connection, scope: SecretScope, use: SecretUse) -> None:
    encoded = msgspec.json.encode(scope).decode()
    db.execute("UPDATE secrets SET scope = ? WHERE owner = ? AND name = ?", (encoded, use.owner, use.name))


def _record_uses(db: apsw.Connection, uses: Sequence[SecretUse]) -> None:
    for use in uses:
        if use.action in _COUNTED:
            db.execute(
                "UPDATE secrets SET uses = uses + 1, used_at = ? WHERE owner = ? AND name = ?",
                (use.at, use.owner, use.name),
            )
        _note(db, use)


def _note(db: apsw.Connection, use: SecretUse) -> None:
    holder = use.holder
    db.execute(
        "INSERT INTO secret_uses (owner, name, action, agent, sender, run, tool, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (use.owner, use.name, use.action, holder.agent, holder.sender, holder.run, holder.tool, use.at),
    )
    db.execute("DELETE FROM secret_uses WHERE number <= ?", (db.last_insert_rowid() - _KEPT,))


def _audit(db: apsw.Connection, name: str, limit: int) -> list[SecretUse]:
    """Return the audit entries, newest first."""
    rows = db.execute(
        "SELECT owner, name, action, agent, sender, run, tool, at FROM secret_uses"
        " WHERE ?1 = '' OR name = ?1 ORDER BY number DESC LIMIT ?2",
        (name, limit),
    )
    return [
        SecretUse(
            owner=owner,
            name=used,
            action=action,
            holder=Holder(agent=agent, sender=sender, run=run, tool=tool),
            at=at,
        )
        for owner, used, action, agent, sender, run, tool, at in rows
    ]
