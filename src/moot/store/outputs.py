"""The table of long tool results, readable from their own conversation until they expire."""

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.output import Output
from moot.store import dialect, nodes, rows
from moot.store.sqlite import SqliteStore


class SqliteOutputs:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def keep(self, key: ConversationKey, output: Output, *, most: int) -> None:
        await self._store.write(lambda db: _keep(db, key, output, most, self._store.node), "output")

    async def get(self, key: ConversationKey, ref: str, *, since: float) -> Output | None:
        return await self._store.read(lambda db: _get(db, key, ref, since))

    async def expire(self, *, before: float) -> int:
        return await self._store.write(lambda db: _expire(db, before), "output")


def _keep(db: apsw.Connection, key: ConversationKey, output: Output, most: int, node: int) -> None:
    conversation = nodes.require_held(db, key, node).id
    db.execute(
        "INSERT INTO outputs (ref, conversation, tool, content, taint, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (
            output.ref,
            conversation,
            output.tool,
            output.content,
            rows.encode_taint(output.taint),
            output.created_at,
        ),
    )
    db.execute(
        "DELETE FROM outputs WHERE conversation = ?1 AND ref NOT IN (SELECT ref FROM outputs WHERE conversation = ?1"
        f" ORDER BY created_at DESC, {dialect.ROW} DESC LIMIT ?2)",
        (conversation, most),
    )


def _get(db: apsw.Connection, key: ConversationKey, ref: str, oldest: float) -> Output | None:
    row = db.execute(
        "SELECT ref, tool, content, taint, outputs.created_at FROM outputs"
        " JOIN conversations ON conversations.id = outputs.conversation"
        " WHERE ref = ? AND agent = ? AND sender = ? AND outputs.created_at >= ?",
        (ref, *key, oldest),
    ).fetchone()
    if row is None:
        return None
    found, tool, content, taint, created_at = row
    return Output(ref=found, tool=tool, content=content, taint=rows.decode_taint(taint), created_at=created_at)


def _expire(db: apsw.Connection, oldest: float) -> int:
    db.execute("DELETE FROM outputs WHERE created_at < ?", (oldest,))
    return db.changes()
