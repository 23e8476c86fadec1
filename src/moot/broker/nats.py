"""NatsBroker: the Broker port over NATS with JetStream. It connects again and again until it is closed.

nats_link.py is one connection, nats_consumer.py receives over it, nats_stream.py describes the stream, nats_errors.py
says what is wrong. Needs the extra `nats`; imported only if `[broker] url` names a server.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import nats.errors

from moot.broker.credentials import NatsCredentials
from moot.broker.nats_consumer import HandlingFailed, NatsConsumer
from moot.broker.nats_errors import describe, explain_max_payload, is_stream_missing
from moot.broker.nats_link import STREAM_IS_GONE, NatsLink, NatsSettings
from moot.broker.nats_malformed import remove_malformed
from moot.domain.ports.broker import (
    BatchHandler,
    BrokerMessage,
    BrokerUnavailable,
    MalformedHandler,
    Position,
    PresenceHandler,
    StateHandler,
)
from moot.domain.ports.clock import Clock

logger = logging.getLogger(__name__)

# Starts a coroutine under an owner: Supervisor.start.
Start = Callable[[str, Coroutine[Any, Any, None]], "asyncio.Task[None]"]
# Returns the credentials, if any are configured.
ReadCredentials = Callable[[], Awaitable[NatsCredentials | None]]

_FIRST_WAIT = 0.05
_LONGEST_WAIT = 2.0
_RETRY_CONSUMING = 1.0
_MALFORMED_SECONDS = 60.0


class NatsBroker:
    is_shared = True

    def __init__(self, settings: NatsSettings, clock: Clock, start: Start, read_credentials: ReadCredentials) -> None:
        self._settings = settings
        self._clock = clock
        self._start = start
        self._read_credentials = read_credentials
        self._link: NatsLink | None = None
        self._stream = ""
        self._is_closed = False
        self._problem = f"connecting to {settings.url}"
        # Why messages do not arrive although there is a connection.
        self._consuming_problem = ""
        # Why others do not hear of this daemon although there is a connection.
        self._announcing_problem = ""
        self._connecting: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._presence_handlers: list[PresenceHandler] = []
        self._state_handlers: list[StateHandler] = []
        self._malformed_handlers: list[MalformedHandler] = []

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def is_connected(self) -> bool:
        return self._link is not None

    @property
    def problem(self) -> str:
        return self._consuming_problem or self._announcing_problem if self.is_connected else self._problem

    @property
    def stream(self) -> str:
        return self._link.stream if self._link is not None else self._stream

    def observe_presence(self, handle: PresenceHandler) -> None:
        self._presence_handlers.append(handle)

    def observe_state(self, handle: StateHandler) -> None:
        self._state_handlers.append(handle)

    def observe_malformed(self, handle: MalformedHandler) -> None:
        self._malformed_handlers.append(handle)

    async def start(self) -> None:
        self._connecting = self._start("broker-connect", self._stay_connected())

    async def close(self) -> None:
        self._is_closed = True
        self._problem = "the connection is closed"
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])

    async def publish_all(self, messages: Mapping[str, BrokerMessage]) -> dict[str, Position | BrokerUnavailable]:
        if self._link is None:
            return dict.fromkeys(messages, BrokerUnavailable(self._problem))
        return await self._link.publish_all(messages)

    async def announce(self, payload: bytes) -> None:
        if self._link is None:
            return
        try:
            await self._link.announce(payload)
        except nats.errors.MaxPayloadError:
            self._note_announcing(explain_max_payload(len(payload)))
        except (nats.errors.Error, OSError):
            # `_stay_connected` says what is wrong.
            return
        else:
            self._note_announcing("")

    def _note_announcing(self, problem: str) -> None:
        if problem and problem != self._announcing_problem:
            logger.warning("other daemons do not know of this one: %s", problem)
        self._announcing_problem = problem

    def consume(self, store: int, handle: BatchHandler) -> AbstractAsyncContextManager[None]:
        return self._consume_in_task(store, handle)

    @asynccontextmanager
    async def _consume_in_task(self, store: int, handle: BatchHandler) -> AsyncIterator[None]:
        task = self._start("broker-consume", self._consume(store, handle))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _consume(self, store: int, handle: BatchHandler) -> None:
        while True:
            # `_stay_connected` replaces a lost connection. Until it gets its turn, every call fails without waiting.
            while self._link is None or self._link.is_lost:
                self._changed.clear()
                await self._changed.wait()
            link = self._link
            try:
                await NatsConsumer(link, store, handle, self._note_consuming).run()
            except HandlingFailed as error:
                logger.error("a batch of messages could not be handled; it is given again", exc_info=error.__cause__)
            except Exception as error:  # noqa: BLE001 - whatever the server answers, it is tried again
                if is_stream_missing(error):
                    link.give_up(STREAM_IS_GONE)
                if not link.is_lost:
                    self._note_consuming(describe(error, self._settings.url))
            if not link.is_lost:
                await self._clock.sleep(_RETRY_CONSUMING)

    def _note_consuming(self, problem: str = "") -> None:
        if problem and problem != self._consuming_problem:
            logger.warning("messages of other daemons do not arrive: %s", problem)
        self._consuming_problem = problem

    async def _stay_connected(self) -> None:
        wait = _FIRST_WAIT
        # Not only until it is cancelled: asyncio.wait_for, which nats-py connects with, loses a cancellation that
        # comes together with the result.
        while not self._is_closed:
            link = NatsLink(self._settings, self._clock, self._receive_presence)
            try:
                if await self._open(link) and not self._is_closed:
                    wait = _FIRST_WAIT
                    self._attach(link)
                    removing = self._start("broker-malformed", self._remove_malformed(link))
                    try:
                        await link.wait_until_lost()
                    finally:
                        removing.cancel()
            finally:
                self._detach(link)
                await self._close_link(link)
            if not self._is_closed:
                await self._clock.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    async def _remove_malformed(self, link: NatsLink) -> None:
        """Remove, every minute, what no daemon would ever receive."""
        while not link.is_lost:
            try:
                await remove_malformed(link, self._report_malformed)
            except Exception as error:  # noqa: BLE001 - whatever the server answers, it is tried again
                if not link.is_lost:
                    logger.info("messages without a receiver are not removed: %s", describe(error, self._settings.url))
            await self._clock.sleep(_MALFORMED_SECONDS)

    def _report_malformed(self, subject: str) -> None:
        for handle in self._malformed_handlers:
            handle(subject)

    async def _open(self, link: NatsLink) -> bool:
        try:
            credentials = await self._read_credentials()
            tls = await asyncio.to_thread(_make_tls, self._settings)
            await link.open(credentials, tls)
        except Exception as error:  # noqa: BLE001 - whatever the server answers, it is tried again
            if not self._is_closed:
                self._note_problem(describe(error, self._settings.url))
            return False
        return not link.is_lost

    async def _close_link(self, link: NatsLink) -> None:
        """Close the connection to its end, also when cancelled: a client that is interrupted keeps its socket open."""
        closing = self._start("broker-disconnect", _close(link))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait([closing])
            raise

    def _note_problem(self, problem: str) -> None:
        if problem != self._problem:
            logger.warning("no connection to the broker: %s", problem)
        self._problem = problem

    def _attach(self, link: NatsLink) -> None:
        logger.info("connected to the broker at %s as %s", self._settings.url, self._settings.name)
        self._consuming_problem = self._announcing_problem = ""
        self._link = link
        self._changed.set()
        self._report(True)

    def _detach(self, link: NatsLink) -> None:
        if self._link is not link:
            return
        self._stream, self._link = link.stream, None
        if not self._is_closed:
            self._note_problem(f"the connection to {self._settings.url} was lost")
        self._report(False)

    def _receive_presence(self, name: str, payload: bytes) -> None:
        for handle in self._presence_handlers:
            handle(name, payload)

    def _report(self, is_connected: bool) -> None:
        for handle in self._state_handlers:
            handle(is_connected)


async def _close(link: NatsLink) -> None:
    with suppress(nats.errors.Error, OSError):
        await link.close()


def _make_tls(settings: NatsSettings) -> ssl.SSLContext | None:
    """Return what a certificate is checked with; a server may require TLS although its address does not say so."""
    if not settings.ca_file and settings.url.startswith("nats://"):
        return None
    return ssl.create_default_context(cafile=settings.ca_file or None)
