"""All storage ports of a daemon together. Built by store/sqlite_storage.py."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from moot.domain.ports.agent_data import McpDecisions, Memories, Notes, Outputs, Tasks
from moot.domain.ports.cron import CronStore
from moot.domain.ports.graph import Graph
from moot.domain.ports.knowledge import Inquiries, KnowledgeStore, Learnings
from moot.domain.ports.mail import MailStore
from moot.domain.ports.outbox import KnownDaemons, Outbox
from moot.domain.ports.rag import DocumentIndex
from moot.domain.ports.secrets import KeyStore, SecretStore
from moot.domain.ports.store import AskStore, CommitCounts, RuleStore, Store
from moot.domain.ports.traces import Retention, StepStore, TraceStore
from moot.domain.ports.vocabularies import VocabularyStore
from moot.domain.ports.workflows import Workflows


class Storage(Struct, frozen=True, kw_only=True):
    store: Store
    asks: AskStore
    mail: MailStore
    outbox: Outbox
    daemons: KnownDaemons
    rules: RuleStore
    steps: StepStore
    memories: Memories
    tasks: Tasks
    graph: Graph
    documents: DocumentIndex
    cron: CronStore
    notes: Notes
    outputs: Outputs
    knowledge: KnowledgeStore
    learnings: Learnings
    inquiries: Inquiries
    mcp_decisions: McpDecisions
    secrets: SecretStore
    keys: KeyStore
    traces: TraceStore
    retention: Retention
    workflows: Workflows
    vocabularies: VocabularyStore
    # Returns what was committed since the storage was opened.
    count_commits: Callable[[], CommitCounts]
    # Reserves this many event numbers that were never reserved before; returns the last of them.
    reserve_event_numbers: Callable[[int], Awaitable[int]]
