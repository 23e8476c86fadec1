"""Handlers that list conversations: all of them by page, and the active ones."""

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime

from moot.daemon.principal import Principal
from moot.daemon.requests.pages import PAGE_BYTES
from moot.daemon.requests.reply import Reply
from moot.domain.conversation import Conversation, ConversationKey, Place
from moot.domain.errors import BadRequest
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.domain.senders import CHILD_SENDER
from moot.engine.asks import Asks
from moot.engine.runs import Runs
from moot.wire import moot_pb2 as pb

# How many conversations are read at once for a page.
_BATCH = 1_000
# What the names of the fields take where an answer is written as JSON.
_NAMES = 300


class ConversationRequests:
    def __init__(self, *, store: Store, runs: Runs, asks: Asks, clock: Clock) -> None:
        self._store = store
        self._runs = runs
        self._asks = asks
        self._clock = clock

    async def list_conversations(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        asked = message.list_conversations
        answer = pb.ConversationList()
        room, last = PAGE_BYTES, ""
        async with aclosing(self._list_from(asked, principal)) as found:
            async for conversation in found:
                info = self._info(conversation)
                room -= _info_size(info)
                if len(answer.conversations) == (asked.limit or -1) or (room < 0 and last):
                    answer.next_cursor = last
                    break
                answer.conversations.append(info)
                last = _encode_cursor(conversation.place)
        reply.send(pb.ServerMessage(conversation_list=answer))

    async def _list_from(
        self, asked: pb.ListConversationsMsg, principal: Principal
    ) -> AsyncGenerator[Conversation, None]:
        """Return the requested conversations that the principal may see, last used first, from the cursor on."""
        after = _decode_cursor(asked.cursor) if asked.cursor else None
        batch = min(asked.limit + 1, _BATCH) if asked.limit else _BATCH
        while True:
            found = await self._store.conversations(
                agent=asked.agent, sender=asked.sender, teammates=asked.all, after=after, limit=batch
            )
            theirs = await self._visible_keys([each.key for each in found], principal)
            for each in found:
                if each.key in theirs:
                    yield each
            if len(found) < batch:
                return
            after, batch = found[-1].place, _BATCH

    async def list_active_conversations(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        asked = message.list_active_conversations
        keys = [
            lane.key
            for lane in self._runs.lanes()
            if asked.agent in ("", lane.key.agent)
            and asked.sender in ("", lane.key.sender)
            and (asked.all or not lane.key.sender.startswith(CHILD_SENDER))
        ]
        theirs = await self._visible_keys(keys, principal)
        infos = [await self._active_info(key) for key in keys if key in theirs]
        found = pb.ActiveConversationList(conversations=[info for info in infos if info is not None])
        reply.send(pb.ServerMessage(active_conversations=found))

    async def _visible_keys(self, keys: Sequence[ConversationKey], principal: Principal) -> set[ConversationKey]:
        """Return the conversations that a principal may see; for a teammate's, its root conversation decides."""
        run_ids = [key.sender.removeprefix(CHILD_SENDER) for key in keys if key.sender.startswith(CHILD_SENDER)]
        roots = await self._store.root_conversations(run_ids) if run_ids else {}
        senders = {f"{CHILD_SENDER}{run_id}": root.sender for run_id, root in roots.items()}
        return {key for key in keys if principal.owns(senders.get(key.sender, key.sender))}

    async def _active_info(self, key: ConversationKey) -> pb.ActiveConversationInfo | None:
        found = await self._store.conversations(agent=key.agent, sender=key.sender)
        lane = next((lane for lane in self._runs.lanes() if lane.key == key), None)
        if lane is None:
            return None
        info = pb.ActiveConversationInfo(agent=key.agent, sender=key.sender, queued=len(lane.waiting))
        if found:
            info.message_count, info.title = found[0].message_count, found[0].title
        if lane.active is not None:
            now = self._clock.monotonic()
            info.alive_secs = int(now - lane.active.started)
            info.idle_secs = int(now - lane.active.last_at)
            info.last_action = lane.active.last_action
            request = lane.active.request
            info.waiting = request is not None and bool(self._asks.of_run(request.id))
            info.speaker = request.speaker if request is not None else key.agent
        return info

    def _info(self, conversation: Conversation) -> pb.ConversationInfo:
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
            running=self._runs.busy(conversation.key),
            taint=",".join(sorted(conversation.taint)),
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
            "the cursor does not belong to this list", fix="Send `next_cursor` of the answer before, or none."
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
