"""Presence: announces this daemon to others on the broker, and reads what they announce.

It fills remote_directory.py and tells relay.py what others have received. The goals it announces come from the store.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from moot import __version__
from moot.domain.agent import Agent
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest
from moot.domain.events import Event, RunEnded, RunQueued, RunStarted
from moot.domain.goal import Goal
from moot.domain.outbox import KnownDaemon
from moot.domain.ports.clock import Clock
from moot.domain.ports.mail import MailStore
from moot.domain.ports.outbox import KnownDaemons
from moot.domain.ports.store import Store
from moot.domain.senders import is_reserved
from moot.engine.bus import Bus
from moot.engine.supervisor import Supervisor
from moot.multiagent.peers.daemons.link import DaemonLink
from moot.multiagent.peers.daemons.presence_record import (
    MOST_DAEMONS,
    MOST_GOALS_OF_AGENT,
    PeerAgent,
    PresenceRecord,
    encode_record,
    read_record,
    shorten_description,
)
from moot.multiagent.peers.daemons.remote_directory import EXPIRY_SECONDS, RemoteDirectory
from moot.multiagent.peers.daemons.signatures import make_fingerprint
from moot.multiagent.peers.directory import find_principal
from moot.multiagent.peers.transport.confirmations import Confirmations
from moot.multiagent.peers.transport.relay import Relay

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 3.0
# The shortest time between two announcements of changes.
_PAUSE_SECONDS = 1.0
# How long a daemon has to answer the first announcement of another one with its name; it answers at once.
_CLAIM_SECONDS = 0.5
# After so many messages their senders are told at once: until then the messages count against what may wait there.
_MOST_UNCONFIRMED = 1_000
# Goals are read again after this time, because conversations stop being live without an event.
_REFRESH_SECONDS = 30.0
_MOST_GOALS = 2_000


class PresenceDependencies(Struct, frozen=True, kw_only=True):
    link: DaemonLink
    directory: RemoteDirectory
    relay: Relay
    confirmations: Confirmations
    agents: Callable[[], Sequence[Agent]]
    mail: MailStore
    store: Store
    daemons: KnownDaemons
    # How long after its last message a conversation counts as live.
    active_seconds: Callable[[], float]
    bus: Bus
    supervisor: Supervisor
    clock: Clock


class Presence:
    def __init__(self, dependencies: PresenceDependencies) -> None:
        self._d = dependencies
        self._started_at = 0.0
        self._number = 0
        self._store_number = 0
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        # How many messages were received since the last announcement.
        self._unconfirmed = 0
        # The announced goals by agent, the conversations they are of, and when they were read; None if they changed.
        self._goals: dict[str, list[str]] = {}
        self._announced: frozenset[ConversationKey] = frozenset()
        self._read_at: float | None = None
        # The latest records of daemons whose keys are being stored.
        self._pinning: dict[str, PresenceRecord] = {}
        # When this daemon was last announced because of a record that does not name it, by the name of its daemon.
        self._introduced: dict[str, float] = {}
        # When another daemon with the name of this one was last heard.
        self._conflict_at: float | None = None
        # Whether this daemon was announced since its start.
        self._is_introduced = asyncio.Event()

    async def start(self, store: int) -> None:
        d = self._d
        self._store_number = store
        self._started_at = d.clock.now()
        d.directory.load(await d.daemons.list_all())
        d.link.broker.observe_presence(self._on_presence)
        d.bus.observe(self._on_run, RunQueued, RunStarted, RunEnded)
        d.supervisor.start("presence", self._announce_until_stopped())

    async def stop(self) -> None:
        """Announce that this daemon is about to stop."""
        if self._started_at and self._may_announce:
            await self._announce(is_leaving=True)

    async def wait_for_claims(self) -> None:
        """Wait until a daemon that was here first with the name of this one has had the time to say so."""
        await self._is_introduced.wait()
        await self._d.clock.sleep(_CLAIM_SECONDS)

    def announce_soon(self) -> None:
        """Announce a change, together with others of the same second."""
        self._changed.set()

    def confirm_soon(self, count: int) -> None:
        """Announce that so many more messages were received; at once, if there are many."""
        self._unconfirmed += count
        if self._unconfirmed >= _MOST_UNCONFIRMED:
            self._announce_now()
        else:
            self.announce_soon()

    def _announce_now(self) -> None:
        self._urgent.set()
        self._changed.set()

    async def forget(self, name: str) -> bool:
        """Forget a daemon and its key; the next one with this name is accepted."""
        is_known = await self._d.daemons.forget(name)
        self._d.directory.forget(name)
        self._announce_now()
        return is_known

    # ---- what happens -----------------------------------------------------------------------------

    def on_connected(self) -> None:
        # Nothing was heard meanwhile.
        now = self._d.clock.monotonic()
        self._d.directory.renew_all(now)
        self._conflict_at = now if self._conflict_at is not None else None
        self._announce_now()
        self._d.relay.wake()

    def _on_run(self, event: Event) -> None:
        key = event.source.key
        if not self._d.link.is_up:
            # Everything is read when there is a connection.
            self._read_at = None
        elif key not in self._announced or (isinstance(event.body, RunEnded) and is_reserved(key.sender)):
            self._read_at = None
            self.announce_soon()

    def _on_presence(self, name: str, payload: bytes) -> None:
        try:
            record = read_record(name, payload)
        except BadRequest as error:
            logger.warning("ignored what was announced as daemon %r: %s", name, error.message)
            return
        if name == self._d.link.name:
            self._yield_to(record)
        elif holder := self._find_store_holder(record):
            self._refuse_store(record, holder)
        elif (known := self._d.directory.find_daemon(name)) is None:
            self._pin(record)
        elif known.key != record.key:
            if self._d.directory.refuse_key(name, record.key):
                logger.warning(
                    "daemon %s was announced with another key (%s), which is refused; `moot peers daemons --forget %s`"
                    " accepts it",
                    name,
                    make_fingerprint(record.key),
                    name,
                )
        else:
            self._accept(record)

    def _find_store_holder(self, record: PresenceRecord) -> str:
        """Return who else has the store that a daemon calls its own; empty if nobody has.

        A daemon receives the mail for its store, and says how much of it others may forget.
        """
        d = self._d
        if record.store == self._store_number and record.key != d.link.identity.key:
            return d.link.name
        new = (each for each in self._pinning.values() if each.store == record.store and each.key != record.key)
        return d.directory.find_store_holder(record) or next((each.name for each in new), "")

    def _accept(self, record: PresenceRecord) -> None:
        d = self._d
        is_new = d.directory.accept(record, d.clock.monotonic(), d.clock.now())
        if record.position is not None:
            d.confirmations.note_received(record.store, record.position)
        known = d.directory.find_daemon(record.name)
        if is_new or (known is not None and known.store != record.store):
            d.supervisor.start(f"save daemon {record.name}", self._save(record))
        if is_new or record.knows.get(d.link.name) != d.link.identity.key:
            # It does not know this one, or not any more, or has heard nothing of it since it was started.
            self._introduce_to(record.name)
        d.relay.wake()

    def _introduce_to(self, name: str) -> None:
        """Announce this daemon to one that does not know it; at once, but not again before that could store it.

        Otherwise three daemons that each know only the next one would answer each other without a pause.
        """
        now = self._d.clock.monotonic()
        if now - self._introduced.get(name, -_PAUSE_SECONDS) < _PAUSE_SECONDS:
            self.announce_soon()
        else:
            self._introduced[name] = now
            self._announce_now()

    def _refuse_store(self, record: PresenceRecord, holder: str) -> None:
        if self._d.directory.refuse_store(record.name, holder):
            logger.warning(
                "daemon %s (key %s) announces the store of daemon %s and is refused",
                record.name,
                make_fingerprint(record.key),
                holder,
            )

    def _pin(self, record: PresenceRecord) -> None:
        """Store the key of a daemon that was heard for the first time."""
        if len(self._d.directory.list_known_keys()) >= MOST_DAEMONS or record.is_leaving:
            return
        is_first = record.name not in self._pinning
        self._pinning[record.name] = record
        if is_first:
            self._d.supervisor.start(f"save daemon {record.name}", self._save_first(record))

    async def _save_first(self, record: PresenceRecord) -> None:
        try:
            await self._save(record)
            logger.info("daemon %s is on the broker, with the key %s", record.name, make_fingerprint(record.key))
        finally:
            latest = self._pinning.pop(record.name)
        known = self._d.directory.find_daemon(record.name)
        if known is not None and latest.key == known.key:
            self._accept(latest)

    async def _save(self, record: PresenceRecord) -> None:
        now = self._d.clock.now()
        seen = KnownDaemon(name=record.name, key=record.key, store=record.store, first_seen=now, last_seen=now)
        self._d.directory.add(await self._d.daemons.save(seen))

    def _yield_to(self, record: PresenceRecord) -> None:
        """Take no part while a daemon that started earlier has the name of this one."""
        own = (self._started_at, self._d.link.identity.key)
        if (record.started_at, record.key) == own:
            return
        if (record.started_at, record.key) > own:
            self._announce_now()
            return
        self._conflict_at = self._d.clock.monotonic()
        problem = (
            f"another daemon on the broker is called `{self._d.link.name}` (key {make_fingerprint(record.key)});"
            " set another `name` under [broker]"
        )
        if self._d.directory.problem != problem:
            logger.error("%s", problem)
        self._d.directory.problem = problem

    # ---- announcing -------------------------------------------------------------------------------

    async def _announce_until_stopped(self) -> None:
        while True:
            self._changed.clear()
            self._urgent.clear()
            if not self._d.link.is_up:
                # Without a connection nobody hears this one, and nothing is known about others.
                await self._changed.wait()
                continue
            self._expire()
            if self._may_announce:
                await self._announce(is_leaving=False)
            await self._wait()

    @property
    def _may_announce(self) -> bool:
        return self._d.link.is_up and not self._d.directory.problem

    async def _wait(self) -> None:
        """Wait for the next announcement: at once, after a short pause if something changed, or the regular one."""
        clock = self._d.clock
        began = clock.monotonic()
        expiry = self._d.directory.get_next_expiry()
        until = HEARTBEAT_SECONDS if expiry is None else min(HEARTBEAT_SECONDS, expiry - began)
        with suppress(TimeoutError):
            async with clock.timeout(until):
                await self._changed.wait()
        with suppress(TimeoutError):
            async with clock.timeout(max(0.0, began + _PAUSE_SECONDS - clock.monotonic())):
                await self._urgent.wait()

    def _expire(self) -> None:
        now = self._d.clock.monotonic()
        if self._conflict_at is not None and now - self._conflict_at > EXPIRY_SECONDS:
            self._conflict_at, self._d.directory.problem = None, ""
        for name in self._d.directory.expire(now):
            logger.info("daemon %s is not on the broker any more", name)

    async def _announce(self, *, is_leaving: bool) -> None:
        d = self._d
        now = d.clock.monotonic()
        if self._read_at is None or now - self._read_at > _REFRESH_SECONDS:
            self._read_at = now
            await self._read_goals()
        self._number += 1
        self._unconfirmed = 0
        record = PresenceRecord(
            name=d.link.name,
            key=d.link.identity.key,
            store=self._store_number,
            position=d.directory.position,
            version=__version__,
            started_at=self._started_at,
            number=self._number,
            knows=d.directory.list_known_keys(),
            agents=tuple(map(self._describe_agent, d.agents())),
            is_leaving=is_leaving,
        )
        await d.link.broker.announce(encode_record(record, d.link.identity))
        self._is_introduced.set()

    def _describe_agent(self, agent: Agent) -> PeerAgent:
        return PeerAgent(
            agent_id=agent.name,
            description=shorten_description(agent.description),
            accept_delegates_from=agent.accept_delegates_from,
            goals=tuple(self._goals.get(agent.name, ())),
        )

    async def _read_goals(self) -> None:
        """Read the live goals of the owner. Those of the holders of tokens are never announced."""
        d = self._d
        since = d.clock.now() - d.active_seconds()
        found = await d.mail.list_goals(since=since, limit=_MOST_GOALS)
        tokens = await d.store.list_tokens()
        own: list[Goal] = [goal for goal in found if not find_principal(goal.root.sender, tokens)]
        self._goals = {}
        for goal in own:
            goals = self._goals.setdefault(goal.agent, [])
            if len(goals) < MOST_GOALS_OF_AGENT:
                goals.append(goal.id)
        self._announced = frozenset(goal.key for goal in found)
