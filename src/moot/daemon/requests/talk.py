"""Handlers for conversations in progress: send, stream, attach, kill, compact, reply, subscribe."""

import asyncio
from collections import Counter
from collections.abc import Callable

from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.domain.ask import AskReply
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Busy, MootError, NotFound
from moot.domain.events import (
    DAEMON_SOURCE,
    Event,
    EventSource,
    MessageSteered,
    PrivateText,
    RunEnded,
    RunQueued,
    TextChunk,
    ThinkingChunk,
)
from moot.domain.run import Limits, RunEnd, RunRequest
from moot.engine.asks import Asks
from moot.engine.bus import Bus
from moot.engine.request_factory import RequestFactory
from moot.engine.run_stream import RunStream, StreamReader
from moot.engine.runs import Runs, Waiter
from moot.wire import moot_pb2 as pb
from moot.wire.events import error_message, send_response

# A larger limit has no effect, and the store could not represent it.
_MOST_TOKENS = 2**53
# Every event is offered to every subscription, so one principal must not have very many.
_MOST_SUBSCRIPTIONS = 64


class TalkRequests:
    def __init__(
        self, *, requests: RequestFactory, runs: Runs, asks: Asks, bus: Bus, stop: Callable[[ConversationKey], int]
    ) -> None:
        self._requests = requests
        self._runs = runs
        self._asks = asks
        self._bus = bus
        # Stops the background commands of a conversation, and returns how many there are.
        self._stop = stop
        # The open subscriptions of each principal.
        self._subscriptions: Counter[str] = Counter()

    async def stream(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = await self._request(message.stream, principal)
        await self.follow(await self._runs.submit(request, steer=message.stream.steer), reply)

    async def send(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = await self._request(message.send, principal)
        stream = await self._runs.submit(request, steer=message.send.steer)
        steered: list[MessageSteered] = []
        end = await _wait_for_end(stream, reply, steered, tell_queued=message.send.tell_queued)
        if isinstance(end, RunEnd):
            response = send_response(request.speaker, end)
            response.steered_into = steered[0].into if steered else ""
            reply.send(pb.ServerMessage(response=response))

    async def attach(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        key = self._key(message.attach, principal)
        stream = self._runs.stream_of(key)
        if stream is None:
            await self._runs.require_here(key)
            raise NotFound(f"the conversation with {key.agent} has no active run", fix="Read it with `moot history`.")
        await self.follow(stream, reply)

    async def kill(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        key = self._key(message.kill, principal)
        stopped = self._runs.kill(key)
        if not stopped:
            await self._runs.require_here(key)
        reply.send(pb.ServerMessage(pong=pb.Pong(stopped=stopped, commands=self._stop(key))))

    async def withdraw(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        wanted = message.withdraw
        request = await self._runs.withdraw(self._key(wanted, principal), wanted.run_id)
        withdrawn = pb.Withdrawn(run_id=request.id, content=request.content, speaker=request.speaker)
        reply.send(pb.ServerMessage(withdrawn=withdrawn))

    async def find_retried(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.find_retried
        message_id = request.client_message_id
        found = await self._runs.find_retried(self._key(request, principal), request.prefix, message_id)
        retried = pb.Retried()
        if found is not None and found.client_message_id.startswith(message_id or request.prefix):
            retried.client_message_id = found.client_message_id
        elif found is not None:
            retried.run_id = found.id
        reply.send(pb.ServerMessage(retried=retried))

    async def compact(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        key = self._key(message.compact, principal)

        def send_place(place: RunQueued) -> None:
            if message.compact.tell_queued:
                reply.event(Event(0, 0.0, EventSource(key=key, root=key), place))

        archive = await self._runs.compact(key, Waiter(queued=send_place, on_gone=reply.on_close))
        answer = pb.CompactResponse(summary=archive.summary, title=archive.title, number=archive.number)
        reply.send(pb.ServerMessage(compact=answer))

    async def reply_to_ask(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.reply_to_ask
        key = self._key(request, principal)
        self._requests.check_content(request.content, "reply")
        given = AskReply(
            content=request.content,
            by=principal.name,
            reply_id=request.client_message_id,
            ask_id=request.ask_id,
            attempt=request.attempt,
        )
        await self._asks.answer(key, given)
        reply.send(pb.ServerMessage(pong=pb.Pong()))

    async def subscribe_events(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.subscribe_events
        if self._subscriptions[principal.name] >= _MOST_SUBSCRIPTIONS:
            raise Busy(f"{_MOST_SUBSCRIPTIONS} subscriptions to events are open", fix="Close some, or share one.")
        left_out = (TextChunk, ThinkingChunk, PrivateText) if request.without_deltas else ()

        def wants(event: Event) -> bool:
            # Events of a teammate belong to its root conversation, those of the daemon to everybody.
            is_own = event.source is DAEMON_SOURCE or principal.owns(event.source.root.sender)
            return is_own and not isinstance(event.body, left_out)

        # The first answer confirms the subscription: no later event is missed.
        reply.send(pb.ServerMessage(pong=pb.Pong(seq=self._bus.seq)))
        since = request.since if request.HasField("since") else None
        subscription = self._bus.subscribe(reply.notify, wants=wants, since=since)
        self._subscriptions[principal.name] += 1
        reply.on_drain(subscription.resume)
        try:
            await reply.closed.wait()
        finally:
            self._subscriptions[principal.name] -= 1
            subscription.close()

    async def _request(self, message: pb.StreamMsg | pb.SendMsg, principal: Principal) -> RunRequest:
        if message.cwd:
            # Checked before the path is accessed: otherwise a token could probe the owner's folders and read them.
            principal.require_owner("choose the working directory")
        if message.steer and message.HasField("limits"):
            fix = "Leave out the limits, or the steering."
            raise BadRequest("a message for an active run cannot have limits of its own", fix=fix)
        if message.search_path:
            principal.require_owner("set the search path for programs")
        request = await self._requests.turn(
            ConversationKey(message.agent, principal.sender(message.sender)),
            message.content,
            guest=message.guest,
            cwd=message.cwd,
            limits=parse_limits(message.limits) if message.HasField("limits") else None,
            client_message_id=message.client_message_id,
        )
        return self._requests.with_search_path(request, message.search_path)

    def _key(
        self,
        message: pb.KillMsg | pb.WithdrawMsg | pb.FindRetriedMsg | pb.CompactMsg | pb.ReplyToAsk | pb.AttachMsg,
        principal: Principal,
    ) -> ConversationKey:
        sender = principal.sender_or_run(message.sender)
        return ConversationKey(self._requests.resolve_agent(message.agent).name, sender)

    async def follow(self, stream: RunStream, reply: Reply) -> None:
        """Send every event until the run ends or the reader is gone. The run continues without a reader."""
        over = asyncio.Event()

        def read(item: Event | MootError) -> None:
            if type(item) is Event:
                if not reply.event(item) or type(item.body) is RunEnded:
                    over.set()
            elif isinstance(item, MootError):
                reply.send(pb.ServerMessage(error=error_message(item)))
                over.set()

        await _until(stream, read, reply, over)


async def _wait_for_end(
    stream: RunStream, reply: Reply, steered: list[MessageSteered], *, tell_queued: bool
) -> RunEnd | None:
    """Wait for the end of the run; None if the reply is closed first. With `tell_queued`, send queue positions.

    If the message was shown to another run instead, that event is added to `steered`.
    """
    over = asyncio.Event()
    ends: list[RunEnd | MootError] = []

    def read(item: Event | MootError) -> None:
        if isinstance(item, MootError):
            ends.append(item)
            over.set()
        elif isinstance(item.body, RunEnded):
            ends.append(item.body.end)
            over.set()
        elif isinstance(item.body, MessageSteered) and item.body.run_id == stream.source.run_id:
            steered.append(item.body)
        elif tell_queued and isinstance(item.body, RunQueued):
            reply.event(item)

    await _until(stream, read, reply, over)
    end = ends[0] if ends else None
    if isinstance(end, MootError):
        raise end
    return end


async def _until(stream: RunStream, read: StreamReader, reply: Reply, over: asyncio.Event) -> None:
    leave = stream.subscribe(read)
    reply.on_close(over.set)
    try:
        await over.wait()
    finally:
        leave()


def parse_limits(limits: pb.RunLimits) -> Limits:
    return Limits(
        steps=limits.steps if limits.HasField("steps") else None,
        seconds=limits.seconds if limits.HasField("seconds") else None,
        tokens=min(limits.tokens, _MOST_TOKENS) if limits.HasField("tokens") else None,
        spend=limits.spend if limits.HasField("spend") else None,
    )
