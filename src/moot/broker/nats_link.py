"""NatsLink: one connection to a NATS server, from its opening until it is lost. nats.py makes one after the other.

nats-py could reconnect by itself, but would then send what it had kept meanwhile; here a message that was not accepted
is known to the relay, which publishes it again in order.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, TypeVar

import msgspec
import nats.errors
from msgspec import Struct
from nats.aio.client import RawCredentials
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.errors import APIError

from moot.broker.credentials import NatsCredentials
from moot.broker.nats_client import NatsClient, make_publish_command
from moot.broker.nats_errors import describe, find_violation
from moot.broker.nats_stream import STREAM, make_stream_id, open_stream
from moot.domain.ports.broker import PRESENCE_SUBJECT, BrokerMessage, BrokerUnavailable, Position, PresenceHandler
from moot.domain.ports.clock import Clock, Timeout

T = TypeVar("T")

_CONNECT_SECONDS = 2
_ANSWER_SECONDS = 5.0
_CLOSE_SECONDS = 2.0
_MOST_PINGS = 2
STREAM_IS_GONE = "the stream on the NATS server was removed; it is made again"
# A server with a full disk does not answer, and only its log says why.
_NOT_ACKNOWLEDGED = "the NATS server does not acknowledge messages; look at its log, its disk may be full"


class NatsSettings(Struct, frozen=True, kw_only=True):
    """Where the server is, and the name of this daemon: one token of a subject."""

    url: str
    name: str
    ca_file: str = ""
    most_stream_bytes: int = 1 << 30
    # A connection that answers no ping for three of these intervals is lost.
    ping_seconds: float = 2.0


class _Error(Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _PublishAnswer(Struct):
    stream: str = ""
    seq: int = 0
    error: _Error | None = None


# What the server answers if it has stored a message that it did not have.
_STORED = rb'\{"stream":"%b", ?"seq":([0-9]+)\}' % STREAM.encode()
_decode_answer = msgspec.json.Decoder(_PublishAnswer).decode


class _Publication:
    """Messages that were sent together, and what the server answered to each."""

    def __init__(self, message_ids: Iterable[str]) -> None:
        self.results: dict[str, Position | BrokerUnavailable] = {}
        self.is_answered = asyncio.get_running_loop().create_future()
        self.has_refused = False
        self._message_ids = list(message_ids)
        self._count = len(self._message_ids)

    def answer(self, message_id: str, result: Position) -> None:
        """Note the first answer to a message."""
        results = self.results
        if message_id not in results:
            results[message_id] = result
            if len(results) == self._count:
                self._end()

    def refuse(self, message_id: str, error: BrokerUnavailable) -> None:
        """Note that a message was not accepted, if it was not answered before."""
        if message_id not in self.results:
            self.has_refused = True
            self.results[message_id] = error
            if len(self.results) == self._count:
                self._end()

    def _end(self) -> None:
        if not self.is_answered.done():
            self.is_answered.set_result(None)

    def give_up(self, error: BrokerUnavailable) -> None:
        for message_id in self._message_ids:
            self.refuse(message_id, error)


# A message whose acknowledgement is awaited: what it was sent with, its id and its subject.
_Sent = tuple[_Publication, str, str]


class NatsLink:
    def __init__(self, settings: NatsSettings, clock: Clock, on_presence: PresenceHandler) -> None:
        self.client = NatsClient()
        self.stream = ""
        self.is_lost = False
        self.settings = settings
        self.clock = clock
        self._on_presence = on_presence
        # What the subjects of answers begin with; a token follows.
        self._inbox = b""
        self._numbers = count()
        # The last tokens of reply subjects whose messages were stored. They are used again, because the server needs
        # less for a subject that it has seen lately.
        self._free_tokens: list[bytes] = []
        self._lost = asyncio.Event()
        self._error: Exception | None = None
        # By the last token of the reply subject.
        self._waiting: dict[bytes, _Sent] = {}
        self._limits: list[Timeout] = []
        self._on_lost: list[Callable[[], object]] = []

    @property
    def jetstream(self) -> JetStreamContext:
        return self.client.jetstream(timeout=_ANSWER_SECONDS)

    async def open(self, credentials: NatsCredentials | None, tls: ssl.SSLContext | None) -> None:
        """Connect, and make sure that the stream exists. Raise what prevents it."""
        await self._connect(credentials, tls)
        await self.client.subscribe(f"{PRESENCE_SUBJECT}*", cb=self._receive_presence)
        inbox = self.client.new_inbox()
        self._inbox = f"{inbox}.".encode()
        await self.client.subscribe_answers(inbox, _STORED, self._receive_answer, self._receive_stored)
        info = await self.call(open_stream(self.jetstream, self.settings.most_stream_bytes))
        self.stream = make_stream_id(info)

    async def _connect(self, credentials: NatsCredentials | None, tls: ssl.SSLContext | None) -> None:
        given = credentials or NatsCredentials()
        try:
            await self.client.connect(
                servers=[self.settings.url],
                name=f"moot {self.settings.name}",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=_CONNECT_SECONDS,
                # Also a fraction of a second, whatever its annotation says.
                ping_interval=self.settings.ping_seconds,  # type: ignore[arg-type]
                max_outstanding_pings=_MOST_PINGS,
                # A daemon must hear another one with its name, but not itself.
                no_echo=True,
                inbox_prefix=f"_INBOX.{self.settings.name}",
                error_cb=self._note_error,
                closed_cb=self._note_lost,
                tls=tls,
                user=given.user or None,
                password=given.password or None,
                nkeys_seed_str=given.seed or None,
                user_credentials=RawCredentials(given.creds) if given.creds else None,
            )
        except nats.errors.NoServersError:
            raise self._error or BrokerUnavailable("no NATS server answers") from None

    async def close(self) -> None:
        """Send what is left to send, and end the connection."""
        await self._note_lost()
        if self.client.has_begun:
            try:
                async with self.clock.timeout(_CLOSE_SECONDS):
                    await self.client.close()
            finally:
                self.client.close_socket()

    async def wait_until_lost(self) -> None:
        """Wait for the end of the connection.

        A client that has found that the server does not answer tries to send first what it has, and says so later or
        never; its state is right.
        """
        while not self.is_lost:
            with suppress(TimeoutError):
                async with self.clock.timeout(self.settings.ping_seconds):
                    await self._lost.wait()
            if self.client.is_closed:
                await self._note_lost()

    def call_when_lost(self, callback: Callable[[], object]) -> None:
        self._on_lost.append(callback)

    def forget(self, callback: Callable[[], object]) -> None:
        self._on_lost.remove(callback)

    def explain(self, error: BaseException) -> BrokerUnavailable:
        return BrokerUnavailable(describe(error, self.settings.url))

    async def call(self, request: Coroutine[Any, Any, T], seconds: float = _ANSWER_SECONDS) -> T:
        """Await an answer of the server; raise at once if it refuses the request or if the connection is lost."""
        async with self._limit(seconds):
            return await request

    @asynccontextmanager
    async def _limit(self, seconds: float) -> AsyncIterator[None]:
        self._error = None
        limit = self.clock.timeout(seconds)
        try:
            async with limit:
                self._limits.append(limit)
                yield
        except TimeoutError as error:
            raise self._error or error from None
        finally:
            self._limits.remove(limit)

    async def publish_all(self, messages: Mapping[str, BrokerMessage]) -> dict[str, Position | BrokerUnavailable]:
        publication = _Publication(messages)
        most, inbox, free, waiting = self.client.max_payload, self._inbox, self._free_tokens, self._waiting
        tokens: list[bytes] = []
        commands: list[bytes] = []
        for message_id, broker_message in messages.items():
            token = free.pop() if free else b"%d" % next(self._numbers)
            try:
                if len(broker_message.payload) > most:
                    raise nats.errors.MaxPayloadError
                headers = {"Nats-Msg-Id": message_id, **broker_message.headers}
                commands.append(
                    make_publish_command(broker_message.subject, inbox + token, headers, broker_message.payload)
                )
            except nats.errors.Error as error:
                publication.refuse(message_id, self.explain(error))
                continue
            tokens.append(token)
            waiting[token] = publication, message_id, broker_message.subject
        try:
            async with self.clock.timeout(_ANSWER_SECONDS):
                await self.client.send_commands(commands)
                await publication.is_answered
        except TimeoutError:
            publication.give_up(BrokerUnavailable(_NOT_ACKNOWLEDGED))
        except nats.errors.Error as error:
            publication.give_up(self.explain(error))
        finally:
            self._end_waiting(tokens, is_stored=not publication.has_refused)
        return publication.results

    def _end_waiting(self, tokens: Sequence[bytes], *, is_stored: bool) -> None:
        """Forget who waits. The tokens are used again if all messages were stored.

        Any other message may still be answered, or answered once more, and that must not count for another one.
        """
        if is_stored and self._waiting.keys().isdisjoint(tokens):
            self._free_tokens += tokens
            return
        for token in tokens:
            self._waiting.pop(token, None)

    def _receive_stored(self, found: list[tuple[bytes, ...]]) -> None:
        waiting, stream = self._waiting, self.stream
        for token, sequence in found:
            sent = waiting.pop(token, None)
            if sent is not None:
                publication, message_id, _ = sent
                publication.answer(message_id, Position(stream, int(sequence)))

    def _receive_answer(self, subject: bytes, _reply: bytes, data: bytes, _headers: bytes) -> None:
        sent = self._waiting.pop(subject[len(self._inbox) :], None)
        if sent is None:
            return
        publication, message_id, _ = sent
        result = self._read_answer(data)
        if isinstance(result, BrokerUnavailable):
            publication.refuse(message_id, result)
        else:
            publication.answer(message_id, result)

    def _read_answer(self, data: bytes) -> Position | BrokerUnavailable:
        if not data:
            # Only a header, which says that nobody has subscribed: the stream was removed since it was opened.
            self.give_up(STREAM_IS_GONE)
            return BrokerUnavailable(STREAM_IS_GONE)
        try:
            answer = _decode_answer(data)
        except msgspec.MsgspecError:
            return BrokerUnavailable("the NATS server sent an answer that is not valid")
        if answer.error is not None:
            problem = answer.error
            return self.explain(APIError(problem.code, problem.description, problem.err_code))
        if answer.stream != STREAM:
            return BrokerUnavailable(f"the message was stored in the stream {answer.stream[:64]!r}, not in {STREAM}")
        return Position(self.stream, answer.seq)

    async def _receive_presence(self, message: Msg) -> None:
        self._on_presence(message.subject.removeprefix(PRESENCE_SUBJECT), message.data)

    async def announce(self, payload: bytes) -> None:
        await self.client.publish(f"{PRESENCE_SUBJECT}{self.settings.name}", payload)

    async def _note_error(self, error: Exception) -> None:
        """Take note of what the client reports beside its answers: a refused subject fails what waits for it."""
        violation = find_violation(error)
        self._error = violation or error
        if violation is None:
            return
        refused = [sent for sent in self._waiting.values() if sent[2] == violation.subject]
        for publication, message_id, _ in refused:
            publication.refuse(message_id, self.explain(violation))
        if not refused:
            self._end_limits()

    async def _note_lost(self) -> None:
        self._lose(self._error or nats.errors.ConnectionClosedError())

    def give_up(self, reason: str) -> None:
        """End the connection because of what the server lacks; the next one opens the stream again."""
        self._lose(BrokerUnavailable(reason))

    def _lose(self, error: Exception) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._error = error
        for publication in {publication for publication, _, _ in self._waiting.values()}:
            publication.give_up(self.explain(self._error))
        self._end_limits()
        self._lost.set()
        for callback in self._on_lost:
            callback()

    def _end_limits(self) -> None:
        for limit in self._limits:
            # The server may refuse several subjects at once; a limit that expires already cannot be changed.
            if not limit.expired():
                limit.reschedule(self.clock.monotonic())
