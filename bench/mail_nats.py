"""What mail between two daemons over NATS costs: messages per second beside raw nats-py, and until it is stored."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import nats
from nats.js import JetStreamContext

from bench.broker import measure_rate, measure_raw
from bench.mail import have_conversations
from bench.subject import Daemon, make_home
from moot.broker.nats_server import LocalServer
from moot.broker.nats_stream import STREAM
from moot.daemon import app
from moot.daemon.paths import Paths
from moot.domain.conversation import ConversationKey
from moot.domain.events import MailDelivered
from moot.multiagent.peers.letter import Letter
from moot.multiagent.peers.mail_sender import MailSender
from moot.redaction.redactor import Redactor

_MESSAGES = 10_000
# Each is sent fewer messages than its inbox holds, so that none is evicted.
_GOALS = 256
_LATENCIES = 200
_LOOK_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsMailCost:
    """Messages per second by raw nats-py and by two daemons, and seconds from sending until the receiver stored it."""

    raw: float
    rate: float
    latency: float


async def measure_nats_mail(folder: Path, base: str) -> NatsMailCost:
    server = LocalServer(folder / "nats")
    await asyncio.to_thread(server.start)
    try:
        desk, laptop = (_furnish(folder / name, base, server.url, name) for name in ("desk", "laptop"))
        async with AsyncExitStack() as stack:
            sending = await stack.enter_async_context(app.running(Paths.under(desk), Redactor()))
            sender = sending.runtime.peers.sender
            async with app.running(Paths.under(laptop), Redactor()) as receiving:
                goals = await have_conversations(receiving.storage, _GOALS)
                await _wait_until_known(sending)
                latency = await _measure_latency(sender, receiving, goals)
            # In a process of its own, as it is on another machine; the raw client has nobody beside it either.
            receiver = await Daemon.start(laptop)
            stack.push_async_callback(receiver.stop)
            await _wait_until_known(sending)
            client = await nats.connect(server.url)
            stack.push_async_callback(client.close)
            rate = await _measure_rate(sender, client.jetstream(), goals)
            raw = await measure_raw(server.url)
            return NatsMailCost(raw=raw, rate=rate, latency=latency)
    finally:
        await asyncio.to_thread(server.stop)


def _furnish(home: Path, base: str, url: str, name: str) -> Path:
    config = make_home(home, base) / "config.toml"
    config.write_text(f'{config.read_text()}\n[broker]\nurl = "{url}"\nname = "{name}"\n')
    return home


async def _wait_until_known(daemon: app.Daemon) -> None:
    """Wait until the agents of the other daemon can be written to."""
    directory = daemon.runtime.peers.directory
    while True:
        peers = directory.find_remote("bench@laptop")
        if peers and not directory.explain_remote_refusal(None, peers[0]):
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _send(sender: MailSender, goal: str, number: str) -> None:
    letter = Letter(
        origin=(f"bench-{number}", ""),
        from_agent="@bench",
        from_goal="",
        root=ConversationKey("bench", "sender-0"),
        to="bench@laptop",
        body="Task 1 is ready for handoff.",
        goal_id=goal,
        emit=lambda _event: None,
    )
    report = await sender.send(letter)
    if not report.delivered_to:
        raise RuntimeError(f"mail was not delivered: {report.unreachable_reasons}")


async def _measure_latency(sender: MailSender, receiving: app.Daemon, goals: Sequence[str]) -> float:
    is_stored = asyncio.Event()
    stop = receiving.bus.observe(lambda _event: is_stored.set(), MailDelivered)
    latencies = []
    for number in range(_LATENCIES):
        is_stored.clear()
        started = time.perf_counter()
        sending = asyncio.create_task(_send(sender, goals[number % len(goals)], f"latency-{number}"))
        await is_stored.wait()
        latencies.append(time.perf_counter() - started)
        await sending
    stop()
    return statistics.median(latencies)


async def _measure_rate(sender: MailSender, jetstream: JetStreamContext, goals: Sequence[str]) -> float:
    """Return how many messages per second are sent and stored: the server drops what the receiver acknowledged."""
    started = time.perf_counter()
    await measure_rate(lambda number: _send(sender, goals[number % len(goals)], f"rate-{number}"), _MESSAGES)
    while (await jetstream.stream_info(STREAM)).state.messages:  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(_LOOK_SECONDS)
    return _MESSAGES / (time.perf_counter() - started)
