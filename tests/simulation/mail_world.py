"""A simulated daemon that exchanges mail with others over one broker in memory. Its agent reads mail, and nothing else.

Stores, mailboxes, wakes, relay and receiver are the real ones; a run is two transactions. Used by mail_scenario.py.
"""

import asyncio
from collections import defaultdict
from random import Random
from typing import Any

from moot.broker.memory import MemoryBroker
from moot.domain.conversation import ConversationKey
from moot.domain.events import EventSource, RunEnded
from moot.domain.mail import MAIL_AUTHOR, list_mail_in
from moot.domain.run import Outcome, RunEnd, RunRequest
from tests.simulation.clock import VirtualClock
from tests.unit.multiagent.peer_kit import Node, make_agent

AGENT = "ada"
KEY = ConversationKey(AGENT, "user")
DONE = RunEnd(outcome=Outcome.COMPLETED, content="I see.")


class SimulatedRun:
    """What a caller waits for."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()

    async def wait_end(self) -> None:
        await self._ended.wait()

    def end(self) -> None:
        self._ended.set()


class ReadingRuns:
    """Runs whose message is mail. At most one of a conversation is active, as in the engine."""

    def __init__(self, node: "MailNode") -> None:
        self._node = node
        self._active: set[ConversationKey] = set()

    def has_local_work(self, key: ConversationKey) -> bool:
        return key in self._active

    def list_waiting(self, _key: ConversationKey) -> list[str]:
        return []

    async def submit(self, request: RunRequest) -> SimulatedRun:
        run = SimulatedRun()
        self._active.add(request.key)
        self._node.supervisor.start(request.id, self._execute(request, run))
        return run

    async def _execute(self, request: RunRequest, run: SimulatedRun) -> None:
        node = self._node
        try:
            await node.storage.store.begin(request, now=VirtualClock().now())
            await asyncio.sleep(node.rng.choice((0.0, 0.01, 0.5, 3.0)))
            await node.storage.store.end(request.key, request.id, DONE, [], now=VirtualClock().now())
        finally:
            self._active.discard(request.key)
            run.end()
        source = EventSource(key=request.key, root=request.key, run_id=request.id)
        node.bus.publish(source, RunEnded(AGENT, DONE))


class MailNode(Node):
    def __init__(self, broker: MemoryBroker, number: int, rng: Random) -> None:
        super().__init__(broker, f"daemon-{number}", number, make_agent(AGENT, wake=True))
        self.rng = rng
        self.is_running = False

    def choose_latency(self) -> float:
        return self.rng.choice((0.0, 0.001, 0.02, 0.2))

    def build_runs(self) -> Any:
        return ReadingRuns(self)

    async def start(self) -> "MailNode":
        await super().start()
        self.is_running = True
        # Who writes to a daemon waits for who does so already.
        self.writing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        for left in await self.storage.store.recover():
            await self.storage.store.end(left.run.request.key, left.run.id, DONE, [], now=VirtualClock().now())
        return self

    async def kill(self) -> None:
        self.is_running = False
        await super().kill()

    def list_shown(self) -> list[str]:
        """The bodies of all mail in the history, in its order."""
        conversation = self.database.conversation(KEY)
        if conversation is None:
            return []
        entries = self.database.entries(conversation.id, 1, conversation.last_seq)
        texts = [entry.message.content for entry in entries if entry.message.agent == MAIL_AUTHOR]
        return [body for text in texts for _, body in list_mail_in(text)]

    def list_dead(self) -> list[str]:
        """The bodies of the mail that came back."""
        return [row.item.mail.body for row in self.database.outbox if row.failed_at]

    def list_waiting(self) -> list[str]:
        return [row.item.mail.body for row in self.database.outbox if not row.failed_at]
