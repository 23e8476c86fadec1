"""A simulated daemon that exchanges mail with others over one broker in memory. Its agent reads mail, and nothing else.

Stores, mailboxes, wakes, relay and receiver are the real ones; a run is two transactions. Signatures are hashes: real
ones would take a quarter of the time. Used by mail_scenario.py.
"""

import asyncio
from base64 import b64encode
from collections import Counter, defaultdict
from hashlib import sha256
from random import Random
from typing import Any

from cryptography.exceptions import InvalidSignature

from moot.broker.memory import MemoryBroker
from moot.domain.bridge import DAEMON
from moot.domain.conversation import ConversationKey
from moot.domain.events import EventSource, MailEvicted, RunEnded
from moot.domain.lost_mail import TOLD_RECEIVER, TOLD_SENDER, describe_lost
from moot.domain.mail import MAIL_AUTHOR, list_mail_in, render_mail
from moot.domain.message import injected_message
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.multiagent.peers.daemons.signatures import Identity
from moot.store.memory.lost_mail import list_untold
from tests.simulation.clock import VirtualClock
from tests.unit.multiagent.peer_kit import Node, make_agent

AGENT = "ada"
KEY = ConversationKey(AGENT, "user")
# Presence, relay, receiver, what expires the outbox, and what the broker delivers with.
_STANDING_TASKS = 5
DONE = RunEnd(outcome=Outcome.COMPLETED, content="I see.")


class HashedIdentity(Identity):
    """Signs with a hash of the public key and the data. Nobody in a simulation forges."""

    def sign(self, data: bytes) -> str:
        return b64encode(_hash(self.key, data)).decode()


class HashedKey:
    """What checks such a signature, in place of an Ed25519PublicKey."""

    def __init__(self, key: str) -> None:
        self._key = key

    def verify(self, signature: bytes, data: bytes) -> None:
        if signature != _hash(self._key, data):
            raise InvalidSignature


def _hash(key: str, data: bytes) -> bytes:
    return sha256(key.encode() + data).digest()


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
            await self._tell_of_lost(request)
            await asyncio.sleep(node.rng.choice((0.0, 0.01, 0.5, 3.0)))
            await node.storage.store.end(request.key, request.id, DONE, [], now=VirtualClock().now())
        finally:
            self._active.discard(request.key)
            run.end()
        source = EventSource(key=request.key, root=request.key, run_id=request.id)
        node.bus.publish(source, RunEnded(AGENT, DONE))

    async def _tell_of_lost(self, request: RunRequest) -> None:
        """Show what became of lost mail, as the loop does."""
        node = self._node
        if lost := await node.mailboxes.collect_lost(request.key, request.id):
            message = injected_message(render_mail(describe_lost(lost)), author=MAIL_AUTHOR)
            told = [each.told_id for each in lost]
            await node.storage.store.append(request.key, request.id, [message], now=VirtualClock().now(), delivers=told)


class MailNode(Node):
    def __init__(self, broker: MemoryBroker, number: int, rng: Random) -> None:
        super().__init__(broker, f"daemon-{number}", number, make_agent(AGENT, wake=True))
        self.identity = HashedIdentity(bytes([number]) * 32)
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

    def has_work(self) -> bool:
        """Whether something is left to send, or sent, read or stored right now."""
        return len(self.supervisor) > _STANDING_TASKS or bool(self.list_waiting())

    async def take_turn(self) -> None:
        """Have a turn of a person."""
        run = await self.runs.submit(RunRequest(id="run-last", key=KEY, speaker=AGENT, content="news?"))
        await run.wait_end()

    def list_shown(self) -> list[str]:
        """The bodies of all mail in the history, in its order."""
        return [body for sender, body in self._list_mail() if sender != DAEMON]

    def count_told(self, told: str) -> tuple[int, int]:
        """How many lost messages the agent was told of, and of how many that is stored. `told` is one of both kinds."""
        about = " from you " if told == TOLD_SENDER else " for you "
        texts = [body for sender, body in self._list_mail() if sender == DAEMON and about in body]
        stored = sum(key.startswith(told) for key, _ in self.database.deliveries.pairs())
        return sum(int(text.split()[0]) for text in texts), stored

    def list_untold(self) -> list[str]:
        """The ids of what the agent should have been told of."""
        return [lost.told_id for lost in list_untold(self.database, self.database.conversation(KEY))]

    def list_false_evictions(self) -> list[str]:
        """The ids of mail from elsewhere that was shown, but that was announced or told to be evicted, or is twice."""
        shown = {key for key, _ in self.database.deliveries.pairs()}
        announced = [event.body.mail for event in self.events if isinstance(event.body, MailEvicted)]
        counts = Counter(mail.id for mail in announced if "@" not in mail.to_agent)
        told = {mail_id for mail_id in shown if TOLD_RECEIVER + mail_id in shown}
        return sorted(told | {mail_id for mail_id, count in counts.items() if mail_id in shown or count > 1})

    def _list_mail(self) -> list[tuple[str, str]]:
        conversation = self.database.conversation(KEY)
        if conversation is None:
            return []
        entries = self.database.entries(conversation.id, 1, conversation.last_seq)
        texts = [entry.message.content for entry in entries if entry.message.agent == MAIL_AUTHOR]
        return [each for text in texts for each in list_mail_in(text)]

    def list_dead(self) -> list[str]:
        """The bodies of the mail that came back."""
        return [row.item.mail.body for row in self.database.outbox if row.failed_at]

    def list_waiting(self) -> list[str]:
        return [row.item.mail.body for row in self.database.outbox if not row.failed_at]
