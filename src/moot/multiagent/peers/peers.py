"""Peers: everything that lets agents write to each other, built from ports. Built by multiagent/runtime.py."""

from collections.abc import Callable, Mapping, Sequence
from random import Random

from msgspec import Struct

from moot.domain.agent import Agent
from moot.domain.config import PeersConfig
from moot.domain.conversation import ConversationKey
from moot.domain.events import ConfigReloaded, Event, MailDelivered, RunEnded, RunStarted
from moot.domain.outbox import ReturnedMail
from moot.domain.ports.clock import Clock
from moot.domain.ports.storage import Storage
from moot.domain.ports.tool import Tool
from moot.domain.senders import is_reserved
from moot.engine.bus import Bus
from moot.engine.mailboxes import Mailboxes
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor
from moot.multiagent.peers.daemons.link import DaemonLink
from moot.multiagent.peers.daemons.remote_directory import RemoteDirectory
from moot.multiagent.peers.directory import PeerDirectory
from moot.multiagent.peers.losses import Losses
from moot.multiagent.peers.mail_causes import MailCauses
from moot.multiagent.peers.mail_sender import MailSender
from moot.multiagent.peers.tools.peer_tools import build_tools
from moot.multiagent.peers.tools.plans import PlanApprovals
from moot.multiagent.peers.tools.replies import Replies
from moot.multiagent.peers.transport.other_daemons import OtherDaemonDependencies, OtherDaemons
from moot.multiagent.peers.wakes import Wakes


class PeerDependencies(Struct, frozen=True, kw_only=True):
    storage: Storage
    # The agents as they are described to others.
    agents: Callable[[], Sequence[Agent]]
    find_agent: Callable[[str], Agent | None]
    mailboxes: Mailboxes
    runs: Runs
    bus: Bus
    supervisor: Supervisor
    config: Callable[[], PeersConfig]
    # Removes secrets from a text.
    redact: Callable[[str], str]
    clock: Clock
    rng: Random
    # None in simulations of one daemon.
    link: DaemonLink | None = None


class Peers:
    def __init__(self, dependencies: PeerDependencies) -> None:
        self._d = d = dependencies
        remote = None if d.link is None else RemoteDirectory(d.link)
        self.directory = PeerDirectory(
            agents=d.agents, find=d.find_agent, remote=remote, is_enabled=lambda: d.config().directory
        )
        self._wakes = Wakes(
            mail=d.storage.mail,
            mailboxes=d.mailboxes,
            runs=d.runs,
            find_agent=d.find_agent,
            config=d.config,
            supervisor=d.supervisor,
            bus=d.bus,
            clock=d.clock,
            rng=d.rng,
        )
        self._losses = Losses(
            mail=d.storage.mail,
            mailboxes=d.mailboxes,
            wakes=self._wakes,
            bus=d.bus,
            supervisor=d.supervisor,
            clock=d.clock,
        )
        self.others = self._build_others(d.link, remote)
        self.sender = MailSender(
            mail=d.storage.mail,
            store=d.storage.store,
            directory=self.directory,
            mailboxes=d.mailboxes,
            wakes=self._wakes,
            losses=self._losses,
            bus=d.bus,
            clock=d.clock,
            config=d.config,
            redact=d.redact,
            remote=self.others.sender if self.others is not None else None,
        )
        # What led to a run, for everything that a run starts.
        self.causes = MailCauses(mail=d.storage.mail, store=d.storage.store)
        self._replies = Replies(mailboxes=d.mailboxes, clock=d.clock)
        d.bus.observe(self._replies.on_mail, MailDelivered)
        d.bus.observe(self._wakes.on_run_started, RunStarted)
        d.bus.observe(self._on_run_ended, RunEnded)
        d.bus.observe(self._on_reload, ConfigReloaded)

    def _build_others(self, link: DaemonLink | None, remote: RemoteDirectory | None) -> OtherDaemons | None:
        if link is None or remote is None:
            return None
        d = self._d
        return OtherDaemons(
            OtherDaemonDependencies(
                link=link,
                peers=self.directory,
                remote=remote,
                storage=d.storage,
                agents=d.agents,
                find_agent=d.find_agent,
                mailboxes=d.mailboxes,
                wakes=self._wakes,
                losses=self._losses,
                bus=d.bus,
                supervisor=d.supervisor,
                config=d.config,
                clock=d.clock,
            )
        )

    @property
    def dropped_mail(self) -> Mapping[str, int]:
        """How many messages of other daemons were not accepted, by the kind of reason."""
        return {} if self.others is None else self.others.receiver.dropped

    def build_tools(self) -> list[Tool]:
        storage = self._d.storage
        return build_tools(
            directory=self.directory,
            sender=self.sender,
            mail=storage.mail,
            causes=self.causes,
            replies=self._replies,
            plans=PlanApprovals(mail=storage.mail, sender=self.sender, replies=self._replies, clock=self._d.clock),
        )

    async def start(self) -> None:
        """Find the mail that waits since before this start: wake the agents it is for, evict what nobody will read."""
        for key in await self._d.mailboxes.start():
            if is_reserved(key.sender):
                self._d.supervisor.start(f"evict mail of {key}", self._evict_left(key))
            else:
                self._wakes.consider(key)
        if self.others is not None:
            await self.others.start()

    async def stop(self) -> None:
        """Leave the broker."""
        if self.others is not None:
            await self.others.stop()

    async def announce_returned(self, returned: Sequence[ReturnedMail]) -> None:
        """Announce to its senders the unread mail of a deleted conversation; those on other daemons get a notice."""
        await self._losses.announce_returned(returned)
        for each in returned:
            await self._losses.answer(each)
        if self.others is not None:
            self.others.relay.wake()

    def _on_run_ended(self, event: Event) -> None:
        """Wake an agent for the mail that an ended run did not show; evict that of a goal, which nobody will read."""
        source = event.source
        self._d.mailboxes.release(source.key, source.run_id)
        if not self._d.mailboxes.may_have_mail(source.key):
            return
        self._wakes.on_run_ended(event)
        if is_reserved(source.key.sender):
            self._d.supervisor.start(f"evict mail of {source.key}", self._evict(source.key))

    def _on_reload(self, _event: Event) -> None:
        """Wake the agents that may be woken now, or more often, for the mail that waits."""
        self._d.supervisor.start("wake agents after a reload", self.sender.wake_all())

    async def _evict(self, key: ConversationKey) -> None:
        """Evict the mail of a run that has ended."""
        self._d.mailboxes.forget(key)
        await self._evict_unread(key)

    async def _evict_left(self, key: ConversationKey) -> None:
        """Evict the mail of a run that ended in a crash, or during the recovery; that of one that goes on stays."""
        if await self._evict_unread(key):
            self._d.mailboxes.forget(key)

    async def _evict_unread(self, key: ConversationKey) -> bool:
        """Evict the unread mail of a goal without a live run, and announce it; return whether there was any."""
        evicted = await self._d.storage.mail.evict(key, now=self._d.clock.now())
        if evicted:
            receivers, _ = await self._d.storage.mail.find_targets([evicted[0].goal_id])
            await self._losses.announce_evicted(evicted, receivers)
        if self.others is not None:
            # A sender elsewhere is told.
            self.others.relay.wake()
        return bool(evicted)
