"""Daemons that exchange mail over one broker in memory, as far as peers are concerned: real stores, and no models."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any, cast

from moot.broker.memory import MemoryBroker, MemoryConnection
from moot.domain.agent import Agent
from moot.domain.config import PeersConfig
from moot.domain.conversation import ConversationKey
from moot.domain.events import Event, EventSource, Gap, MailDropped, RunEnded
from moot.domain.goal import Goal
from moot.domain.mail import Mail
from moot.domain.run import RunRequest
from moot.engine.bus import Bus
from moot.engine.mailboxes import Mailboxes
from moot.engine.run_stream import RunStream
from moot.engine.supervisor import Supervisor
from moot.multiagent.peers.daemons.link import DaemonLink
from moot.multiagent.peers.daemons.signatures import Identity
from moot.multiagent.peers.letter import DeliveryReport, Letter
from moot.multiagent.peers.peers import PeerDependencies, Peers
from moot.store.memory.database import Database
from moot.store.memory.storage import build_memory_storage
from moot.store.memory.store import MemoryStore
from tests.contracts.store_kit import DONE, request
from tests.simulation.clock import VirtualClock
from tests.unit.events import SOURCE

OWNER = "user"


def make_agent(name: str, **fields: Any) -> Agent:
    """An agent that may write to everybody and accepts mail from everybody, unless it is said."""
    lists = {"allowed_delegates": ("*",), "accept_delegates_from": ("*",), **fields}
    return Agent(name=name, description=f"{name} of a test", instruction="", **lists)


class IdleRuns:
    """Notes which runs mail would start."""

    def __init__(self) -> None:
        self.submitted: list[RunRequest] = []

    def has_local_work(self, _key: object) -> bool:
        return False

    def list_waiting(self, _key: object) -> list[str]:
        return []

    async def submit(self, submitted: RunRequest) -> RunStream:
        self.submitted.append(submitted)
        return RunStream(SOURCE)


class Node:
    """A daemon with its store. `stop` or `kill` end it; `start` begins the next one on the same store."""

    def __init__(self, broker: MemoryBroker, name: str, number: int, *agents: Agent, seed: int = 0) -> None:
        self.broker = broker
        self.name = name
        self.database = Database(identity=number)
        self.agents = {agent.name: agent for agent in agents}
        self.identity = Identity(bytes([seed or number]) * 32)
        self.accepts_unsigned = False
        self.max_outbox = 10_000
        # By how many seconds its clock is wrong.
        self.skew = 0.0
        self.outbox_days = 30.0
        self.events: list[Event] = []
        self._calls = 0

    async def start(self) -> "Node":
        clock = VirtualClock(self.skew)
        self.store = MemoryStore(self.database, clock, self.choose_latency)
        self.storage = build_memory_storage(self.store)
        self.supervisor = Supervisor(clock)
        self.bus = Bus(clock=clock)
        self.bus.subscribe(self._note)
        self.mailboxes = Mailboxes(self.storage.mail)
        self.runs = self.build_runs()
        self.connection: MemoryConnection = self.broker.connect(self.name, self.supervisor.start)
        self.link = DaemonLink(
            self.connection,
            load_identity=lambda: self.identity,
            accepts_unsigned=lambda: self.accepts_unsigned,
            max_outbox=lambda: self.max_outbox,
            outbox_days=lambda: self.outbox_days,
        )
        self.peers = Peers(
            PeerDependencies(
                storage=self.storage,
                agents=lambda: list(self.agents.values()),
                find_agent=self.agents.get,
                mailboxes=self.mailboxes,
                runs=cast(Any, self.runs),
                bus=self.bus,
                supervisor=self.supervisor,
                config=PeersConfig,
                redact=str,
                clock=clock,
                rng=Random(1),
                link=self.link,
            )
        )
        await self.peers.start()
        await self.connection.start()
        return self

    def choose_latency(self) -> float:
        """How long a step of the store takes."""
        return 0.0

    def build_runs(self) -> Any:
        return IdleRuns()

    def _note(self, event: Event | Gap) -> None:
        if isinstance(event, Event):
            self.events.append(event)

    async def stop(self) -> None:
        await self.peers.stop()
        await self.supervisor.stop()
        await self.connection.close()
        await self.store.close()

    async def kill(self) -> None:
        """End it at once: nothing that is not committed happens any more."""
        self.store.crash()
        self.connection.end()
        await self.supervisor.stop()

    @property
    def others(self) -> Any:
        assert self.peers.others is not None
        return self.peers.others

    async def talk(self, agent: str, sender: str = OWNER) -> Goal:
        """Have a conversation, and return its goal."""
        self._calls += 1
        key, run_id = ConversationKey(agent, sender), f"run-{self.name}-{self._calls}"
        now = VirtualClock(self.skew).now()
        await self.storage.store.begin(request(run_id, "hi", key), now=now)
        await self.storage.store.end(key, run_id, DONE, [], now=now)
        self.bus.publish(EventSource(key=key, root=key), RunEnded(agent, DONE))
        goal = await self.storage.mail.find_goal_of(key)
        assert goal is not None
        return goal

    async def send(self, from_agent: str, to: str, body: str, sender: str = OWNER, **more: Any) -> DeliveryReport:
        self._calls += 1
        call = f"call-{self._calls}"
        key = ConversationKey(from_agent, sender)
        goal = await self.storage.mail.find_goal_of(key)
        return await self.peers.sender.send(
            Letter(
                origin=(f"run-{self.name}", call),
                from_agent=from_agent,
                from_goal=goal.id if goal is not None else "",
                root=key,
                to=to,
                body=body,
                emit=lambda event: self.bus.publish(EventSource(key=key, root=key), event),
                **more,
            )
        )

    async def unread(self, agent: str, sender: str = OWNER) -> list[Mail]:
        return await self.storage.mail.list_unread(ConversationKey(agent, sender))

    async def bodies(self, agent: str) -> list[str]:
        return [mail.body for mail in await self.unread(agent)]

    def list_peers(self, caller: str) -> dict[str, bool]:
        return {peer.agent_id: peer.reachable for peer in self.peers.directory.list_peers(caller)}

    @property
    def drops(self) -> list[str]:
        return [event.body.reason for event in self.events if isinstance(event.body, MailDropped)]


async def pass_time(seconds: float) -> None:
    """Let everything happen that happens within some seconds of virtual time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


async def start_two(broker: MemoryBroker, *, ada: Agent | None = None, bob: Agent | None = None) -> tuple[Node, Node]:
    """Two daemons that know each other: `ada` on the desk, `bob` on the laptop, each with a conversation."""
    desk = await Node(broker, "desk", 1, ada or make_agent("ada")).start()
    laptop = await Node(broker, "laptop", 2, bob or make_agent("bob")).start()
    await desk.talk("ada")
    await laptop.talk("bob")
    await pass_time(3.0)
    return desk, laptop
