"""Known daemons: the names and keys of other daemons on the broker."""

import apsw

from moot.domain.outbox import KnownDaemon
from moot.store.sqlite import SqliteStore

_COLUMNS = "name, key, store, first_seen, last_seen"


class SqliteKnownDaemons:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def list_all(self) -> list[KnownDaemon]:
        return await self._store.read(lambda db: _list(db, "ORDER BY name"))

    async def save(self, daemon: KnownDaemon) -> KnownDaemon:
        return await self._store.write(lambda db: _save(db, daemon))

    async def forget(self, name: str) -> bool:
        return await self._store.write(lambda db: _forget(db, name))


def _list(db: apsw.Connection, rest: str, *values: object) -> list[KnownDaemon]:
    return [
        KnownDaemon(name=name, key=key, store=store, first_seen=first_seen, last_seen=last_seen)
        for name, key, store, first_seen, last_seen in db.execute(
            f"SELECT {_COLUMNS} FROM known_daemons {rest}", values
        )
    ]


def _save(db: apsw.Connection, daemon: KnownDaemon) -> KnownDaemon:
    db.execute(
        f"INSERT INTO known_daemons ({_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5)"
        " ON CONFLICT (name) DO UPDATE SET store = ?3, last_seen = ?5 WHERE key = ?2",
        (daemon.name, daemon.key, daemon.store, daemon.first_seen, daemon.last_seen),
    )
    (saved,) = _list(db, "WHERE name = ?", daemon.name)
    return saved


def _forget(db: apsw.Connection, name: str) -> bool:
    db.execute("DELETE FROM known_daemons WHERE name = ?", (name,))
    return db.changes() > 0
