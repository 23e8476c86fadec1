"""The run ledger: an entry for each change of what blocks a teammate, numbered within its run."""

import json
from asyncio import Future

import apsw

from moot.domain.ledger import LedgerEntry, LedgerType
from moot.store import nodes, rows
from moot.store.sqlite import SqliteStore

_SELECT = "SELECT run_id, seq, type, at, payload FROM ledger"


class SqliteLedger:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def record_block(self, run_id: str, payload: dict[str, object], *, now: float) -> "Future[None]":
        """Add an entry with what blocks a run, unless the last entry is the same."""
        return self._store.post(lambda db: _record_block(db, run_id, payload, now, self._store.node), "ledger")

    def record_unblock(self, run_id: str, *, now: float) -> "Future[None]":
        """Add an entry that a run is not blocked, if the last entry says that it is."""
        return self._store.post(lambda db: _record_unblock(db, run_id, now, self._store.node), "ledger")

    async def list_entries(self, run_id: str) -> list[LedgerEntry]:
        return await self._store.read(lambda db: entries(db, run_id))


def entries(db: apsw.Connection, run_id: str) -> list[LedgerEntry]:
    return [_entry(row) for row in db.execute(f"{_SELECT} WHERE run_id = ? ORDER BY seq", (run_id,))]


def _entry(row: rows.Row) -> LedgerEntry:
    run_id, seq, kind, at, payload = row
    return LedgerEntry(run_id=run_id, seq=seq, type=LedgerType(kind), at=at, payload=json.loads(payload))


def _last(db: apsw.Connection, run_id: str) -> LedgerEntry | None:
    row = db.execute(f"{_SELECT} WHERE run_id = ? ORDER BY seq DESC LIMIT 1", (run_id,)).fetchone()
    return None if row is None else _entry(row)


def _record_block(db: apsw.Connection, run_id: str, payload: dict[str, object], now: float, node: int) -> None:
    nodes.require_run(db, run_id, node)
    last = _last(db, run_id)
    if last is None or last.type is not LedgerType.BLOCKED or dict(last.payload) != payload:
        _append(db, last, LedgerEntry(run_id=run_id, seq=0, type=LedgerType.BLOCKED, at=now, payload=payload))


def _record_unblock(db: apsw.Connection, run_id: str, now: float, node: int) -> None:
    nodes.require_run(db, run_id, node)
    last = _last(db, run_id)
    if last is not None and last.type is LedgerType.BLOCKED:
        payload = {"previous_grant_request_id": last.payload.get("grant_request_id", "")}
        _append(db, last, LedgerEntry(run_id=run_id, seq=0, type=LedgerType.UNBLOCKED, at=now, payload=payload))


def _append(db: apsw.Connection, last: LedgerEntry | None, entry: LedgerEntry) -> None:
    db.execute(
        "INSERT INTO ledger (run_id, seq, type, at, payload) VALUES (?, ?, ?, ?, ?)",
        (entry.run_id, (last.seq if last else 0) + 1, entry.type.value, entry.at, json.dumps(dict(entry.payload))),
    )
