"""Storage ports beside the Store: memories, tasks, notes, outputs, MCP decisions. Implemented in store/."""

from collections.abc import Sequence
from typing import Protocol

from moot.domain.conversation import ConversationKey
from moot.domain.mcp import TextDecision
from moot.domain.memory import Memory, MemoryKind
from moot.domain.note import Note, NoteKind, NoteProgress
from moot.domain.output import Output
from moot.domain.task import Task, TaskChange, TaskStatus

# Where a memory is in the list of all: its agent, sender and key.
MemoryPlace = tuple[str, str, str]


class Memories(Protocol):
    """Memories by owner: the agent and the sender it talks with. Owners are isolated from each other."""

    async def save(self, owner: ConversationKey, memory: Memory, *, max_entries: int, now: float) -> bool:
        """Write a memory, replacing one with the same key; return True if it is new.

        The least useful over the limit are deleted.
        """
        ...

    async def recall(
        self, owner: ConversationKey, query: str, *, limit: int, kind: MemoryKind | None = None, now: float
    ) -> list[Memory]:
        """Return the memories that match the query, best first, and count one more use of each."""
        ...

    async def suggest(self, owner: ConversationKey, text: str, *, limit: int, now: float) -> list[Memory]:
        """Return the memories that help with a message: preferences, and those that match it. Counts no use."""
        ...

    async def list_everywhere(
        self, *, agent: str = "", sender: str = "", after: MemoryPlace | None = None, limit: int
    ) -> list[tuple[ConversationKey, Memory]]:
        """Return memories of all owners, or of an agent or a sender, by agent, sender and key, after that place."""
        ...

    async def forget(self, owner: ConversationKey, key: str) -> bool: ...
    async def prune(self, owner: ConversationKey, *, max_entries: int, now: float) -> int:
        """Delete the least useful memories over the limit; return how many."""
        ...


class Tasks(Protocol):
    """Tasks by owner; the tasks of other owners are invisible."""

    async def create(self, owner: ConversationKey, task: Task) -> Task: ...
    async def get(self, owner: ConversationKey, task_id: str) -> Task | None: ...
    async def list_all(
        self, owner: ConversationKey, *, status: TaskStatus | None = None, parent_id: str = ""
    ) -> list[Task]:
        """Return the tasks in the order they were created."""
        ...

    async def list_everywhere(self, *, agent: str = "", sender: str = "") -> list[tuple[ConversationKey, Task]]:
        """Return the tasks of all owners, or of an agent or a sender, in the order they were created."""
        ...

    async def update(self, owner: ConversationKey, task_id: str, change: TaskChange, *, now: float) -> Task | None: ...


class Notes(Protocol):
    """The notes of a conversation, visible only in that conversation."""

    async def add(self, key: ConversationKey, note: Note, *, now: float) -> Note:
        """Write a note. A first_seq of 0 means after the last observation; a last_seq of 0 means the newest message."""
        ...

    async def list_all(self, key: ConversationKey, kind: NoteKind, *, limit: int) -> list[Note]:
        """Return the newest notes of a kind, in chronological order."""
        ...

    async def state(self, key: ConversationKey) -> NoteProgress: ...


class Outputs(Protocol):
    """Long results of tools, readable only in the conversation that stored them."""

    async def keep(self, key: ConversationKey, output: Output, *, most: int) -> None:
        """Store an output. Only the newest `most` outputs of the conversation are kept."""
        ...

    async def get(self, key: ConversationKey, ref: str, *, since: float) -> Output | None:
        """Return the output; None if it does not exist here, or was made before `since`."""
        ...

    async def expire(self, *, before: float) -> int:
        """Delete outputs made before then; return how many."""
        ...


class McpDecisions(Protocol):
    """The owner's decisions about what MCP servers say of their tools."""

    async def decisions(self, server: str) -> list[TextDecision]:
        """Return all decisions about the texts of a server, oldest first."""
        ...

    async def decide(self, server: str, decisions: Sequence[TextDecision]) -> None:
        """Store decisions. A decision about a text replaces an earlier one about the same text."""
        ...
