"""What mail between agents costs in one daemon: messages per second, and what many goals cost."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.subject import Daemon, make_home
from moot.daemon.app import running
from moot.daemon.paths import Paths
from moot.domain.conversation import ConversationKey
from moot.domain.ports.storage import Storage
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.multiagent.peers.letter import Letter
from moot.multiagent.peers.mail_sender import MailSender
from moot.redaction.redactor import Redactor

MANY_GOALS = 10_000
_FEW_GOALS = 10
_SENDERS = 64
# A goal is sent fewer messages in all than its inbox holds, so that none is evicted.
_RATE_GOALS = 1_000
_ROUNDS = 5
_LATENCIES = 30
_IDLE_SECONDS = 2.0
# How many conversations are made at once.
_TOGETHER = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class MailCost:
    """One repeat: messages per second by store, seconds for one message by number of goals, and what goals cost."""

    rates: dict[str, float]
    among_few: list[float]
    among_many: list[float]
    bytes_per_goal: float
    idle_cpu: float


async def measure_mail(folder: Path, base: str) -> MailCost:
    rates = {}
    for kind in ("memory", "sqlite"):
        async with AsyncExitStack() as stack:
            sender, goals = await _open(stack, folder / f"rate-{kind}", base, kind, _RATE_GOALS)
            rates[kind] = await _measure_rate(sender, goals)
    latencies = []
    for count in (_FEW_GOALS, MANY_GOALS):
        async with AsyncExitStack() as stack:
            sender, goals = await _open(stack, folder / f"goals-{count}", base, "sqlite", count)
            latencies.append([await _measure_one(sender, goals, number) for number in range(_LATENCIES)])
    (few, _), (many, idle) = [await _measure_idle(folder / f"goals-{count}") for count in (_FEW_GOALS, MANY_GOALS)]
    return MailCost(
        rates=rates,
        among_few=latencies[0],
        among_many=latencies[1],
        bytes_per_goal=(many - few) * 1e6 / MANY_GOALS,
        idle_cpu=idle,
    )


async def _open(
    stack: AsyncExitStack, home: Path, base: str, kind: str, count: int
) -> tuple[MailSender, Sequence[str]]:
    """Start a daemon with as many goals as that."""
    config = make_home(home, base) / "config.toml"
    # Several daemons are open at the same time.
    more = f'[store]\nkind = "{kind}"\n[listen]\ntcp = "off"\nhttp = "off"\n'
    config.write_text(f"{config.read_text()}\n{more}")
    daemon = await stack.enter_async_context(running(Paths.under(home), Redactor()))
    return daemon.runtime.peers.sender, await have_conversations(daemon.storage, count)


async def have_conversations(storage: Storage, count: int) -> list[str]:
    """Have as many conversations with one agent, and return their goals."""
    keys = [ConversationKey("bench", f"sender-{number}") for number in range(count)]
    # Not one by one, so that they share commits.
    for start in range(0, count, _TOGETHER):
        async with asyncio.TaskGroup() as group:
            for key in keys[start : start + _TOGETHER]:
                group.create_task(_have_conversation(storage, key))
    return [goal.id for goal in await storage.mail.list_goals(agent="bench", since=0.0, limit=count)]


async def _have_conversation(storage: Storage, key: ConversationKey) -> None:
    run_id = f"run-{key.sender}"
    await storage.store.begin(RunRequest(id=run_id, key=key, speaker=key.agent, content="hello"), now=time.time())
    await storage.store.end(key, run_id, RunEnd(outcome=Outcome.COMPLETED), [], now=time.time())


def make_origin(number: int) -> str:
    """Return an id as that of a run, one each millisecond."""
    return f"run-01k{number:07d}0000000000"


async def _send(sender: MailSender, goal: str, number: int) -> None:
    root = ConversationKey("bench", "sender-0")
    letter = Letter(
        origin=(make_origin(number), ""),
        from_agent="tools",
        from_goal="",
        root=root,
        to="bench",
        body="Task 1 is ready for handoff.",
        goal_id=goal,
        emit=lambda _event: None,
    )
    report = await sender.send(letter)
    if not report.delivered_to:
        raise RuntimeError(f"mail was not delivered: {report.unreachable_reasons}")


async def _measure_rate(sender: MailSender, goals: Sequence[str]) -> float:
    numbers = iter(range(_ROUNDS * len(goals)))

    async def send_some() -> None:
        for number in numbers:
            await _send(sender, goals[number % len(goals)], number)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(_SENDERS):
            group.create_task(send_some())
    return _ROUNDS * len(goals) / (time.perf_counter() - started)


async def _measure_one(sender: MailSender, goals: Sequence[str], number: int) -> float:
    started = time.perf_counter()
    await _send(sender, goals[number % len(goals)], number)
    return time.perf_counter() - started


async def _measure_idle(home: Path) -> tuple[float, float]:
    """Start a daemon on a home that has goals; return its megabytes, and its CPU use while nothing happens."""
    daemon = await Daemon.start(home)
    try:
        before, samples = daemon.cpu(), []
        for _ in range(4):
            await asyncio.sleep(_IDLE_SECONDS / 4)
            samples.append(daemon.rss())
        return statistics.median(samples), (daemon.cpu() - before) / _IDLE_SECONDS
    finally:
        await daemon.stop()
