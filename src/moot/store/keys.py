"""The table of keys: sealed keys with their public data. This module cannot unseal them."""

from collections.abc import Sequence
from typing import Any

import apsw

from moot.domain.errors import Conflict
from moot.domain.secret import KeyInfo, SealedKey
from moot.store.sqlite import SqliteStore


class SqliteKeys:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def add(self, key: SealedKey) -> None:
        await self._store.write(lambda db: _add(db, key), "key.add")

    async def find(self, key_id: str) -> SealedKey | None:
        return await self._store.read(lambda db: _find(db, key_id))

    async def list_all(self) -> list[KeyInfo]:
        return await self._store.read(_list_keys)

    async def touch(self, key_id: str, *, now: float) -> None:
        await self._store.write(
            lambda db: db.execute("UPDATE keys SET used_at = ? WHERE id = ?", (now, key_id)).close(), "key.touch"
        )


def _add(db: apsw.Connection, key: SealedKey) -> None:
    info = key.info
    if db.execute("SELECT 1 FROM keys WHERE id = ?", (info.id,)).get:
        raise Conflict(f"there is a key {info.id!r} already")
    db.execute(
        "INSERT INTO keys (id, name, type, sealed, created_at) VALUES (?, ?, ?, ?, ?)",
        (info.id, info.name, info.type, key.sealed, info.created_at),
    )


def _find(db: apsw.Connection, key_id: str) -> SealedKey | None:
    row = db.execute("SELECT id, name, type, created_at, used_at, sealed FROM keys WHERE id = ?", (key_id,)).fetchone()
    return None if row is None else SealedKey(info=_info(row[:5]), sealed=bytes(row[5]))


def _list_keys(db: apsw.Connection) -> list[KeyInfo]:
    return [
        _info(row) for row in db.execute("SELECT id, name, type, created_at, used_at FROM keys ORDER BY created_at, id")
    ]


def _info(row: Sequence[Any]) -> KeyInfo:
    key_id, name, kind, created_at, used_at = row
    return KeyInfo(id=key_id, name=name, type=kind, created_at=created_at, used_at=used_at)
