"""NatsConsumer: gives the messages of the stream for one store to a handler, over one NatsLink.

The consumer on the server is deleted and created again whenever consuming starts, so that everything nobody has
acknowledged comes again, in the order of the stream, before anything newer.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

import nats.errors
from nats.js.api import ConsumerInfo
from nats.js.errors import NotFoundError

from moot.broker.nats_client import read_header_block
from moot.broker.nats_link import NatsLink
from moot.broker.nats_stream import HEARTBEAT, STREAM, make_consumer_config, make_stream_id, restore_subject
from moot.domain.ports.broker import Arrival, Batch, BatchHandler, BrokerMessage, BrokerUnavailable, Position

MOST_IN_BATCH = 256
# Without a message or a heartbeat for so long, the consumer on the server is gone.
_MOST_SILENCE = 3 * HEARTBEAT
_DELETE_SECONDS = 1.0
_ACKNOWLEDGE = b"+ACK"
_ACKNOWLEDGE_COMMAND = b"PUB %%b %d\r\n%b\r\n" % (len(_ACKNOWLEDGE), _ACKNOWLEDGE)
# How many tokens the reply subject of a message has at least.
_TOKENS = 9


# A message as it was read from the connection: subject, reply subject, payload, headers.
_Message = tuple[bytes, bytes, bytes, bytes]


class HandlingFailed(Exception):
    """The handler could not store a batch. The batch is given again."""


class NatsConsumer:
    def __init__(self, link: NatsLink, store: int, handle: BatchHandler, begin: Callable[[], None]) -> None:
        self._link = link
        self._store = store
        self._handler = handle
        # Called when the server has agreed to send.
        self._note_begin = begin
        self._name = link.settings.name
        self._messages: deque[_Message] = deque()
        self._changed = asyncio.Event()
        # How many messages the server has sent to this consumer.
        self._received = 0
        # The reply subject of the last message that was acknowledged.
        self._last_reply = b""
        # What the reply subject of a message from the server's consumer contains.
        self._mark = f".{STREAM}.{self._name}.".encode()

    async def run(self) -> None:
        """Consume until the connection is lost or a message cannot be handled; both raise."""
        self._link.call_when_lost(self._changed.set)
        inbox = self._link.client.new_inbox()
        subscription = await self._link.client.subscribe_bytes(inbox, self._receive)
        try:
            await self._delete(seconds=None)
            await self._begin(inbox)
            while True:
                await self._handle_batch(await self._take())
        finally:
            self._link.forget(self._changed.set)
            with suppress(nats.errors.Error, BrokerUnavailable, TimeoutError, OSError):
                await subscription.unsubscribe()
                await self._confirm_acknowledgements()
                await self._delete(seconds=_DELETE_SECONDS)

    async def _begin(self, inbox: str) -> None:
        """Create the consumer. If nothing is left for the store, say so with an empty batch."""
        link = self._link
        stream = await link.call(link.jetstream.stream_info(STREAM))
        link.stream = make_stream_id(stream)
        consumer = await link.call(
            link.jetstream.add_consumer(STREAM, make_consumer_config(self._name, self._store, inbox))
        )
        self._note_begin()
        if _is_idle(consumer):
            await self._handle(Batch(arrivals=(), position=Position(link.stream, stream.state.last_seq)))

    async def _handle(self, batch: Batch) -> None:
        try:
            await self._handler(batch)
        except Exception as error:
            raise HandlingFailed from error

    async def _delete(self, seconds: float | None) -> None:
        request = self._link.jetstream.delete_consumer(STREAM, self._name)
        with suppress(NotFoundError):
            await (self._link.call(request) if seconds is None else self._link.call(request, seconds))

    def _receive(self, subject: bytes, reply: bytes, payload: bytes, headers: bytes) -> None:
        if self._mark in reply:
            self._messages.append((subject, reply, payload, headers))
        # Anything else is a heartbeat, or came from somebody else.
        if not self._changed.is_set():
            self._changed.set()

    async def _take(self) -> list[_Message]:
        """Wait for messages, and return those that are there."""
        while not self._messages:
            self._changed.clear()
            try:
                async with self._link.clock.timeout(_MOST_SILENCE):
                    await self._changed.wait()
            except TimeoutError:
                raise BrokerUnavailable("the NATS server sends neither messages nor heartbeats") from None
            if self._link.is_lost:
                raise BrokerUnavailable("the connection to the NATS server was lost")
        return [self._messages.popleft() for _ in range(min(len(self._messages), MOST_IN_BATCH))]

    async def _handle_batch(self, messages: list[_Message]) -> None:
        arrivals = tuple(map(self._read, messages))
        await self._handle(Batch(arrivals=arrivals, position=arrivals[-1].position))
        await self._link.client.send_commands([_ACKNOWLEDGE_COMMAND % reply for _, reply, _, _ in messages])
        _, self._last_reply, _, _ = messages[-1]

    async def _confirm_acknowledgements(self) -> None:
        """Wait until the server has processed what was acknowledged: a deleted consumer forgets what it has not."""
        if self._last_reply:
            request = self._link.client.request(self._last_reply.decode(), _ACKNOWLEDGE, timeout=_DELETE_SECONDS)
            await self._link.call(request, _DELETE_SECONDS)

    def _read(self, message: _Message) -> Arrival:
        subject, reply, payload, block = message
        in_stream, in_consumer = _read_sequences(reply)
        self._received += 1
        if in_consumer != self._received:
            raise BrokerUnavailable("a message from the NATS server is missing")
        headers = read_header_block(block)
        message_id = headers.pop("Nats-Msg-Id", "")
        return Arrival(
            message=BrokerMessage(subject=_read_subject(subject), payload=payload, headers=headers),
            position=Position(self._link.stream, in_stream),
            message_id=message_id,
        )


@lru_cache(maxsize=4096)
def _read_subject(subject: bytes) -> str:
    # Most goals are written to more than once.
    return restore_subject(subject.decode("utf-8", "replace"))


def _read_sequences(reply: bytes) -> tuple[int, int]:
    """Return the number of a message in the stream and in the consumer.

    The subject is $JS.ACK.stream.consumer.delivered.number.number.time.pending, or has a domain and an account after
    ACK.
    """
    tokens = reply.split(b".")
    try:
        in_stream, in_consumer = tokens[5:7] if len(tokens) == _TOKENS else tokens[7:9]
        return int(in_stream), int(in_consumer)
    except ValueError:
        raise BrokerUnavailable("the NATS server sent a message without its numbers") from None


def _is_idle(consumer: ConsumerInfo) -> bool:
    """Whether a consumer that was just created found nothing; it may have begun to send before it was described."""
    return not consumer.num_pending and not consumer.num_ack_pending
