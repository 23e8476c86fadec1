"""Storage ports beside the Store: memories, tasks, notes, outputs, learnings and MCP pins. Implemented in store/."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from moot.domain.conversation import ConversationKey
from moot.domain.learning import Knowledge, Lesson
from moot.domain.memory import Memory, MemoryKind
from moot.domain.note import Note, NoteKind, NoteProgress
from moot.domain.output import Output
from moot.domain.task import Task, TaskChange, TaskStatus


class Memories(Protocol):
    """Memories by owner: the agent and the sender it talks with. One owner never sees another's."""

    async def save(self, owner: ConversationKey, memory: Memory, *, max_entries: int, now: float) -> bool:
        """Write it, in place of what had its key; True when there was nothing. The least useful beyond the bound go."""
        ...

    async def recall(
        self, owner: ConversationKey, query: str, *, limit: int, kind: MemoryKind | None = None, now: float
    ) -> list[Memory]:
        """What fits the query, best first. Each one found has been used once more."""
        ...

    async def forget(self, owner: ConversationKey, key: str) -> bool: ...
    async def prune(self, owner: ConversationKey, *, max_entries: int, now: float) -> int:
        """Let go of the least useful beyond the bound; how many went."""
        ...


class Tasks(Protocol):
    """Tasks by owner: a task of another owner does not exist."""

    async def create(self, owner: ConversationKey, task: Task) -> Task: ...
    async def get(self, owner: ConversationKey, task_id: str) -> Task | None: ...
    async def list_all(
        self, owner: ConversationKey, *, status: TaskStatus | None = None, parent_id: str = ""
    ) -> list[Task]:
        """In the order they were created."""
        ...

    async def update(self, owner: ConversationKey, task_id: str, change: TaskChange, *, now: float) -> Task | None: ...


class Notes(Protocol):
    """The notes of a conversation, seen from that conversation alone."""

    async def add(self, key: ConversationKey, note: Note, *, now: float) -> Note:
        """Write a note. A first_seq of 0 begins after what was observed before; a last_seq of 0 ends at the newest."""
        ...

    async def list_all(self, key: ConversationKey, kind: NoteKind, *, limit: int) -> list[Note]:
        """The newest notes of a kind, oldest of them first."""
        ...

    async def state(self, key: ConversationKey) -> NoteProgress: ...


class Outputs(Protocol):
    """Long results of tools. What one conversation put there, no other can read."""

    async def keep(self, key: ConversationKey, output: Output, *, most: int) -> None:
        """Write it. Of the conversation's outputs only the newest `most` stay."""
        ...

    async def get(self, key: ConversationKey, ref: str, *, since: float) -> Output | None:
        """None when there is no such output here, or it was made before `since`."""
        ...

    async def expire(self, *, before: float) -> int:
        """Let go of what was made before then; how many went."""
        ...


class Learnings(Protocol):
    """Where the hooks write after a call, many at a time."""

    async def learn(self, lessons: Sequence[Lesson]) -> None: ...
    async def know(self, items: Sequence[Knowledge], *, versions: int) -> None:
        """A new version where the content differs from the newest one; of each key the newest `versions` stay."""
        ...


class McpPins(Protocol):
    """What a tool looked like when it was agreed to, kept as a digest."""

    async def pins(self, server: str) -> dict[str, str]: ...
    async def pin(self, server: str, digests: Mapping[str, str], *, now: float) -> None: ...
