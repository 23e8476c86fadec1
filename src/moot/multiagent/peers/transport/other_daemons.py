"""OtherDaemons: all that exchanges mail with other daemons, built from ports. Built by peers.py if there is a broker.

The order of construction is that of the dependencies: directory, confirmations, relay, presence, receiver, sender.
"""

import logging
from collections.abc import Callable, Sequence

from msgspec import Struct

from moot.domain.agent import Agent
from moot.domain.config import PeersConfig
from moot.domain.errors import MootError
from moot.domain.outbox import OutboxItem
from moot.domain.ports.clock import Clock
from moot.domain.ports.storage import Storage
from moot.engine.bus import Bus
from moot.engine.mailboxes import Mailboxes
from moot.engine.supervisor import Supervisor
from moot.multiagent.peers.daemons.link import DaemonLink
from moot.multiagent.peers.daemons.remote_directory import RemoteDirectory
from moot.multiagent.peers.daemons.signatures import make_fingerprint
from moot.multiagent.peers.directory import PeerDirectory
from moot.multiagent.peers.losses import Losses
from moot.multiagent.peers.transport.confirmations import Confirmations
from moot.multiagent.peers.transport.outbox_expiry import OutboxExpiry, OutboxExpiryDependencies
from moot.multiagent.peers.transport.presence import Presence, PresenceDependencies
from moot.multiagent.peers.transport.receiver import Receiver, ReceiverDependencies
from moot.multiagent.peers.transport.relay import Relay
from moot.multiagent.peers.transport.remote_sender import RemoteSender
from moot.multiagent.peers.wakes import Wakes

logger = logging.getLogger(__name__)


class OtherDaemonDependencies(Struct, frozen=True, kw_only=True):
    link: DaemonLink
    # The directory that mail_sender.py reads; it contains the remote one.
    peers: PeerDirectory
    remote: RemoteDirectory
    storage: Storage
    agents: Callable[[], Sequence[Agent]]
    find_agent: Callable[[str], Agent | None]
    mailboxes: Mailboxes
    wakes: Wakes
    losses: Losses
    bus: Bus
    supervisor: Supervisor
    config: Callable[[], PeersConfig]
    clock: Clock


class OtherDaemons:
    def __init__(self, dependencies: OtherDaemonDependencies) -> None:
        d = dependencies
        storage = d.storage
        self._link, self._outbox = d.link, storage.outbox
        self.directory = d.remote
        self._confirmations = Confirmations(outbox=storage.outbox, supervisor=d.supervisor, clock=d.clock)
        self.relay = Relay(
            link=d.link,
            directory=d.remote,
            outbox=storage.outbox,
            mailboxes=d.mailboxes,
            confirmations=self._confirmations,
            supervisor=d.supervisor,
            clock=d.clock,
        )
        self.presence = Presence(
            PresenceDependencies(
                link=d.link,
                directory=d.remote,
                relay=self.relay,
                confirmations=self._confirmations,
                agents=d.agents,
                mail=storage.mail,
                store=storage.store,
                daemons=storage.daemons,
                active_seconds=lambda: d.config().active_seconds,
                bus=d.bus,
                supervisor=d.supervisor,
                clock=d.clock,
            )
        )
        self.receiver = Receiver(
            ReceiverDependencies(
                link=d.link,
                directory=d.remote,
                presence=self.presence,
                relay=self.relay,
                outbox=storage.outbox,
                mail=storage.mail,
                find_agent=d.find_agent,
                mailboxes=d.mailboxes,
                wakes=d.wakes,
                losses=d.losses,
                bus=d.bus,
                supervisor=d.supervisor,
                clock=d.clock,
            )
        )
        self.expiry = OutboxExpiry(
            OutboxExpiryDependencies(
                link=d.link,
                outbox=storage.outbox,
                mail=storage.mail,
                losses=d.losses,
                clock=d.clock,
            )
        )
        self._supervisor = d.supervisor
        self.sender = RemoteSender(
            outbox=storage.outbox,
            relay=self.relay,
            directory=d.peers,
            remote=d.remote,
            max_outbox=d.link.max_outbox,
            supervisor=d.supervisor,
            clock=d.clock,
        )
        # Not only once it is started: the broker may be connected before, and removes such messages at once.
        self._link.broker.observe_malformed(self.receiver.on_malformed)

    @property
    def is_shared(self) -> bool:
        """Whether there is a broker that other daemons can be on."""
        return self._link.broker.is_shared

    @property
    def name(self) -> str:
        return self._link.name

    @property
    def fingerprint(self) -> str:
        return make_fingerprint(self._link.identity.key)

    async def count_waiting(self) -> int:
        """Return how many mails other daemons have not received yet."""
        return await self._outbox.count_waiting()

    def is_published(self, item: OutboxItem) -> bool:
        """Whether the broker has accepted an item."""
        return item.position is not None or self._confirmations.is_published(item.number, self._link.broker.stream)

    async def start(self) -> None:
        store = await self._outbox.load_store_number()
        await self.presence.start(store)
        await self.receiver.start(store)
        self.relay.start()
        self._supervisor.start("expire the outbox", self.expiry.run())
        self._link.broker.observe_state(self._on_state)
        self._on_state(self._link.broker.is_connected)

    async def stop(self) -> None:
        """Tell the others that this daemon stops. Mail that was not sent stays in the outbox."""
        await self.presence.stop()
        await self._confirmations.stop()

    def _on_state(self, is_connected: bool) -> None:
        if not self.is_shared:
            self.directory.forget_live()
        elif is_connected and self._has_identity():
            self.presence.on_connected()
            self.receiver.on_connected()

    def _has_identity(self) -> bool:
        try:
            self._link.identity  # noqa: B018 - loads the key
        except MootError as error:
            self.directory.problem = error.sentence
            logger.error("no mail for other daemons: %s", error.sentence)
            return False
        return True
