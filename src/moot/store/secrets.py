"""The table of secrets: sealed values and the audit of their uses. This module cannot unseal them."""

from collections.abc import Sequence

import apsw

from moot.domain.errors import NotFound
from moot.domain.secret import Holder, SealedSecret, SecretInfo, SecretUse
from moot.store.sqlite import SqliteStore

# Actions that count as a use; storing and deleting are audited too, but do not count.
_COUNTED = ("resolve", "reference")
# The number of audit entries that are kept.
_KEPT = 20_000


class SqliteSecrets:
    """Sealed secrets. A change and its audit entry are one transaction, so that no access goes unrecorded."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def put(self, secret: SealedSecret, use: SecretUse) -> bool:
        return await self._store.write(lambda db: _put(db, secret, use), "secret.put")

    async def load_sealed(self) -> list[SealedSecret]:
        return await self._store.read(_load_sealed)

    async def list_all(self) -> list[SecretInfo]:
        return await self._store.read(_list_all)

    async def remove(self, name: str, use: SecretUse) -> None:
        await self._store.write(lambda db: _remove(db, name, use), "secret.remove")

    async def record_uses(self, uses: Sequence[SecretUse]) -> None:
        await self._store.write(lambda db: _record_uses(db, uses), "secret.used")

    async def audit(self, *, name: str = "", limit: int = 100) -> list[SecretUse]:
        return await self._store.read(lambda db: _audit(db, name, limit))


def _put(db: apsw.Connection, secret: SealedSecret, use: SecretUse) -> bool:
    replaced = bool(db.execute("SELECT 1 FROM secrets WHERE name = ?", (secret.name,)).get)
    db.execute(
        "INSERT INTO secrets (name, sealed, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)"
        " ON CONFLICT (name) DO UPDATE SET sealed = ?2, updated_at = ?3",
        (secret.name, secret.sealed, use.at),
    )
    _note(db, use)
    return replaced


def _load_sealed(db: apsw.Connection) -> list[SealedSecret]:
    return [SealedSecret(name=str(name), sealed=bytes(sealed)) for name, sealed in db.execute(_SEALED)]


_SEALED = "SELECT name, sealed FROM secrets ORDER BY name"


def _list_all(db: apsw.Connection) -> list[SecretInfo]:
    rows = db.execute("SELECT name, created_at, updated_at, uses, used_at FROM secrets ORDER BY name")
    return [
        SecretInfo(name=name, created_at=created_at, updated_at=updated_at, uses=uses, used_at=used_at)
        for name, created_at, updated_at, uses, used_at in rows
    ]


def _remove(db: apsw.Connection, name: str, use: SecretUse) -> None:
    if not db.execute("SELECT 1 FROM secrets WHERE name = ?", (name,)).get:
        raise NotFound(f"there is no secret {name!r}", fix="See which there are: `moot secrets list`.")
    db.execute("DELETE FROM secrets WHERE name = ?", (name,))
    _note(db, use)


def _record_uses(db: apsw.Connection, uses: Sequence[SecretUse]) -> None:
    for use in uses:
        if use.action in _COUNTED:
            db.execute("UPDATE secrets SET uses = uses + 1, used_at = ? WHERE name = ?", (use.at, use.name))
        _note(db, use)


def _note(db: apsw.Connection, use: SecretUse) -> None:
    holder = use.holder
    db.execute(
        "INSERT INTO secret_uses (name, action, agent, sender, run, tool, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (use.name, use.action, holder.agent, holder.sender, holder.run, holder.tool, use.at),
    )
    db.execute("DELETE FROM secret_uses WHERE number <= ?", (db.last_insert_rowid() - _KEPT,))


def _audit(db: apsw.Connection, name: str, limit: int) -> list[SecretUse]:
    """Return the audit entries, newest first."""
    rows = db.execute(
        "SELECT name, action, agent, sender, run, tool, at FROM secret_uses"
        " WHERE ?1 = '' OR name = ?1 ORDER BY number DESC LIMIT ?2",
        (name, limit),
    )
    return [
        SecretUse(name=used, action=action, holder=Holder(agent=agent, sender=sender, run=run, tool=tool), at=at)
        for used, action, agent, sender, run, tool, at in rows
    ]
