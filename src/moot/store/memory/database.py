"""The rows of an in-memory store and their transactions. A Database outlives its stores, like a disk.

Used by store.py and the other modules of this package. The rows mirror the tables of store/schema.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.approval import Rule
from moot.domain.ask import Ask
from moot.domain.conversation import Archive, Conversation, ConversationKey, StoppedTurn
from moot.domain.cron_job import CronJob, Firing
from moot.domain.digest import Visit
from moot.domain.errors import BadRequest, NotFound
from moot.domain.mail import Mail
from moot.domain.mcp import TextDecision
from moot.domain.memory import Memory
from moot.domain.message import Entry, Message
from moot.domain.note import Note
from moot.domain.outbox import KnownDaemon, OutboxItem, Position
from moot.domain.output import Output
from moot.domain.run import Run, RunEnd, RunKind, RunRequest, RunStatus, Spawn
from moot.domain.secret import SealedKey, SecretUse
from moot.domain.step_record import Part, StepRecord
from moot.domain.task import Task
from moot.domain.trace import TraceNote
from moot.domain.usage import RunUsage, UsageRow
from moot.domain.vocabulary import Vocabulary
from moot.store.memory.account_rows import SecretRow, TokenRow
from moot.store.memory.document_tables import DocumentRow, PassageRow, SourceRow
from moot.store.memory.graph_tables import GraphEntityRow, GraphFactRow, GraphPropertyRow, GraphTermRow
from moot.store.memory.knowledge_tables import AuditRow, InquiryRow, KnowledgeRow, LearningRow
from moot.store.memory.tables import Journal, Table
from moot.store.memory.workflow_rows import AttemptRow, WorkflowReportRow, WorkflowRow

T = TypeVar("T")
_TURN = Spawn(kind=RunKind.TURN)


class ConversationRow(Struct, frozen=True, kw_only=True):
    id: int
    key: ConversationKey
    created_at: float
    updated_at: float
    title: str = ""
    cwd: str = ""
    mode: str = ""
    auto_approve: str = ""
    last_seq: int = 0
    archived_seq: int = 0
    archives: int = 0
    trusted_seq: int = 0
    project_files: bool = True
    model: str = ""
    visit: Visit = Visit()
    # The node that writes it; the epoch goes up each time another one claims it.
    node: int
    epoch: int

    def read(self) -> Conversation:
        return Conversation(
            key=self.key,
            title=self.title,
            cwd=self.cwd,
            mode=self.mode,
            created_at=self.created_at,
            updated_at=self.updated_at,
            last_seq=self.last_seq,
            message_count=self.last_seq,
            archive_count=self.archives,
            archived_seq=self.archived_seq,
            model=self.model,
            trusted_seq=self.trusted_seq,
            uses_project_files=self.project_files,
        )


class RunRow(Struct, frozen=True, kw_only=True):
    """A run. Its request has no content once a message has it; its deliveries are separate rows."""

    number: int
    conversation: int
    request: RunRequest
    status: RunStatus
    created_at: float
    epoch: int
    spawn: Spawn = _TURN
    started_at: float = 0.0
    ended_at: float = 0.0
    user_seq: int = 0
    reply_seq: int = 0
    # Its content is in the message `reply_seq`, if there is one.
    end: RunEnd | None = None
    spent: RunUsage = RunUsage()

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def parent_id(self) -> str:
        return self.request.parent_id

    @property
    def outcome(self) -> str:
        return "" if self.end is None else self.end.outcome.value

    @property
    def is_ended(self) -> bool:
        return self.status is RunStatus.ENDED


class DeliveryRow(Struct, frozen=True, kw_only=True):
    """Which message of which run delivered an item. `seq` is 0 while that message is queued."""

    item_id: str
    conversation: int
    seq: int
    run_id: str


class MailRow(Struct, frozen=True, kw_only=True, gc=False):
    number: int
    conversation: int
    mail: Mail
    # 0 unless it was evicted unread.
    evicted_at: float = 0.0


class OutboxRow(Struct, frozen=True, kw_only=True):
    item: OutboxItem
    store: int
    # The one of this store that the mail is from or for; 0 if there is none.
    conversation: int
    # 0 unless it was given back.
    failed_at: float = 0.0


class AskRow(Struct, frozen=True, kw_only=True):
    number: int
    conversation: int
    ask: Ask
    reply_id: str = ""
    decided_at: float = 0.0
    decided_by: str = ""
    closed_at: float = 0.0


class OwnedRow(Struct, frozen=True, kw_only=True):
    """A memory of an owner, with its number."""

    number: int
    owner: ConversationKey
    memory: Memory


class TaskRow(Struct, frozen=True, kw_only=True):
    number: int
    owner: ConversationKey
    task: Task


class NoteRow(Struct, frozen=True, kw_only=True):
    conversation: int
    note: Note


class OutputRow(Struct, frozen=True, kw_only=True):
    number: int
    conversation: int
    output: Output


class PastRunRow(Struct, frozen=True, kw_only=True):
    """The end of a run that was removed, for the trace of its parent."""

    number: int
    run: Run


class Database:
    """All tables. A transaction is a synchronous function that changes everything or nothing."""

    def __init__(self, identity: int = 1) -> None:  # noqa: PLR0915 - one statement for each table
        # What makes the ids of its goals different from those of other stores.
        self.identity = identity
        self._journal = journal = Journal()
        self._counters: Table[str, int] = Table(journal)
        # The stores that are open on it, and the one whose transaction runs.
        self.nodes: Table[int, int] = Table(journal)
        self.node = 0
        self.conversations: Table[int, ConversationRow] = Table(journal, key=lambda row: row.key)
        self.messages: Table[tuple[int, int], Entry] = Table(journal)
        self.archives: Table[tuple[int, int], Archive] = Table(journal)
        # By conversation. They were not runs of this store.
        self.imported_stopped_turns: Table[int, tuple[StoppedTurn, ...]] = Table(journal)
        self.runs: Table[str, RunRow] = Table(
            journal,
            conversation=lambda row: row.conversation,
            parent=lambda row: row.parent_id or None,
            root=lambda row: row.request.root_id or None,
            root_conversation=lambda row: row.request.root,
            unfinished=lambda row: None if row.is_ended else True,
            message=lambda row: (
                (row.conversation, row.request.client_message_id) if row.request.client_message_id else None
            ),
            call=lambda row: (row.parent_id, row.spawn.parent_call) if row.spawn.parent_call else None,
            client_key=lambda row: row.spawn.client_key or None,
        )
        self.deliveries: Table[str, DeliveryRow] = Table(journal, run=lambda row: row.run_id)
        self.mail: Table[str, MailRow] = Table(
            journal,
            conversation=lambda row: row.conversation,
            thread=lambda row: row.mail.thread,
            from_goal=lambda row: row.mail.from_goal or None,
        )
        self.outbox: Table[str, OutboxRow] = Table(journal, conversation=lambda row: row.conversation)
        self.sent_bridges: Table[str, Mail] = Table(
            journal, correlation=lambda mail: mail.correlation_id, sender=lambda mail: mail.from_goal
        )
        self.inbox_position: Table[int, Position] = Table(journal)
        self.known_daemons: Table[str, KnownDaemon] = Table(journal)
        self.muted_agents: Table[str, float] = Table(journal)
        self.past_runs: Table[str, PastRunRow] = Table(journal, parent=lambda row: row.run.parent_id)
        self.past_spend: Table[tuple[str, str, str, str], UsageRow] = Table(journal)
        self.other_spend: Table[tuple[ConversationKey, str, str], UsageRow] = Table(journal)
        self.asks: Table[str, AskRow] = Table(
            journal, run=lambda row: row.ask.run_id, conversation=lambda row: row.conversation
        )
        # The earlier attempts of approvals and grants that were asked again, by id and attempt.
        self.past_attempts: Table[tuple[str, int], AskRow] = Table(
            journal, run=lambda row: row.ask.run_id, conversation=lambda row: row.conversation
        )
        self.rules: Table[int, Rule] = Table(journal)
        self.trace_notes: Table[tuple[str, int], TraceNote] = Table(journal, run=lambda row: row.run_id)
        self.steps: Table[tuple[str, int], StepRecord] = Table(journal, run=lambda row: row.run_id)
        self.parts: Table[bytes, Part] = Table(journal)
        self.memories: Table[tuple[ConversationKey, str], OwnedRow] = Table(journal, owner=lambda row: row.owner)
        self.tasks: Table[str, TaskRow] = Table(journal, owner=lambda row: row.owner)
        self.cron_jobs: Table[str, CronJob] = Table(
            journal, owner=lambda row: row.owner, name=lambda row: (row.owner, row.name)
        )
        # By job and instant.
        self.cron_firings: Table[tuple[str, float], Firing] = Table(
            journal, job=lambda row: row.job_id, run=lambda row: row.run_id or None
        )
        self.notes: Table[int, NoteRow] = Table(journal, conversation=lambda row: row.conversation)
        self.outputs: Table[str, OutputRow] = Table(journal, conversation=lambda row: row.conversation)
        self.tool_audit: Table[int, AuditRow] = Table(
            journal, owner=lambda row: row.owner, run=lambda row: row.record.run_id
        )
        # By owner, trigger and pattern.
        self.learnings: Table[tuple[str, str, str], LearningRow] = Table(
            journal, owner=lambda row: row.learning.owner, origin=lambda row: row.learning.origin
        )
        # By owner, key and version.
        self.knowledge: Table[tuple[str, str, int], KnowledgeRow] = Table(
            journal,
            owner=lambda row: row.item.owner,
            key=lambda row: (row.item.owner, row.item.key),
            origin=lambda row: row.item.origin,
        )
        self.inquiries: Table[str, InquiryRow] = Table(
            journal, conversation=lambda row: row.inquiry.key, sender=lambda row: row.inquiry.key.sender
        )
        # How far each conversation was analysed.
        self.librarian_progress: Table[int, int] = Table(journal)
        self.graph_terms: Table[int, GraphTermRow] = Table(journal, owner=lambda row: row.owner)
        self.graph_entities: Table[int, GraphEntityRow] = Table(
            journal,
            owner=lambda row: row.owner,
            id=lambda row: (row.owner, row.entity.id),
            root=lambda row: row.entity.root,
        )
        self.graph_properties: Table[tuple[int, str], GraphPropertyRow] = Table(journal, entity=lambda row: row.entity)
        self.graph_facts: Table[tuple[str, int], GraphFactRow] = Table(
            journal, owner=lambda row: row.owner, subject=lambda row: row.subject, target=lambda row: row.target
        )
        self.document_sources: Table[int, SourceRow] = Table(journal, owner=lambda row: row.owner)
        # By source and name.
        self.documents: Table[tuple[int, str], DocumentRow] = Table(journal, source=lambda row: row.source)
        self.document_passages: Table[int, PassageRow] = Table(
            journal,
            owner=lambda row: row.owner,
            source=lambda row: row.source,
            document=lambda row: (row.source, row.document),
        )
        # How often the index of an owner has changed.
        self.document_versions: Table[ConversationKey, int] = Table(journal)
        # The newest number of a source that each owner has seen.
        self.document_labels: Table[ConversationKey, int] = Table(journal)
        self.mcp_decisions: Table[tuple[str, str, str], TextDecision] = Table(journal)
        self.vocabularies: Table[str, Vocabulary] = Table(journal)
        self.tokens: Table[str, TokenRow] = Table(journal, name=lambda row: row.token.name)
        # By name and owner.
        self.secrets: Table[tuple[str, str], SecretRow] = Table(journal)
        self.secret_uses: Table[int, SecretUse] = Table(journal)
        self.keys: Table[str, SealedKey] = Table(journal)
        self.workflows: Table[str, WorkflowRow] = Table(
            journal,
            start=lambda row: row.run.start_key or None,
            origin=lambda row: row.run.origin,
            unfinished=lambda row: None if row.run.ended_at else True,
        )
        # By workflow, step and attempt.
        self.workflow_attempts: Table[tuple[str, str, int], AttemptRow] = Table(
            journal, workflow=lambda row: row.workflow, run=lambda row: row.attempt.run_id
        )
        self.workflow_reports: Table[str, WorkflowReportRow] = Table(
            journal, workflow=lambda row: row.workflow, conversation=lambda row: row.report.key
        )
        # Failures in traces up to this time were acknowledged by the owner.
        self.acknowledged: Table[str, float] = Table(journal)

    def transact(self, work: Callable[["Database"], T], node: int = 0) -> T:
        self.node = node
        try:
            result = work(self)
        except BaseException:
            self._journal.roll_back()
            raise
        self._journal.commit()
        return result

    def snapshot(self) -> "Database":
        """Copy the committed state. Rows are immutable, so copies share them."""
        copy = Database(self.identity)
        for name, table in vars(self).items():
            if isinstance(table, Table):
                getattr(copy, name).copy_rows(table)
        return copy

    def count_up(self, name: str, by: int = 1) -> int:
        """Return the next number of a sequence. Numbers are never reused."""
        return self._counters.put(name, (self._counters.get(name) or 0) + by)

    # ---- conversations and their messages ----------------------------------------------------------

    def conversation(self, key: ConversationKey) -> ConversationRow | None:
        check_text(*key)
        return next(iter(self.conversations.find("key", key)), None)

    def require_conversation(self, key: ConversationKey) -> ConversationRow:
        found = self.conversation(key)
        if found is None:
            raise NotFound(f"there is no conversation with {key}", fix="List them with `moot conversations`.")
        return found

    def create_conversation(self, key: ConversationKey, now: float) -> ConversationRow:
        number = self.count_up("conversations")
        row = ConversationRow(id=number, key=key, created_at=now, updated_at=now, node=self.node, epoch=1)
        return self.conversations.put(number, row)

    def change_conversation(self, row: ConversationRow, **changes: object) -> ConversationRow:
        return self.conversations.put(row.id, replace(row, **changes))

    def entries(self, conversation: int, first: int, last: int) -> list[Entry]:
        last = min(last, self.conversations[conversation].last_seq)
        return [self.messages[conversation, seq] for seq in range(max(first, 1), last + 1)]

    def append(self, row: ConversationRow, run_id: str, messages: list[Message], now: float) -> list[Entry]:
        """Append messages with the next numbers of their conversation."""
        written: list[Entry] = []
        for seq, message in enumerate(messages, start=row.last_seq + 1):
            check_message(message)
            entry = Entry(seq=seq, message=message, run_id=run_id, created_at=now)
            written.append(self.messages.put((row.id, seq), entry))
        if written:
            self.change_conversation(row, last_seq=written[-1].seq, updated_at=now)
        return written

    def archives_of(self, row: ConversationRow) -> list[Archive]:
        return [self.archives[row.id, number] for number in range(1, row.archives + 1)]


def check_text(*texts: str) -> None:
    """Raise if the text is not valid Unicode, as SQLite would."""
    for text in texts:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise BadRequest("the text holds a lone surrogate", fix="Send valid Unicode text.") from None


def check_message(message: Message) -> None:
    check_text(message.content, message.agent, message.tool_call_id)
    for call in message.tool_calls:
        check_text(call.id, call.name, call.arguments)
    for thinking in message.thinking:
        check_text(thinking.text, thinking.signature)
