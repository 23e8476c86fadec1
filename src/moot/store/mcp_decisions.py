"""The owner's decisions about what MCP servers say of their tools. Built by sqlite_storage."""

from collections.abc import Sequence

import apsw

from moot.domain.mcp import TextDecision
from moot.store.sqlite import SqliteStore


class SqliteMcpDecisions:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def decisions(self, server: str) -> list[TextDecision]:
        return await self._store.read(lambda db: _read(db, server))

    async def decide(self, server: str, decisions: Sequence[TextDecision]) -> None:
        await self._store.write(lambda db: _write(db, server, decisions), "mcp decision")


def _read(db: apsw.Connection, server: str) -> list[TextDecision]:
    found = db.execute(
        "SELECT tool, digest, text, approved, decided_at FROM mcp_decisions WHERE server = ?"
        " ORDER BY decided_at, tool, digest",
        (server,),
    )
    return [
        TextDecision(tool=tool, digest=digest, text=text, is_approved=bool(approved), decided_at=decided_at)
        for tool, digest, text, approved, decided_at in found
    ]


def _write(db: apsw.Connection, server: str, decisions: Sequence[TextDecision]) -> None:
    db.executemany(
        "INSERT INTO mcp_decisions (server, tool, digest, text, approved, decided_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        " ON CONFLICT (server, tool, digest) DO UPDATE SET approved = ?5, decided_at = ?6",
        [(server, each.tool, each.digest, each.text, int(each.is_approved), each.decided_at) for each in decisions],
    )
