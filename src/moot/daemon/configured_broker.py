"""ConfiguredBroker: the broker that [broker] names, as one Broker that stays the same when the section changes.

Chooses between broker/memory.py and broker/nats.py, reads the credentials, and after a reload connects to what the
section then says; consumers and observers move along.
"""

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from moot.broker.credentials import NatsCredentials, parse_credentials
from moot.broker.memory import MemoryBroker
from moot.domain.config import MEMORY_BROKER, BrokerConfig
from moot.domain.errors import ConfigError
from moot.domain.ports.broker import (
    BatchHandler,
    Broker,
    BrokerMessage,
    BrokerUnavailable,
    MalformedHandler,
    Position,
    PresenceHandler,
    StateHandler,
)
from moot.domain.ports.clock import Clock
from moot.engine.supervisor import Supervisor
from moot.models.keys import ReadSecret, reveal

logger = logging.getLogger(__name__)

_MOST_CREDENTIAL_BYTES = 65_536

# Takes the name of a secret and its value, which is redacted everywhere from then on.
RegisterKey = Callable[[str, str], object]


class ConfiguredBroker:
    """The Broker port for the current configuration."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        supervisor: Supervisor,
        read_secret: ReadSecret,
        register_key: RegisterKey,
    ) -> None:
        self._config = config
        self._clock = clock
        self._supervisor = supervisor
        self._read_secret = read_secret
        self._register_key = register_key
        self._observers = BrokerObservers()
        self._consumptions: list[_Consumption] = []
        # Why the configured broker cannot be used at all.
        self._flaw = ""
        self._broker = self._build()
        # Kept here, since it is asked for more than once for each mail.
        self.name = self._broker.name

    @property
    def url(self) -> str:
        return self._config.url

    @property
    def is_shared(self) -> bool:
        return self._config.url != MEMORY_BROKER

    @property
    def is_connected(self) -> bool:
        return not self._flaw and self._broker.is_connected

    @property
    def problem(self) -> str:
        return self._flaw or self._broker.problem

    @property
    def stream(self) -> str:
        return self._broker.stream

    async def start(self) -> None:
        if not self._flaw:
            await self._broker.start()

    async def close(self) -> None:
        await self._broker.close()

    async def reload(self, config: BrokerConfig) -> None:
        """Connect to what the section says now, if that is another broker or another way to connect."""
        has_changed = _list_connection_settings(config) != _list_connection_settings(self._config)
        self._config = config
        if not has_changed:
            return
        for consumption in self._consumptions:
            await consumption.stop()
        await self._broker.close()
        self._flaw = ""
        self._broker = self._build()
        self.name = self._broker.name
        await self.start()
        for consumption in self._consumptions:
            await consumption.start(self._broker)

    async def publish_all(self, messages: Mapping[str, BrokerMessage]) -> dict[str, Position | BrokerUnavailable]:
        if self._flaw:
            return dict.fromkeys(messages, BrokerUnavailable(self._flaw))
        return await self._broker.publish_all(messages)

    async def announce(self, payload: bytes) -> None:
        await self._broker.announce(payload)

    def observe_presence(self, handle: PresenceHandler) -> None:
        self._observers.of_presence.append(handle)

    def observe_state(self, handle: StateHandler) -> None:
        self._observers.of_state.append(handle)

    def observe_malformed(self, handle: MalformedHandler) -> None:
        self._observers.of_malformed.append(handle)

    def consume(self, store: int, handle: BatchHandler) -> AbstractAsyncContextManager[None]:
        return self._consume(_Consumption(store, handle))

    @asynccontextmanager
    async def _consume(self, consumption: "_Consumption") -> AsyncIterator[None]:
        self._consumptions.append(consumption)
        await consumption.start(self._broker)
        try:
            yield
        finally:
            self._consumptions.remove(consumption)
            await consumption.stop()

    def _build(self) -> Broker:
        name = self._config.name or make_broker_name(socket.gethostname())
        broker: Broker
        try:
            broker = self._build_nats(name) if self.is_shared else self._build_memory(name)
        except ConfigError as error:
            self._flaw = error.sentence
            logger.error("no connection to the broker: %s", self._flaw)
            broker = self._build_memory(name)
        broker.observe_presence(self._observers.report_presence)
        broker.observe_state(self._observers.report)
        broker.observe_malformed(self._observers.report_malformed)
        return broker

    def _build_memory(self, name: str) -> Broker:
        return MemoryBroker(self._clock, is_shared=False).connect(name, self._supervisor.start)

    def _build_nats(self, name: str) -> Broker:
        try:
            from moot.broker.nats import NatsBroker  # noqa: PLC0415 - an extra, only if it is used
            from moot.broker.nats_link import NatsSettings  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(
                "[broker] names a NATS server, and nats-py is not installed", fix="Run: pip install 'moot[nats]'"
            ) from error
        config = self._config
        settings = NatsSettings(
            url=config.url.rstrip("/"),
            name=name,
            ca_file=config.ca_file,
            most_stream_bytes=config.max_stream_bytes,
        )
        read_credentials = partial(_read_credentials, config.credentials, self._read_secret, self._register_key)
        return NatsBroker(settings, self._clock, self._supervisor.start, read_credentials)


class BrokerObservers:
    """Who is told what comes from the broker, whichever it is."""

    def __init__(self) -> None:
        self.of_presence: list[PresenceHandler] = []
        self.of_state: list[StateHandler] = []
        self.of_malformed: list[MalformedHandler] = []

    def report_presence(self, name: str, payload: bytes) -> None:
        for handle in self.of_presence:
            handle(name, payload)

    def report(self, is_connected: bool) -> None:
        for handle in self.of_state:
            handle(is_connected)

    def report_malformed(self, subject: str) -> None:
        for handle in self.of_malformed:
            handle(subject)


class _Consumption:
    """What consumes, so that it can go on with another broker."""

    def __init__(self, store: int, handle: BatchHandler) -> None:
        self._store = store
        self._handle = handle
        self._stack = AsyncExitStack()

    async def start(self, broker: Broker) -> None:
        await self._stack.enter_async_context(broker.consume(self._store, self._handle))

    async def stop(self) -> None:
        await self._stack.aclose()


def _list_connection_settings(config: BrokerConfig) -> tuple[object, ...]:
    return config.url, config.name, config.credentials, config.ca_file, config.max_stream_bytes


def make_broker_name(host: str) -> str:
    """Return the name of a machine as one that a broker accepts: the first part of it, in a-z, 0-9 and -."""
    name = re.sub(r"[^a-z0-9]+", "-", host.partition(".")[0].lower()).strip("-")
    return name[:63].strip("-") or "moot"


def _read_file(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(_MOST_CREDENTIAL_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"the credentials of the broker in {path} cannot be read: {reason}") from error


async def _read_credentials(
    reference: str, read_secret: ReadSecret, register_key: RegisterKey
) -> NatsCredentials | None:
    """Return the credentials as they are now; None if none are configured."""
    if not reference:
        return None
    if reference.startswith("file:"):
        value = await asyncio.to_thread(_read_file, Path(reference.removeprefix("file:")))
    else:
        value = await reveal(reference, place="[broker]", read_secret=read_secret)
    credentials = parse_credentials(value)
    for secret in credentials.secrets:
        register_key(reference, secret)
    return credentials
