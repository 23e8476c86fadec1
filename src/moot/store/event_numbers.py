"""Reserves blocks of event numbers for engine/bus.py, so that none is used twice, also after a crash."""

import apsw

from moot.store.sqlite import SqliteStore


async def reserve(store: SqliteStore, count: int) -> int:
    """Reserve `count` numbers after those reserved before; return the last of them."""
    return await store.write(lambda db: _reserve(db, count), "event numbers")


def _reserve(db: apsw.Connection, count: int) -> int:
    found = db.execute("UPDATE event_numbers SET reserved = reserved + ? RETURNING reserved", (count,)).get
    return int(found)
