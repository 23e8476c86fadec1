"""Builds the storage ports of a daemon over one SQLite file. Used by daemon/app.py."""

from functools import partial

from moot.domain.ports.storage import Storage
from moot.store import event_numbers
from moot.store.asks import SqliteAsks
from moot.store.cron_jobs import SqliteCron
from moot.store.documents import SqliteDocuments
from moot.store.graph import SqliteGraph
from moot.store.inquiries import SqliteInquiries
from moot.store.keys import SqliteKeys
from moot.store.knowledge import SqliteKnowledge
from moot.store.known_daemons import SqliteKnownDaemons
from moot.store.learnings import SqliteLearnings
from moot.store.mail import SqliteMail
from moot.store.mcp_decisions import SqliteMcpDecisions
from moot.store.memories import SqliteMemories
from moot.store.notes import SqliteNotes
from moot.store.outbox import SqliteOutbox
from moot.store.outputs import SqliteOutputs
from moot.store.retention import SqliteRetention
from moot.store.rules import SqliteRules
from moot.store.secrets import SqliteSecrets
from moot.store.sqlite import SqliteStore
from moot.store.steps import SqliteSteps
from moot.store.tasks import SqliteTasks
from moot.store.traces import SqliteTraces
from moot.store.vocabularies import SqliteVocabularies
from moot.store.workflows import SqliteWorkflows


def build_storage(store: SqliteStore) -> Storage:
    return Storage(
        store=store,
        asks=SqliteAsks(store),
        mail=SqliteMail(store),
        outbox=SqliteOutbox(store),
        daemons=SqliteKnownDaemons(store),
        rules=SqliteRules(store),
        steps=SqliteSteps(store),
        memories=SqliteMemories(store),
        tasks=SqliteTasks(store),
        graph=SqliteGraph(store),
        documents=SqliteDocuments(store),
        cron=SqliteCron(store),
        notes=SqliteNotes(store),
        outputs=SqliteOutputs(store),
        knowledge=SqliteKnowledge(store),
        learnings=SqliteLearnings(store),
        inquiries=SqliteInquiries(store),
        mcp_decisions=SqliteMcpDecisions(store),
        secrets=SqliteSecrets(store),
        keys=SqliteKeys(store),
        traces=SqliteTraces(store),
        retention=SqliteRetention(store),
        workflows=SqliteWorkflows(store),
        vocabularies=SqliteVocabularies(store),
        count_commits=lambda: store.commits,
        reserve_event_numbers=partial(event_numbers.reserve, store),
    )
