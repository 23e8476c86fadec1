"""The Store port in memory: committed rows are in a Database, which outlives the store like a disk.

Works with transactions.py and the modules that read and write the rows. Built by storage.py.
"""

import asyncio
from collections.abc import Collection, Sequence

from moot.domain.conversation import (
    Archive,
    Conversation,
    ConversationKey,
    LoadedConversation,
    Place,
    Recollection,
    StoppedTurn,
)
from moot.domain.deletion import Deletion, DeletionCounts
from moot.domain.digest import Visit
from moot.domain.errors import BadRequest
from moot.domain.message import Entry, Message
from moot.domain.owner import OwnedRun, Owner
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import StartedRun
from moot.domain.recovery import LeftRun
from moot.domain.run import Limits, Run, RunEnd, RunRequest
from moot.domain.senders import SenderSet
from moot.domain.token import Token
from moot.domain.usage import RunUsage, Usage, UsageRow
from moot.store.memory import accounts, conversations, found_runs, nodes, retention, runs, search
from moot.store.memory.database import Database
from moot.store.memory.transactions import Latency, Transactions, no_latency

# The number of messages an import writes before other tasks can run.
_IMPORTED_AT_ONCE = 200


class MemoryStore:
    """A store on a database in memory. Opening another one on the same database fences the first."""

    def __init__(self, database: Database, clock: Clock, latency: Latency = no_latency) -> None:
        self.database = database
        self.transactions = Transactions(database, clock, latency)
        # The number under which it is registered.
        self.node = self.transactions.node
        self._read, self._write = self.transactions.read, self.transactions.write

    # ---- conversations --------------------------------------------------------------------------

    async def load(self, key: ConversationKey) -> LoadedConversation | None:
        return await self._read(lambda db: conversations.load(db, key))

    async def list_conversations(
        self,
        *,
        agent: str = "",
        sender: str = "",
        teammates: bool = False,
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Conversation]:
        wanted = conversations.ConversationFilter(
            agent=agent, sender=sender, teammates=teammates, after=after, limit=limit
        )
        return await self._read(lambda db: conversations.list_conversations(db, wanted))

    async def list_entries(self, key: ConversationKey, *, first: int = 1, last: int = 0) -> list[Entry]:
        return await self._read(lambda db: conversations.entries(db, key, first, last))

    async def list_stopped_turns(self, key: ConversationKey, *, first: int = 1) -> list[StoppedTurn]:
        return await self._read(lambda db: conversations.find_stopped_turns(db, key, first))

    async def set_title(self, key: ConversationKey, title: str) -> None:
        await self._write(lambda db: conversations.set_title(db, key, title))

    async def set_project_files(self, key: ConversationKey, *, used: bool, now: float) -> None:
        await self._write(lambda db: conversations.set_project_files(db, key, used=used, now=now))

    async def set_cwd(self, key: ConversationKey, cwd: str, *, now: float) -> None:
        await self._write(lambda db: conversations.set_cwd(db, key, cwd, now))

    async def find_mode(self, key: ConversationKey) -> str:
        return await self._read(lambda db: conversations.find_mode(db, key))

    async def set_mode(self, key: ConversationKey, mode: str, *, now: float) -> None:
        await self._write(lambda db: conversations.set_mode(db, key, mode, now))

    async def find_auto_approve(self, key: ConversationKey) -> str:
        return await self._read(lambda db: conversations.find_auto_approve(db, key))

    async def set_auto_approve(self, key: ConversationKey, level: str, *, now: float) -> None:
        await self._write(lambda db: conversations.set_auto_approve(db, key, level, now))

    async def find_visit(self, key: ConversationKey) -> Visit | None:
        return await self._read(lambda db: conversations.find_visit(db, key))

    async def set_visit(self, key: ConversationKey, visit: Visit) -> None:
        await self._write(lambda db: conversations.set_visit(db, key, visit))

    async def set_model(self, key: ConversationKey, model: str, *, now: float) -> None:
        await self._write(lambda db: conversations.set_model(db, key, model, now))

    async def trust(self, key: ConversationKey, *, last: int) -> None:
        await self._write(lambda db: conversations.trust(db, key, last))

    async def count_deletion(self, key: ConversationKey) -> DeletionCounts:
        return await self._read(lambda db: retention.count_deletion(db, key))

    async def delete(self, key: ConversationKey, *, now: float) -> Deletion:
        return await self._write(lambda db: retention.delete(db, key, now))

    async def restore_conversation(
        self,
        conversation: Conversation,
        messages: Sequence[tuple[Message, float]],
        archives: Sequence[Archive],
        stopped: Sequence[StoppedTurn] = (),
    ) -> None:
        """Import a conversation in parts, so that other tasks can run. It becomes visible when it is complete."""
        conversations.check_archives(archives)
        taken: list[tuple[Message, float]] = []
        while len(taken) < len(messages):
            await self._write(lambda db: conversations.check_import(db, conversation.key))
            taken += messages[len(taken) : len(taken) + _IMPORTED_AT_ONCE]
        await self._write(lambda db: conversations.restore(db, conversation, taken, tuple(archives), tuple(stopped)))

    # ---- runs -----------------------------------------------------------------------------------

    async def find_run(self, key: ConversationKey, client_message_id: str) -> Run | None:
        return await self._read(lambda db: found_runs.find(db, key, client_message_id))

    async def find_retried(self, key: ConversationKey, prefix: str, *, since: float) -> Run | None:
        return await self._read(lambda db: found_runs.find_retried(db, key, prefix, since))

    async def list_run_ids(self, start: str, *, limit: int) -> list[str]:
        return await self._read(lambda db: found_runs.list_ids(db, start, limit))

    async def list_ended_runs(self, senders: SenderSet, *, prefix: str = "", limit: int) -> list[Run]:
        return await self._read(lambda db: found_runs.list_ended(db, senders, limit, prefix))

    async def list_live_runs(self) -> list[OwnedRun]:
        return await self._read(found_runs.list_live)

    async def find_owner(self, key: ConversationKey) -> Owner | None:
        return await self._read(lambda db: nodes.find_owner(db, key))

    async def list_owed_runs(self) -> list[Run]:
        return await self._read(found_runs.list_owed)

    async def list_still_owed(self, run_ids: Sequence[str]) -> list[Run]:
        wanted = tuple(run_ids)
        return await self._read(lambda db: found_runs.list_still_owed(db, wanted))

    async def list_runs_of_root(self, root_id: str) -> list[Run]:
        return await self._read(lambda db: found_runs.list_of_root(db, root_id))

    async def list_workers(self, key: ConversationKey, *, root: ConversationKey, limit: int) -> list[Run]:
        return await self._read(lambda db: found_runs.list_workers(db, key, root, limit))

    async def find_root_conversations(self, run_ids: Sequence[str]) -> dict[str, ConversationKey]:
        wanted = tuple(run_ids)
        return await self._read(lambda db: found_runs.find_roots(db, wanted))

    async def list_runs(self, key: ConversationKey, *, first_seq: int = 1) -> list[Run]:
        return await self._read(lambda db: found_runs.list_of_conversation(db, key, first_seq))

    async def get_run(self, run_id: str) -> Run | None:
        return await self._read(lambda db: found_runs.get(db, run_id))

    async def spawn(self, run: Run) -> Run:
        return await self._write(lambda db: runs.spawn(db, run))

    async def detach_children(self, parent_id: str) -> None:
        await self._write(lambda db: runs.detach_children(db, parent_id))

    async def enqueue(self, request: RunRequest, *, now: float) -> None:
        await self._write(lambda db: runs.enqueue(db, request, now))

    async def unqueue(self, run_id: str, end: RunEnd, *, now: float) -> None:
        await self._write(lambda db: runs.unqueue(db, run_id, end, now))

    def is_short_of_room(self) -> bool:
        return False

    def begin(self, request: RunRequest, *, now: float, epoch: int = 0) -> "asyncio.Future[StartedRun]":
        return self.transactions.post(lambda db: runs.begin(db, request, now, epoch))

    async def rerun(self, request: RunRequest, *, now: float, epoch: int = 0) -> StartedRun:
        return await self._write(lambda db: runs.rerun(db, request, now, epoch))

    def append(  # noqa: PLR0913 - what one transaction writes
        self,
        key: ConversationKey,
        run_id: str,
        messages: Sequence[Message],
        *,
        now: float,
        spent: RunUsage | None = None,
        delivers: Sequence[str] = (),
        steered: Sequence[str] = (),
        can_wait: bool = False,
        epoch: int = 0,
    ) -> "asyncio.Future[list[Entry]]":
        added = runs.Added(tuple(messages), spent, tuple(delivers), epoch, tuple(steered))
        hand_over = self.transactions.linger if can_wait else self.transactions.post
        return hand_over(lambda db: runs.append(db, key, run_id, added, now))

    def end(  # noqa: PLR0913 - what one transaction writes
        self,
        key: ConversationKey,
        run_id: str,
        end: RunEnd,
        messages: Sequence[Message],
        *,
        now: float,
        after: int | None = None,
        epoch: int = 0,
    ) -> "asyncio.Future[list[Entry]]":
        last = runs.Last(end, tuple(messages), after, epoch)
        return self.transactions.post(lambda db: runs.end(db, key, run_id, last, now))

    async def recover(self) -> list[LeftRun]:
        taken = set(await self._write(nodes.take_over))
        return await self._read(lambda db: runs.list_left(db, taken)) if taken else []

    async def add_spend(
        self, key: ConversationKey, model: str, usage: Usage, cost: float, *, root_id: str = ""
    ) -> None:
        await self._write(lambda db: accounts.add_spend(db, key, model, usage, cost, root_id))

    async def list_spend(self, *, agent: str = "", sender: str = "") -> list[UsageRow]:
        return await self._read(lambda db: accounts.list_spend(db, agent, sender))

    async def list_teammate_spend(self, *, agent: str = "", sender: str = "") -> list[UsageRow]:
        return await self._read(lambda db: accounts.list_teammate_spend(db, agent, sender))

    async def load_budget(self, root_id: str) -> tuple[Limits, RunUsage]:
        return await self._read(lambda db: accounts.budget(db, root_id))

    # ---- memory ---------------------------------------------------------------------------------

    async def archive(self, key: ConversationKey, archive: Archive, *, epoch: int = 0) -> Archive:
        return await self._write(lambda db: conversations.archive(db, key, archive, epoch))

    async def open_stretch(
        self, key: ConversationKey, *, closing: Archive | None, resumed: int = 0, epoch: int = 0
    ) -> Archive:
        return await self._write(lambda db: conversations.open_stretch(db, key, closing, resumed, epoch))

    async def list_archives(self, key: ConversationKey) -> list[Archive]:
        return await self._read(lambda db: conversations.list_archives(db, key))

    async def recall(self, key: ConversationKey, query: str, *, limit: int, now: float) -> list[Recollection]:
        return await self._read(lambda db: search.recall(db, key, query, limit, now))

    # ---- tokens ---------------------------------------------------------------------------------

    async def add_token(self, token: Token, digest: str, *, taken: Collection[str] = ()) -> Token:
        return await self._write(lambda db: accounts.add_token(db, token, digest, taken))

    async def find_token(self, digest: str) -> Token | None:
        return await self._read(lambda db: accounts.find_token(db, digest))

    async def touch_token(self, name: str, *, now: float) -> None:
        await self._write(lambda db: accounts.touch_token(db, name, now))

    async def list_tokens(self) -> list[Token]:
        return await self._read(accounts.list_tokens)

    async def revoke_token(self, name: str, *, now: float) -> tuple[str, ...]:
        return await self._write(lambda db: accounts.revoke_token(db, name, now))

    # ---- the whole store ------------------------------------------------------------------------

    async def backup(self, path: str) -> None:
        raise BadRequest(
            f"nothing can be backed up to {path}: this daemon keeps everything in memory",
            fix='Set `kind = "sqlite"` under [store] and restart the daemon, or export the conversations.',
        )

    async def check(self) -> list[str]:
        return self.database.transact(accounts.check, self.node)

    async def close(self) -> None:
        """Finish the queued transactions."""
        self.transactions.close()

    def crash(self) -> None:
        """Discard what is not committed and confirm nothing more, as if the process were killed."""
        self.transactions.crash()
