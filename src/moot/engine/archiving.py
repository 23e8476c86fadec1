"""Archives the history of a conversation on request: compaction, a new stretch, resuming one. Used by `runs`."""

import asyncio
from functools import partial

from msgspec.structs import replace

from moot.domain.conversation import Archive, ConversationKey
from moot.domain.errors import Conflict
from moot.domain.events import Compacted, CompactionStarted, EventSource
from moot.domain.owner import check_here
from moot.engine.dependencies import RunsDependencies
from moot.engine.history import History
from moot.engine.lanes import Ticket
from moot.engine.supervisor import catch


class Archiving:
    """Work in the lane of a conversation, with no run beside it."""

    def __init__(self, dependencies: RunsDependencies) -> None:
        self._d = dependencies

    async def compact(self, ticket: Ticket) -> Archive:
        """Summarise the whole history and archive it. The summary can be killed; then nothing changes."""
        history = await self._load(ticket.key)
        if history is None or not history.entries:
            raise Conflict("there is nothing to compact", fix="Send a message first.")
        agent = self._d.resolve_agent(ticket.key.agent)
        model = self._d.model(replace(agent, model=history.model or agent.model))
        prepare = partial(self._d.compaction.prepare, history, agent, model, last_seq=history.last_seq)
        self._d.bus.publish(EventSource(key=ticket.key, root=ticket.key), CompactionStarted())
        task = ticket.task = self._d.supervisor.start(f"summary of {ticket.key}", catch(prepare))
        if ticket.stop is not None:
            task.cancel()
        await asyncio.wait({task})
        if task.cancelled() or ticket.stop is not None:
            if not task.cancelled() and isinstance(made := task.result(), Archive):
                await self._d.compaction.discard(history, made)
            raise Conflict("the compaction was killed; nothing has changed")
        archive = task.result()
        if isinstance(archive, Exception):
            raise archive
        kept = await self._d.compaction.put_away(history, archive)
        self._announce(ticket.key, kept)
        return kept

    async def open_stretch(self, ticket: Ticket, *, resumed: int = 0) -> Archive:
        """Archive the history without a summary, and begin anew or go on with the archive `resumed`."""
        history = await self._load(ticket.key)
        if history is None or not (history.is_open or history.archive_count):
            raise Conflict("the conversation is empty", fix="Send a message to begin it.")
        if not (history.entries or history.archive or resumed):
            raise Conflict("the conversation is new already", fix="Send a message to begin it.")
        try:
            newest = await self._d.compaction.open_stretch(history, resumed=resumed)
        finally:
            # What follows is loaded from the store, also if it is not known whether the change was written.
            self._d.histories.drop(ticket.key)
            self._d.asks.rules.invalidate()
        self._announce(ticket.key, newest)
        return newest

    async def _load(self, key: ConversationKey) -> History | None:
        check_here(str(key), await self._d.store.find_owner(key))
        return await self._d.histories.load(key)

    def _announce(self, key: ConversationKey, archive: Archive) -> None:
        # It is not part of a run, so nobody speaks.
        self._d.bus.publish(EventSource(key=key, root=key), Compacted(archive.number, archive.title))
