"""Handlers that list conversations: all of them by page, and the active ones."""

import math
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from datetime import UTC, datetime

from moot.daemon.principal import Principal
from moot.daemon.requests.pages import PAGE_BYTES
from moot.daemon.requests.reply import Reply
from moot.daemon.requests.run_lookup import RunLookup
from moot.domain.conversation import Conversation, ConversationKey, Place
from moot.domain.errors import BadRequest
from moot.domain.owner import OwnedRun
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.domain.run import RunStatus
from moot.domain.senders import CHILD_SENDER
from moot.engine.asks import Asks
from moot.engine.lanes import Lane
from moot.engine.modes import Modes
from moot.engine.runs import Runs
from moot.wire import moot_pb2 as pb

# How many conversations are read at once for a page.
_BATCH = 1_000
# What the names of the fields take where an answer is written as JSON.
_NAMES = 300


class ConversationRequests:
    def __init__(self, *, store: Store, runs: Runs, lookup: RunLookup, asks: Asks, modes: Modes, clock: Clock) -> None:
        self._store = store
        self._runs = runs
        self._lookup = lookup
        self._asks = asks
        self._modes = modes
        self._clock = clock

    async def list_conversations(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.list_conversations
        answer = pb.ConversationList()
        room, last = PAGE_BYTES, ""
        active = await self._lookup.group_by_conversation()
        async with aclosing(self._list_from(request, principal)) as found:
            async for conversation in found:
                info = _info(conversation, is_running=conversation.key in active)
                room -= _info_size(info)
                if len(answer.conversations) == (request.limit or -1) or (room < 0 and last):
                    answer.next_cursor = last
                    break
                answer.conversations.append(info)
                last = _encode_cursor(conversation.place)
        reply.send(pb.ServerMessage(conversation_list=answer))

    async def _list_from(
        self, request: pb.ListConversationsMsg, principal: Principal
    ) -> AsyncGenerator[Conversation, None]:
        """Return the requested conversations that the principal may see, last used first, from the cursor on."""
        after = _decode_cursor(request.cursor) if request.cursor else None
        batch = min(request.limit + 1, _BATCH) if request.limit else _BATCH
        while True:
            found = await self._store.list_conversations(
                agent=request.agent, sender=request.sender, teammates=request.all, after=after, limit=batch
            )
            theirs = await self._visible_keys([each.key for each in found], principal)
            for each in found:
                if each.key in theirs:
                    yield each
            if len(found) < batch:
                return
            after, batch = found[-1].place, _BATCH

    async def list_active_conversations(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.list_active_conversations
        active = await self._lookup.group_by_conversation()
        keys = [
            key
            for key in active
            if request.agent in ("", key.agent)
            and request.sender in ("", key.sender)
            and (request.all or not key.sender.startswith(CHILD_SENDER))
        ]
        theirs = await self._visible_keys(keys, principal)
        asking = {ask.run_id for ask in await self._asks.list_pending()}
        infos = [await self._active_info(key, active[key], asking) for key in keys if key in theirs]
        reply.send(pb.ServerMessage(active_conversations=pb.ActiveConversationList(conversations=infos)))

    async def _visible_keys(self, keys: Sequence[ConversationKey], principal: Principal) -> set[ConversationKey]:
        """Return the conversations that a principal may see; for a teammate's, its root conversation decides."""
        run_ids = [key.sender.removeprefix(CHILD_SENDER) for key in keys if key.sender.startswith(CHILD_SENDER)]
        roots = await self._store.find_root_conversations(run_ids) if run_ids else {}
        senders = {f"{CHILD_SENDER}{run_id}": root.sender for run_id, root in roots.items()}
        return {key for key in keys if principal.owns(senders.get(key.sender, key.sender))}

    async def _active_info(
        self, key: ConversationKey, stored: Sequence[OwnedRun], asking: Collection[str]
    ) -> pb.ActiveConversationInfo:
        """Return what the stored runs of a conversation say of it, and what this node does in it at the moment."""
        found = await self._store.list_conversations(agent=key.agent, sender=key.sender)
        info = pb.ActiveConversationInfo(agent=key.agent, sender=key.sender, speaker=key.agent)
        info.mode = (await self._modes.find(next((owned.run.root for owned in stored), key))).mode
        if found:
            info.message_count, info.title = found[0].message_count, found[0].title
        info.queued = sum(owned.run.status is RunStatus.QUEUED for owned in stored)
        for owned in stored:
            info.node = owned.owner.other_node
            if owned.run.status is RunStatus.RUNNING:
                info.speaker, info.waiting = owned.run.agent, owned.run.id in asking
                info.alive_secs = int(max(0.0, self._clock.now() - owned.run.started_at))
        lane = next((lane for lane in self._runs.local_lanes() if lane.key == key), None)
        if lane is not None:
            self._add_lane(info, lane)
        return info

    def _add_lane(self, info: pb.ActiveConversationInfo, lane: Lane) -> None:
        info.queued = len(lane.waiting)
        if lane.active is not None:
            now = self._clock.monotonic()
            info.alive_secs = int(now - lane.active.started)
            info.idle_secs = int(now - lane.active.last_at)
            info.last_action = lane.active.last_action
            if lane.active.request is not None:
                info.speaker = lane.active.request.speaker


def _info(conversation: Conversation, *, is_running: bool) -> pb.ConversationInfo:
    return pb.ConversationInfo(
        agent=conversation.key.agent,
        sender=conversation.key.sender,
        seq=conversation.last_seq,
        title=conversation.title,
        message_count=conversation.message_count,
        date=_format_date(conversation.updated_at),
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
        cwd=conversation.cwd,
        archives=conversation.archive_count,
        running=is_running,
        taint=",".join(sorted(conversation.taint)),
        mode=conversation.mode,
        instructions_off=not conversation.uses_project_files,
    )


def _encode_cursor(place: Place) -> str:
    """Return a position in the list as an opaque cursor for the client."""
    used_at, number = place
    return f"{used_at.hex()}/{number}"


def _decode_cursor(cursor: str) -> Place:
    used_at, _, number = cursor.partition("/")
    try:
        place = float.fromhex(used_at), int(number)
    except (ValueError, OverflowError):
        place = math.nan, 0
    if math.isnan(place[0]) or not 0 <= place[1] < 2**63:
        raise BadRequest(
            "the cursor does not belong to this list", fix="Send `next_cursor` of the previous answer, or none."
        )
    return place


def _info_size(info: pb.ConversationInfo) -> int:
    """Return the approximate size in the largest encoding: JSON, where a control character takes six bytes."""
    return int(info.ByteSize()) + _NAMES + 5 * (len(info.title) + len(info.cwd))


def _format_date(seconds: float) -> str:
    """Return the day in UTC; empty for an invalid time, so that one bad conversation does not fail the list."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return ""
