"""Memories, tasks, notes, outputs and MCP decisions in memory. Built by storage.py."""

from collections.abc import Sequence

from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, NotFound
from moot.domain.mcp import TextDecision
from moot.domain.memory import Memory, MemoryKind, usefulness
from moot.domain.note import Note, NoteKind, NoteProgress
from moot.domain.output import Output
from moot.domain.ports.agent_data import MemoryPlace
from moot.domain.task import MOST_TASKS, Task, TaskChange, TaskStatus
from moot.store.memory import nodes
from moot.store.memory.database import (
    ConversationRow,
    Database,
    NoteRow,
    OutputRow,
    OwnedRow,
    TaskRow,
)
from moot.store.memory.search import recall_memories, suggest_memories
from moot.store.memory.transactions import Transactions

# Of one conversation and kind; the oldest go first.
MOST_NOTES = 500


class _MemoryStore:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions


# ---- memories -----------------------------------------------------------------------------------


class MemoryMemories(_MemoryStore):
    async def save(self, owner: ConversationKey, memory: Memory, *, max_entries: int, now: float) -> bool:
        return await self._transactions.write(lambda db: _save(db, owner, memory, max_entries, now))

    async def recall(
        self, owner: ConversationKey, query: str, *, limit: int, kind: MemoryKind | None = None, now: float
    ) -> list[Memory]:
        found = await self._transactions.read(lambda db: recall_memories(db, owner, query, kind, limit, now))
        if found:
            await self._transactions.write(lambda db: _count_use(db, found, now))
        return [row.memory for row in found]

    async def suggest(self, owner: ConversationKey, text: str, *, limit: int, now: float) -> list[Memory]:
        return await self._transactions.read(lambda db: suggest_memories(db, owner, text, limit, now))

    async def list_everywhere(
        self, *, agent: str = "", sender: str = "", after: MemoryPlace | None = None, limit: int
    ) -> list[tuple[ConversationKey, Memory]]:
        return await self._transactions.read(
            lambda db: _list_memories(db, agent, sender, after or ("", "", ""))[:limit]
        )

    async def forget(self, owner: ConversationKey, key: str) -> bool:
        return await self._transactions.write(lambda db: db.memories.remove((owner, key)))

    async def prune(self, owner: ConversationKey, *, max_entries: int, now: float) -> int:
        return await self._transactions.write(lambda db: _prune(db, owner, max_entries, now))


def _list_memories(db: Database, agent: str, sender: str, after: MemoryPlace) -> list[tuple[ConversationKey, Memory]]:
    rows = sorted(db.memories, key=lambda row: (*row.owner, row.memory.key))
    return [
        (row.owner, row.memory)
        for row in rows
        if _is_owned_by(row.owner, agent, sender) and (*row.owner, row.memory.key) > after
    ]


def _is_owned_by(owner: ConversationKey, agent: str, sender: str) -> bool:
    return agent in ("", owner.agent) and sender in ("", owner.sender)


def _save(db: Database, owner: ConversationKey, memory: Memory, max_entries: int, now: float) -> bool:
    """Save a memory; saving it again keeps only its creation time and its use count."""
    known = db.memories.get((owner, memory.key))
    if known is not None:
        kept = known.memory
        again = replace(memory, uses=kept.uses, created_at=kept.created_at, updated_at=now, used_at=kept.used_at)
        db.memories.put((owner, memory.key), replace(known, memory=again))
        return False
    made = replace(memory, uses=0, created_at=now, updated_at=now, used_at=0.0)
    db.memories.put((owner, memory.key), OwnedRow(number=db.count_up("memories"), owner=owner, memory=made))
    if db.memories.count("owner", owner) > max_entries:
        # Remove one percent at once, so that not every save has to compare all of them.
        _prune(db, owner, max_entries - max_entries // 100, now, keep=memory.key)
    return True


def _count_use(db: Database, rows: Sequence[OwnedRow], now: float) -> None:
    for found in rows:
        key = (found.owner, found.memory.key)
        row = db.memories.get(key)
        if row is not None and row.number == found.number:
            db.memories.put(key, replace(row, memory=replace(row.memory, uses=row.memory.uses + 1, used_at=now)))


def _prune(db: Database, owner: ConversationKey, max_entries: int, now: float, *, keep: str | None = None) -> int:
    """Remove the least useful memories, but never the one just saved."""
    rows = db.memories.find("owner", owner)
    over = max(0, len(rows) - max(0, max_entries))
    candidates = sorted(
        (usefulness(row.memory, now), row.number, row.memory.key) for row in rows if row.memory.key != keep
    )
    for _, _, key in candidates[:over]:
        db.memories.remove((owner, key))
    return len(candidates[:over])


# ---- tasks --------------------------------------------------------------------------------------


class MemoryTasks(_MemoryStore):
    async def create(self, owner: ConversationKey, task: Task) -> Task:
        return await self._transactions.write(lambda db: _create_task(db, owner, task))

    async def get(self, owner: ConversationKey, task_id: str) -> Task | None:
        return await self._transactions.read(lambda db: _get_task(db, owner, task_id))

    async def list_all(
        self, owner: ConversationKey, *, status: TaskStatus | None = None, parent_id: str = ""
    ) -> list[Task]:
        return await self._transactions.read(lambda db: _list_tasks(db, owner, status, parent_id))

    async def list_everywhere(self, *, agent: str = "", sender: str = "") -> list[tuple[ConversationKey, Task]]:
        return await self._transactions.read(lambda db: _list_all_tasks(db, agent, sender))

    async def update(self, owner: ConversationKey, task_id: str, change: TaskChange, *, now: float) -> Task | None:
        return await self._transactions.write(lambda db: _update_task(db, owner, task_id, change, now))


def _get_task(db: Database, owner: ConversationKey, task_id: str) -> Task | None:
    row = db.tasks.get(task_id)
    return row.task if row is not None and row.owner == owner else None


def _create_task(db: Database, owner: ConversationKey, task: Task) -> Task:
    if task.parent_id and _get_task(db, owner, task.parent_id) is None:
        raise NotFound(f"there is no task {task.parent_id!r} to be part of", fix="List them with task_list.")
    if db.tasks.count("owner", owner) >= MOST_TASKS:
        raise BadRequest(
            f"there are {MOST_TASKS} tasks already", fix="Go on with one of them, or under another sender."
        )
    return db.tasks.put(task.id, TaskRow(number=db.count_up("tasks"), owner=owner, task=task)).task


def _list_tasks(db: Database, owner: ConversationKey, status: TaskStatus | None, parent_id: str) -> list[Task]:
    rows = sorted(db.tasks.find("owner", owner), key=lambda row: (row.task.created_at, row.number))
    return [row.task for row in rows if status in (None, row.task.status) and parent_id in ("", row.task.parent_id)]


def _list_all_tasks(db: Database, agent: str, sender: str) -> list[tuple[ConversationKey, Task]]:
    rows = sorted(db.tasks, key=lambda row: (row.task.created_at, row.number))
    return [(row.owner, row.task) for row in rows if _is_owned_by(row.owner, agent, sender)]


def _update_task(db: Database, owner: ConversationKey, task_id: str, change: TaskChange, now: float) -> Task | None:
    task = _get_task(db, owner, task_id)
    if task is None:
        return None
    changed = replace(
        task,
        status=change.status or task.status,
        description=change.description or task.description,
        agent_id=change.agent_id or task.agent_id,
        # The title stays, so its taint stays too.
        taint=task.taint | change.taint,
        updated_at=now,
    )
    return db.tasks.put(task_id, replace(db.tasks[task_id], task=changed)).task


# ---- notes --------------------------------------------------------------------------------------


class MemoryNotes(_MemoryStore):
    async def add(self, key: ConversationKey, note: Note, *, now: float) -> Note:
        return await self._transactions.write(lambda db: _add_note(db, key, note, now))

    async def list_all(self, key: ConversationKey, kind: NoteKind, *, limit: int) -> list[Note]:
        return await self._transactions.read(lambda db: _list_notes(db, key, kind, limit))

    async def state(self, key: ConversationKey) -> NoteProgress:
        return await self._transactions.read(lambda db: _note_state(db, key))


def _add_note(db: Database, key: ConversationKey, note: Note, now: float) -> Note:
    row = nodes.require_held(db, key)
    if note.last_seq > row.last_seq:
        # The conversation was deleted meanwhile and a new one started.
        raise NotFound(f"the messages that the note is about were deleted from {key}", fix="Do nothing.")
    notes = _notes(db, row)
    last = note.last_seq or row.last_seq
    first = min(note.first_seq or _find_noted_seq(notes) + 1, last)
    added = replace(note, number=db.count_up("notes"), first_seq=first, last_seq=last, created_at=now)
    db.notes.put(added.number, NoteRow(conversation=row.id, note=added))
    alike = [each for each in notes if each.kind is note.kind]
    for old in alike[: len(alike) + 1 - MOST_NOTES] if len(alike) >= MOST_NOTES else ():
        db.notes.remove(old.number)
    return added


def _notes(db: Database, row: ConversationRow) -> list[Note]:
    return sorted((each.note for each in db.notes.find("conversation", row.id)), key=lambda note: note.number)


def _find_noted_seq(notes: Sequence[Note]) -> int:
    return max((note.last_seq for note in notes), default=0)


def _list_notes(db: Database, key: ConversationKey, kind: NoteKind, limit: int) -> list[Note]:
    row = db.conversation(key)
    if row is None or limit < 1:
        return []
    return [_as_trusted(note, row) for note in _notes(db, row) if note.kind is kind][-limit:]


def _note_state(db: Database, key: ConversationKey) -> NoteProgress:
    row = db.conversation(key)
    if row is None:
        return NoteProgress()
    notes = _notes(db, row)
    condensed = max((note.number for note in notes if note.kind is NoteKind.REFLECTION), default=0)
    still_open = [note for note in notes if note.kind is NoteKind.OBSERVATION and note.number > condensed]
    return NoteProgress(
        trusted_seq=row.trusted_seq,
        last_seq=row.last_seq,
        noted_seq=_find_noted_seq(notes),
        open=tuple(_as_trusted(note, row) for note in still_open),
    )


def _as_trusted(note: Note, row: ConversationRow) -> Note:
    """Return the note without taint if the owner has trusted the messages it is about."""
    return note if note.last_seq > row.trusted_seq else replace(note, taint=frozenset())


# ---- outputs ------------------------------------------------------------------------------------


class MemoryOutputs(_MemoryStore):
    async def keep(self, key: ConversationKey, output: Output, *, most: int) -> None:
        await self._transactions.write(lambda db: _keep_output(db, key, output, most))

    async def get(self, key: ConversationKey, ref: str, *, since: float) -> Output | None:
        return await self._transactions.read(lambda db: _get_output(db, key, ref, since))

    async def expire(self, *, before: float) -> int:
        return await self._transactions.write(lambda db: _expire_outputs(db, before))


def _keep_output(db: Database, key: ConversationKey, output: Output, most: int) -> None:
    conversation = nodes.require_held(db, key).id
    row = OutputRow(number=db.count_up("outputs"), conversation=conversation, output=output)
    db.outputs.put(output.ref, row)
    newest = sorted(
        db.outputs.find("conversation", conversation),
        key=lambda each: (each.output.created_at, each.number),
        reverse=True,
    )
    for old in newest[most:]:
        db.outputs.remove(old.output.ref)


def _get_output(db: Database, key: ConversationKey, ref: str, since: float) -> Output | None:
    row, conversation = db.outputs.get(ref), db.conversation(key)
    if row is None or conversation is None or row.conversation != conversation.id:
        return None
    return row.output if row.output.created_at >= since else None


def _expire_outputs(db: Database, before: float) -> int:
    old = [row.output.ref for row in db.outputs if row.output.created_at < before]
    return sum(db.outputs.remove(ref) for ref in old)


# ---- MCP decisions ---------------------------------------------------------------------------------------


class MemoryMcpDecisions(_MemoryStore):
    async def decisions(self, server: str) -> list[TextDecision]:
        return await self._transactions.read(lambda db: _read_decisions(db, server))

    async def decide(self, server: str, decisions: Sequence[TextDecision]) -> None:
        given = tuple(decisions)
        await self._transactions.write(lambda db: _write_decisions(db, server, given))


def _read_decisions(db: Database, server: str) -> list[TextDecision]:
    found = [each for (name, _, _), each in db.mcp_decisions.pairs() if name == server]
    return sorted(found, key=lambda each: (each.decided_at, each.tool, each.digest))


def _write_decisions(db: Database, server: str, decisions: Sequence[TextDecision]) -> None:
    for each in decisions:
        db.mcp_decisions.put((server, each.tool, each.digest), each)
