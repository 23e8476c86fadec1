"""What clients do with the records of a conversation in a simulation: import, delete, trust, reflect; and retention.

Used by scenario.py. Each does what the handler of the request does in daemon/requests/records.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from moot.domain.config import TraceConfig
from moot.domain.conversation import Conversation, ConversationKey
from moot.domain.errors import Conflict
from moot.domain.message import Message, assistant, user
from moot.domain.run import RunKind
from moot.engine.lanes import Ticket
from tests.simulation.world import Daemon, World

# Ended teammates are removed after a minute and a half.
RETENTION = TraceConfig(keep_days=0.001, keep_failed_days=0.002)


@dataclass(slots=True)
class ImportedFile:
    key: ConversationKey
    contents: list[str]
    is_acknowledged: bool = False
    is_deleting: bool = False


@dataclass(slots=True)
class RecordOperations:
    """`keys` are the conversations that messages are sent to; imported ones come on top."""

    world: World
    rng: Random
    keys: tuple[ConversationKey, ...]
    # Called when a conversation may be gone from now on.
    on_delete: Callable[[ConversationKey], None]
    imported: list[ImportedFile] = field(default_factory=list)
    # The conversations that a living daemon deletes.
    deleting: set[ConversationKey] = field(default_factory=set)
    # Those that may have been deleted at some time.
    deleted: set[ConversationKey] = field(default_factory=set)

    def _choose_key(self) -> ConversationKey:
        return self.rng.choice((*self.keys, *(file.key for file in self.imported)))

    async def import_file(self, daemon: Daemon) -> None:
        number = len(self.imported) + 1
        key = ConversationKey("planner", f"imported-{number}")
        taint = frozenset({"imported"})
        messages: list[Message] = []
        for turn in range(self.rng.randint(1, 3)):
            messages += [user(f"imported {number}.{turn}?"), assistant(f"imported {number}.{turn}.")]
        file = ImportedFile(key, [message.content for message in messages])
        self.imported.append(file)
        runs, store = daemon.runtime.runs, daemon.storage.store
        await runs.require_here(key)

        async def write(_ticket: Ticket) -> None:
            dated = [(Message(role=each.role, content=each.content, taint=taint), 1.0) for each in messages]
            await store.restore_conversation(Conversation(key=key), dated, [])
            runs.histories.drop(key)

        await runs.run_exclusively(key, "import", write)
        self.world.note(f"imported {key}")
        file.is_acknowledged = True

    async def delete(self, daemon: Daemon) -> None:
        key, runtime, store = self._choose_key(), daemon.runtime, daemon.storage.store
        await runtime.runs.require_here(key)
        if runtime.runs.has_local_work(key):
            raise Conflict("a run is active")
        owned = [each.run for each in await store.list_live_runs()]
        if any(run.root == key and run.kind is not RunKind.TURN for run in owned):
            raise Conflict("teammates are at work")
        self.deleting.add(key)
        self.deleted.add(key)
        self.on_delete(key)
        for file in self.imported:
            file.is_deleting |= file.key == key

        async def remove(_ticket: Ticket) -> None:
            gone = await store.delete(key, now=daemon.clock.now())
            runtime.runs.histories.drop(key)
            await runtime.peers.announce_returned(gone.returned)
            runtime.asks.rules.invalidate()
            await runtime.asks.refresh_all()

        self.world.note(f"deletes {key}")
        await runtime.runs.run_exclusively(key, "deletion", remove)
        self.deleting.discard(key)
        self.world.note(f"deleted {key}")

    async def trust(self, daemon: Daemon) -> None:
        key, histories = self._choose_key(), daemon.runtime.runs.histories
        history = histories.peek(key)
        found = await daemon.storage.store.list_conversations(agent=key.agent, sender=key.sender)
        if found:
            last = history.last_seq if history is not None else found[0].last_seq
            await daemon.storage.store.trust(key, last=last)
            histories.trust(key, last)
            self.world.note(f"trusted {key} up to {last}")

    async def reflect(self, daemon: Daemon) -> None:
        note = await daemon.notes.reflect(self._choose_key())
        self.world.note(f"reflected: {note}")

    async def expire(self, daemon: Daemon) -> None:
        """What a daemon does every few minutes."""
        now = daemon.clock.now()
        gone = await daemon.storage.retention.expire(RETENTION, now=now, batch=self.rng.choice((1, 20)))
        for key in gone.conversations:
            daemon.runtime.runs.histories.drop(key)
        self.world.note(f"removed {gone.count} that were too old")
