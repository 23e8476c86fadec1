"""The embedded store: SQLite behind the Store port."""

import asyncio
import secrets
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

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
from moot.domain.errors import StoreError
from moot.domain.message import Entry, Message
from moot.domain.owner import OwnedRun, Owner
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import StartedRun
from moot.domain.recovery import LeftRun
from moot.domain.run import Limits, Run, RunEnd, RunRequest
from moot.domain.senders import SenderSet
from moot.domain.token import Token
from moot.domain.usage import RunUsage, Usage, UsageRow
from moot.failpoint import reach
from moot.store import archives, conversations, deletion, found_runs, importing, migrate, nodes, runs, spending, tokens
from moot.store import recall as recall_
from moot.store.backup import keep_before_migration, write_backup
from moot.store.check import check
from moot.store.connection import FAULTS, Tuning, connect, connect_reader, fault, is_nearly_full, prepare_file
from moot.store.readers import Readers
from moot.store.writer import Writer


async def open_store(path: Path, clock: Clock, *, tuning: Tuning | None = None) -> "SqliteStore":
    """Open the store at `path`, created or migrated as needed, for use in the running event loop."""
    tuning = tuning or Tuning()
    node = await asyncio.to_thread(_prepare, path, tuning)
    try:
        return SqliteStore(path, tuning, node, clock)
    except FAULTS as error:
        raise fault(error, path) from error


def _prepare(path: Path, tuning: Tuning) -> int:
    """Migrate the file to the current schema and register as a node; return the number of the node."""
    try:
        created = prepare_file(path)
        connection = connect(path, tuning)
        try:
            have = migrate.version(connection)
            if not created and 0 < have < migrate.newest():
                keep_before_migration(path, have, tuning)
                reach("migration.kept")
            migrate.migrate(connection)
            return nodes.register(connection)
        finally:
            connection.close(True)
    except FAULTS as error:
        raise fault(error, path) from error


class SqliteStore:
    """The Store port on SQLite. One thread writes and confirms after the fsync; reads do not wait for it."""

    def __init__(self, path: Path, tuning: Tuning, node: int, clock: Clock) -> None:
        self.path = path
        self._folder = str(path.parent)
        # The number of the node.
        self.node = node
        self._tuning = tuning
        self._writer = Writer(path, tuning, clock)
        self._readers = Readers(path, tuning)
        self.commits = self._writer.commits
        # For the other modules of this package, such as memories and secrets, which have their own SQL.
        self.write = self._write = self._writer.write
        self.post, self.linger = self._writer.post, self._writer.linger
        self.post_soon, self.post_read = self._writer.post_soon, self._readers.post
        self.read = self._read = self._readers.read

    # ---- conversations --------------------------------------------------------------------------

    async def load(self, key: ConversationKey) -> LoadedConversation | None:
        return await self._read(lambda db: conversations.load(db, key, self.node))

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
        return await self._read(lambda db: conversations.list_all(db, wanted))

    async def list_entries(self, key: ConversationKey, *, first: int = 1, last: int = 0) -> list[Entry]:
        return await self._read(lambda db: conversations.entries(db, key, first, last))

    async def list_stopped_turns(self, key: ConversationKey, *, first: int = 1) -> list[StoppedTurn]:
        return await self._read(lambda db: conversations.find_stopped_turns(db, key, first))

    async def trust(self, key: ConversationKey, *, last: int) -> None:
        await self._write(lambda db: conversations.trust(db, key, last, self.node))

    async def set_title(self, key: ConversationKey, title: str) -> None:
        await self._write(lambda db: conversations.set_title(db, key, title, self.node), "title")

    async def set_project_files(self, key: ConversationKey, *, used: bool, now: float) -> None:
        await self._write(
            lambda db: conversations.set_project_files(db, key, used=used, now=now, node=self.node), "project files"
        )

    async def set_cwd(self, key: ConversationKey, cwd: str, *, now: float) -> None:
        await self._write(lambda db: conversations.set_cwd(db, key, cwd, now, self.node), "cwd")

    async def find_mode(self, key: ConversationKey) -> str:
        return await self._read(lambda db: conversations.find_mode(db, key))

    async def set_mode(self, key: ConversationKey, mode: str, *, now: float) -> None:
        await self._write(lambda db: conversations.set_mode(db, key, mode, now, self.node))

    async def find_auto_approve(self, key: ConversationKey) -> str:
        return await self._read(lambda db: conversations.find_auto_approve(db, key))

    async def set_auto_approve(self, key: ConversationKey, level: str, *, now: float) -> None:
        await self._write(lambda db: conversations.set_auto_approve(db, key, level, now, self.node))

    async def find_visit(self, key: ConversationKey) -> Visit | None:
        return await self._read(lambda db: conversations.find_visit(db, key))

    async def set_visit(self, key: ConversationKey, visit: Visit) -> None:
        await self._write(lambda db: conversations.set_visit(db, key, visit))

    async def set_model(self, key: ConversationKey, model: str, *, now: float) -> None:
        await self._write(lambda db: conversations.set_model(db, key, model, now, self.node))

    async def count_deletion(self, key: ConversationKey) -> DeletionCounts:
        return await self._read(lambda db: deletion.count_deletion(db, key))

    async def delete(self, key: ConversationKey, *, now: float) -> Deletion:
        gone = await self._write(lambda db: deletion.delete(db, key, self.node, now), "delete")
        await self.purge(rewrite=True)
        return gone

    async def purge(self, *, rewrite: bool = False) -> None:
        """Remove deleted text from the indexes and the log, and with `rewrite` from old pages too."""
        # The deletion itself is committed. What cannot be removed now is removed by the next purge.
        with suppress(StoreError):
            more = await self._write(lambda db: deletion.purge(db, begin=True))
            while more:
                more = await self._write(lambda db: deletion.purge(db, begin=False))
            await self._writer.empty_log(rewrite=rewrite)

    async def restore_conversation(
        self,
        conversation: Conversation,
        messages: Sequence[tuple[Message, float]],
        archives: Sequence[Archive],
        stopped: Sequence[StoppedTurn] = (),
    ) -> None:
        """Import a conversation in parts, so that others can write in between. The last part makes it visible."""
        token = secrets.token_hex(8)
        arriving = importing.IncomingConversation(
            token=token, conversation=conversation, messages=messages, archives=archives, stopped=stopped
        )
        parts = await asyncio.to_thread(arriving.parts)
        try:
            for at, part in enumerate(parts[:-1]):
                some = partial(importing.write, arriving=arriving, part=part, node=self.node, first=at == 0, last=False)
                await self._write(some, "part")
            is_whole = len(parts) == 1
            rest = partial(
                importing.write, arriving=arriving, part=parts[-1], node=self.node, first=is_whole, last=True
            )
            await self._write(rest, "import")
        except BaseException:
            # If a disk fault or a second cancellation interrupts this, the next start completes it.
            with suppress(StoreError):
                await self._discard([token])
            raise

    async def _discard(self, tokens: Sequence[str]) -> None:
        found = False
        for token in tokens:
            while await self._write(partial(importing.discard, token=token)):
                found = True
        if found:
            await self.purge()

    # ---- runs -----------------------------------------------------------------------------------

    async def find_run(self, key: ConversationKey, client_message_id: str) -> Run | None:
        return await self._read(lambda db: found_runs.find(db, key, client_message_id))

    async def find_retried(self, key: ConversationKey, prefix: str, *, since: float) -> Run | None:
        return await self._read(lambda db: found_runs.find_retried(db, key, prefix, since))

    async def list_run_ids(self, start: str, *, limit: int) -> list[str]:
        return await self._read(lambda db: found_runs.ids_from(db, start, limit))

    async def list_ended_runs(self, senders: SenderSet, *, prefix: str = "", limit: int) -> list[Run]:
        return await self._read(lambda db: found_runs.list_ended(db, senders, limit, prefix))

    async def list_live_runs(self) -> list[OwnedRun]:
        return await self._read(lambda db: found_runs.list_live(db, self.node))

    async def find_owner(self, key: ConversationKey) -> Owner | None:
        return await self._read(lambda db: nodes.find_owner(db, key, self.node))

    async def list_owed_runs(self) -> list[Run]:
        return await self._read(lambda db: found_runs.list_owed(db, self.node))

    async def list_still_owed(self, run_ids: Sequence[str]) -> list[Run]:
        return await self._read(lambda db: found_runs.list_still_owed(db, run_ids, self.node))

    async def list_runs_of_root(self, root_id: str) -> list[Run]:
        return await self._read(lambda db: found_runs.of_root(db, root_id))

    async def list_workers(self, key: ConversationKey, *, root: ConversationKey, limit: int) -> list[Run]:
        return await self._read(lambda db: found_runs.list_workers(db, key, root, limit))

    async def find_root_conversations(self, run_ids: Sequence[str]) -> dict[str, ConversationKey]:
        return await self._read(lambda db: found_runs.roots(db, run_ids))

    async def get_run(self, run_id: str) -> Run | None:
        return await self._read(lambda db: found_runs.get(db, run_id))

    async def list_runs(self, key: ConversationKey, *, first_seq: int = 1) -> list[Run]:
        return await self._read(lambda db: found_runs.of_conversation(db, key, first_seq))

    async def spawn(self, run: Run) -> Run:
        # A model may spawn many runs in one step; these share one transaction.
        return await self._writer.post_soon(lambda db: runs.spawn(db, run, self.node), "spawn")

    async def detach_children(self, parent_id: str) -> None:
        await self._write(lambda db: runs.detach_children(db, parent_id, self.node))

    async def enqueue(self, request: RunRequest, *, now: float) -> None:
        await self._write(lambda db: runs.enqueue(db, request, now, self.node), "enqueue")

    async def unqueue(self, run_id: str, end: RunEnd, *, now: float) -> None:
        await self._write(lambda db: runs.unqueue(db, run_id, end, now, self.node))

    def is_short_of_room(self) -> bool:
        return is_nearly_full(self._folder)

    def begin(self, request: RunRequest, *, now: float, epoch: int = 0) -> asyncio.Future[StartedRun]:
        return self._writer.post_soon(lambda db: runs.begin(db, request, now, self.node, epoch), "begin")

    async def rerun(self, request: RunRequest, *, now: float, epoch: int = 0) -> StartedRun:
        return await self._write(lambda db: runs.rerun(db, request, now, self.node, epoch), "rerun")

    def append(  # noqa: PLR0913 — what one transaction writes
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
    ) -> asyncio.Future[list[Entry]]:
        post = self._writer.linger if can_wait else self._writer.post
        added = runs.Added(messages, spent, delivers, epoch, steered)
        return post(lambda db: runs.append(db, key, run_id, added, now, self.node), "append")

    def end(  # noqa: PLR0913 — what one transaction writes
        self,
        key: ConversationKey,
        run_id: str,
        end: RunEnd,
        messages: Sequence[Message],
        *,
        now: float,
        after: int | None = None,
        epoch: int = 0,
    ) -> asyncio.Future[list[Entry]]:
        last = runs.Last(end, messages, after, epoch)
        return self._writer.post(lambda db: runs.end(db, key, run_id, last, now, self.node), "end")

    async def recover(self) -> list[LeftRun]:
        await self._discard(await self._read(importing.list_unfinished))
        taken = set(await self._write(lambda db: nodes.take_over(db, self.node), "take over"))
        return await self._read(lambda db: found_runs.list_left(db, taken)) if taken else []

    async def add_spend(
        self, key: ConversationKey, model: str, usage: Usage, cost: float, *, root_id: str = ""
    ) -> None:
        await self._write(lambda db: spending.add(db, key, model, usage, cost, root_id))

    async def list_spend(self, *, agent: str = "", sender: str = "") -> list[UsageRow]:
        return await self._read(lambda db: spending.spend(db, agent, sender))

    async def list_teammate_spend(self, *, agent: str = "", sender: str = "") -> list[UsageRow]:
        return await self._read(lambda db: spending.teammate_spend(db, agent, sender))

    async def load_budget(self, root_id: str) -> tuple[Limits, RunUsage]:
        return await self._read(lambda db: spending.budget(db, root_id))

    # ---- memory ---------------------------------------------------------------------------------

    async def archive(self, key: ConversationKey, archive: Archive, *, epoch: int = 0) -> Archive:
        return await self._write(lambda db: archives.add(db, key, archive, self.node, epoch), "archive")

    async def open_stretch(
        self, key: ConversationKey, *, closing: Archive | None, resumed: int = 0, epoch: int = 0
    ) -> Archive:
        return await self._write(
            lambda db: archives.open_stretch(db, key, closing, resumed, self.node, epoch), "archive"
        )

    async def list_archives(self, key: ConversationKey) -> list[Archive]:
        return await self._read(lambda db: archives.list_archives(db, key))

    async def recall(self, key: ConversationKey, query: str, *, limit: int, now: float) -> list[Recollection]:
        return await self._read(lambda db: recall_.recall(db, key, query, limit, now))

    # ---- tokens ---------------------------------------------------------------------------------

    async def add_token(self, token: Token, digest: str, *, taken: Collection[str] = ()) -> Token:
        return await self._write(lambda db: tokens.add(db, token, digest, taken))

    async def find_token(self, digest: str) -> Token | None:
        return await self._read(lambda db: tokens.find(db, digest))

    async def touch_token(self, name: str, *, now: float) -> None:
        await self._write(lambda db: tokens.touch(db, name, now))

    async def list_tokens(self) -> list[Token]:
        # Who sends asks for them; many may send at once.
        return await self._readers.read_together(tokens.list_tokens)

    async def revoke_token(self, name: str, *, now: float) -> tuple[str, ...]:
        return await self._write(lambda db: tokens.revoke(db, name, now))

    # ---- the whole store ------------------------------------------------------------------------

    async def backup(self, path: str) -> None:
        await asyncio.to_thread(write_backup, self.path, Path(path), self._tuning)

    async def check(self) -> list[str]:
        return await asyncio.to_thread(self._check)

    def _check(self) -> list[str]:
        try:
            connection = connect_reader(self.path, self._tuning)
            try:
                connection.execute("BEGIN")
                return check(connection)
            finally:
                connection.close(True)
        except FAULTS as error:
            return [fault(error, self.path).message]

    async def close(self) -> None:
        """Finish the queued transactions and close, leaving a single file."""
        await self._readers.close()
        await self._writer.close()
