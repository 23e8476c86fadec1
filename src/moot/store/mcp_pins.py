"""The digests of MCP tools as they were when first seen, or when last approved."""

from collections.abc import Mapping

import apsw

from moot.store.sqlite import SqliteStore


class SqliteMcpPins:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def list_pins(self, server: str) -> dict[str, str]:
        return await self._store.read(lambda db: _pins(db, server))

    async def pin(self, server: str, digests: Mapping[str, str], *, now: float) -> None:
        rows = [(server, tool, digest, now) for tool, digest in digests.items()]
        await self._store.write(lambda db: _pin(db, rows), "mcp pin")


def _pins(db: apsw.Connection, server: str) -> dict[str, str]:
    return dict(db.execute("SELECT tool, digest FROM mcp_pins WHERE server = ?", (server,)))


def _pin(db: apsw.Connection, rows: list[tuple[str, str, str, float]]) -> None:
    db.executemany(
        "INSERT INTO mcp_pins (server, tool, digest, pinned_at) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (server, tool) DO UPDATE SET digest = ?3, pinned_at = ?4",
        rows,
    )
