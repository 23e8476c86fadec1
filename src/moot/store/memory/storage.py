"""Builds the storage ports of a daemon over a database in memory. Used by daemon/app.py and by simulations."""

from moot.domain.ports.storage import Storage
from moot.store.memory.agent_data import (
    MemoryLearnings,
    MemoryMcpPins,
    MemoryMemories,
    MemoryNotes,
    MemoryOutputs,
    MemoryTasks,
)
from moot.store.memory.asks import MemoryAsks, MemoryRules
from moot.store.memory.database import Database
from moot.store.memory.retention import MemoryRetention
from moot.store.memory.secrets import MemoryKeys, MemorySecrets
from moot.store.memory.store import Latency, MemoryStore, no_latency
from moot.store.memory.traces import MemoryLedger, MemorySteps, MemoryTraces


async def open_memory_storage(database: Database | None = None, *, latency: Latency = no_latency) -> Storage:
    """Open a store over the database, a new one where none is given. It belongs to the running event loop."""
    return build_memory_storage(MemoryStore(database or Database(), latency))


def build_memory_storage(store: MemoryStore) -> Storage:
    async def reserve_event_numbers(count: int) -> int:
        return await store.write(lambda db: db.count_up("events", count))

    return Storage(
        store=store,
        asks=MemoryAsks(store),
        rules=MemoryRules(store),
        steps=MemorySteps(store),
        memories=MemoryMemories(store),
        tasks=MemoryTasks(store),
        notes=MemoryNotes(store),
        outputs=MemoryOutputs(store),
        learnings=MemoryLearnings(store),
        mcp_pins=MemoryMcpPins(store),
        secrets=MemorySecrets(store),
        keys=MemoryKeys(store),
        traces=MemoryTraces(store),
        ledger=MemoryLedger(store),
        retention=MemoryRetention(store),
        reserve_event_numbers=reserve_event_numbers,
    )
