"""Builds the storage ports of a daemon over a database in memory. Used by daemon/app.py and by simulations."""

from moot.domain.ports.clock import Clock
from moot.domain.ports.storage import Storage
from moot.store.memory.agent_data import (
    MemoryMcpDecisions,
    MemoryMemories,
    MemoryNotes,
    MemoryOutputs,
    MemoryTasks,
)
from moot.store.memory.asks import MemoryAsks, MemoryRules
from moot.store.memory.cron_jobs import MemoryCron
from moot.store.memory.database import Database
from moot.store.memory.documents import MemoryDocuments
from moot.store.memory.graph import MemoryGraph
from moot.store.memory.inquiries import MemoryInquiries
from moot.store.memory.knowledge import MemoryKnowledge, MemoryLearnings
from moot.store.memory.mail import MemoryMail
from moot.store.memory.outbox import MemoryKnownDaemons, MemoryOutbox
from moot.store.memory.retention import MemoryRetention
from moot.store.memory.secrets import MemoryKeys, MemorySecrets
from moot.store.memory.store import MemoryStore
from moot.store.memory.traces import MemorySteps, MemoryTraces
from moot.store.memory.transactions import Latency, no_latency
from moot.store.memory.vocabularies import MemoryVocabularies
from moot.store.memory.workflows import MemoryWorkflows


async def open_memory_storage(
    clock: Clock, database: Database | None = None, *, latency: Latency = no_latency
) -> Storage:
    """Open a store on the database, or on a new one. It belongs to the running event loop."""
    return build_memory_storage(MemoryStore(database or Database(), clock, latency))


def build_memory_storage(store: MemoryStore) -> Storage:
    transactions = store.transactions

    async def reserve_event_numbers(count: int) -> int:
        return await transactions.write(lambda db: db.count_up("events", count))

    return Storage(
        store=store,
        asks=MemoryAsks(transactions),
        mail=MemoryMail(transactions),
        outbox=MemoryOutbox(transactions),
        daemons=MemoryKnownDaemons(transactions),
        rules=MemoryRules(transactions),
        steps=MemorySteps(transactions),
        memories=MemoryMemories(transactions),
        tasks=MemoryTasks(transactions),
        graph=MemoryGraph(transactions),
        documents=MemoryDocuments(transactions),
        cron=MemoryCron(transactions),
        notes=MemoryNotes(transactions),
        outputs=MemoryOutputs(transactions),
        knowledge=MemoryKnowledge(transactions),
        learnings=MemoryLearnings(transactions),
        inquiries=MemoryInquiries(transactions),
        mcp_decisions=MemoryMcpDecisions(transactions),
        secrets=MemorySecrets(transactions),
        keys=MemoryKeys(transactions),
        traces=MemoryTraces(transactions),
        retention=MemoryRetention(transactions),
        workflows=MemoryWorkflows(transactions),
        vocabularies=MemoryVocabularies(transactions),
        count_commits=lambda: transactions.commits,
        reserve_event_numbers=reserve_event_numbers,
    )
