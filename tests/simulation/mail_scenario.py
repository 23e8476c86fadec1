"""One simulated history of mail between daemons: they send, crash and are cut off, the broker restarts and loses data.

Checked at the end: what was acknowledged either was shown exactly once, in the order of its sender, or came back;
agents were told once of what came back to them or was evicted; and nothing that was shown was announced as evicted.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random

from moot.broker.memory import MemoryBroker
from moot.broker.memory_faults import Faults
from moot.domain.errors import MootError
from moot.domain.lost_mail import TOLD_RECEIVER, TOLD_SENDER
from moot.multiagent.peers.daemons import signatures
from moot.store.memory import mail
from tests.simulation.clock import VirtualClock
from tests.simulation.event_loop import VirtualLoop
from tests.simulation.mail_world import AGENT, HashedKey, MailNode
from tests.simulation.mutants import mutated
from tests.simulation.scenario import Violation

_MOST_STEPS = 400_000
# So that mail is evicted without sending too much of it.
_CAPACITY = 6
# How long mail may take once nothing goes wrong any more, and for how long nothing must be under way at the end:
# longer than any timer that has to do with mail.
_MOST_SECONDS = 90.0
_QUIET_SECONDS = 20.0
_LOOK_SECONDS = 5.0


class MailScenario:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._rng = Random(f"mail {seed}")
        self.trace: list[str] = []
        # The numbers of the messages from one daemon to another that were acknowledged, and of the last that was sent.
        self._acknowledged: dict[tuple[str, str], set[int]] = {}
        self._sent: Counter[tuple[str, str]] = Counter()

    def run(self) -> None:
        loop = VirtualLoop()
        with mutated(lambda: [(mail, "INBOX_CAPACITY", _CAPACITY), (signatures, "_load", HashedKey)]):
            try:
                task = loop.create_task(self._play())
                if not loop.run_steps(task, _MOST_STEPS):
                    raise Violation(f"it never comes to an end: {loop.describe_tasks()}")
                task.result()
            finally:
                loop.discard()

    async def _play(self) -> None:
        rng = self._rng
        self._broker = MemoryBroker(VirtualClock(), random=rng)
        self._nodes = [MailNode(self._broker, number, rng) for number in range(1, rng.randint(2, 3) + 1)]
        for node in self._nodes:
            await node.start()
            await node.talk(AGENT)
        # They know each other before anything goes wrong.
        await asyncio.sleep(5.0)
        self._broker.faults = self._choose_faults()
        faults = (self._crash, self._crash, self._cut, self._restart_broker, self._crash_both)
        operations = (*[self._send] * 8, *faults, self._wait)
        for _ in range(rng.randint(10, 40)):
            await rng.choice(operations)()
            await asyncio.sleep(rng.choice((0.0, 0.01, 0.05, 0.3, 3.0)))
        await self._settle()
        self._check()
        for node in self._nodes:
            await node.kill()

    def _choose_faults(self) -> Faults:
        def maybe(*values: float) -> float:
            return self._rng.choice((0.0, *values))

        return Faults(
            delay=maybe(0.005, 0.2),
            lost_acknowledgements=maybe(0.1, 0.4),
            duplicates=maybe(0.2),
            lost_receipts=maybe(0.1, 0.3),
            lost_presence=maybe(0.3),
            slowness=maybe(0.1, 2.0),
        )

    def _note(self, text: str) -> None:
        self.trace.append(f"{asyncio.get_running_loop().time():10.3f} {text}")

    # ---- what happens -----------------------------------------------------------------------------

    async def _send(self) -> None:
        sender, receiver = self._rng.sample(self._nodes, 2)
        if sender.is_running:
            count = self._rng.choice((1, 1, 3, 12))
            sender.supervisor.start("send", self._send_some(sender, receiver, count))

    async def _send_some(self, sender: MailNode, receiver: MailNode, count: int) -> None:
        """Send messages one after the other; a crash of the sender ends it anywhere."""
        async with sender.writing[receiver.name]:
            await self._send_in_order(sender, receiver, count)

    async def _send_in_order(self, sender: MailNode, receiver: MailNode, count: int) -> None:
        pair = sender.name, receiver.name
        for _ in range(count):
            self._sent[pair] += 1
            number = self._sent[pair]
            letter = f"{sender.name} {receiver.name} {number}"
            try:
                report = await sender.send(AGENT, f"{AGENT}@{receiver.name}", letter, thread=letter.replace(" ", ":"))
            except MootError:
                continue
            queued = any(reason.startswith("queued") for reason in report.unreachable_reasons)
            if (report.delivered_to or queued) and sender.is_running:
                self._note(f"{letter} is acknowledged{' (queued)' if queued else ''}")
                self._acknowledged.setdefault(pair, set()).add(number)

    async def _crash(self) -> None:
        await self._restart(self._rng.choice(self._nodes), self._rng.choice((0.0, 0.5, 20.0)))

    async def _crash_both(self) -> None:
        self._broker.stop()
        await self._crash()
        await self._restart_broker()

    async def _restart(self, node: MailNode, pause: float) -> None:
        if node.is_running:
            self._note(f"{node.name} crashes")
            await node.kill()
            await asyncio.sleep(pause)
            await node.start()
            self._note(f"{node.name} is back")

    async def _cut(self) -> None:
        node = self._rng.choice(self._nodes)
        self._note(f"{node.name} is cut off")
        self._broker.partition(node.name, notice_after=self._rng.choice((0.0, 1.0)))
        await asyncio.sleep(self._rng.choice((0.1, 2.5, 15.0)))
        self._broker.heal(node.name)

    async def _restart_broker(self) -> None:
        with_data = self._rng.random() < 0.6
        lost = self._rng.choice((0, 0, 1, 5))
        self._note(f"the broker restarts {f'without its last {lost}' if with_data else 'without data'}")
        self._broker.restart(with_data=with_data, lost_tail=lost)

    async def _wait(self) -> None:
        await asyncio.sleep(12.0)

    async def _settle(self) -> None:
        """Let everything come to its end, without faults."""
        self._note("everything is healed")
        self._broker.faults = Faults()
        for node in self._nodes:
            self._broker.heal(node.name)
        until = asyncio.get_running_loop().time() + _MOST_SECONDS
        quiet = 0.0
        while quiet < _QUIET_SECONDS and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(_LOOK_SECONDS)
            quiet = 0.0 if self._has_work() else quiet + _LOOK_SECONDS
        for node in self._nodes:
            # So that every agent is told what became of its mail.
            await node.take_turn()

    def _has_work(self) -> bool:
        """Whether mail is under way, or a daemon does something for it."""
        return self._broker.count_pending() > 0 or any(node.has_work() for node in self._nodes)

    # ---- what must hold ---------------------------------------------------------------------------

    def _check(self) -> None:
        if problems := list(self._list_problems()):
            raise Violation("; ".join(problems[:5]))

    def _list_problems(self) -> Iterator[str]:
        nodes = {node.name: node for node in self._nodes}
        if count := self._broker.count_pending():
            yield f"{count} messages are left in the broker"
        for node in self._nodes:
            for letter in node.list_waiting():
                yield f"{letter!r} is left in the outbox of {node.name}"
            if untold := node.list_untold():
                yield f"{node.name} was not told of {untold}"
            if false := node.list_false_evictions():
                yield f"{node.name} announced that {false} were evicted, which were shown, or announced it twice"
            for kind in (TOLD_SENDER, TOLD_RECEIVER):
                told, stored = node.count_told(kind)
                if told != stored:
                    yield f"{node.name} was told of {told} lost messages, and {stored} are stored as {kind}"
        for (sender, receiver), last in self._sent.items():
            beginning = f"{sender} {receiver} "
            shown = [int(text.split()[2]) for text in nodes[receiver].list_shown() if text.startswith(beginning)]
            dead = Counter(int(text.split()[2]) for text in nodes[sender].list_dead() if text.startswith(beginning))
            if shown != sorted(shown):
                yield f"{sender} → {receiver} was shown in the order {shown}"
            for number in range(1, last + 1):
                times = shown.count(number)
                # Mail that is evicted while a run that was given it shows it was read: its sender is not told.
                if times + dead[number] > 1:
                    yield f"'{beginning}{number}' was shown {times} times and came back {dead[number]} times"
                if number in self._acknowledged.get((sender, receiver), ()) and not times + dead[number]:
                    yield f"'{beginning}{number}' was acknowledged and is lost"
