"""What mail between two daemons over NATS costs: messages per second beside raw nats-py, and until it is stored.

A mail counts when it is in the store of the receiver; both stores have synced it. For nats-py a message counts when
another process has received and acknowledged it; nothing waits for a disk. The two send in turns, each from a process
of its own (mail_nats_load.py) and with as many messages under way. Beside it, nats-py that only publishes, also with a
server that syncs each message.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nats
from nats.js import JetStreamContext

from bench.broker import RAW_STREAM
from bench.mail import have_conversations
from bench.mail_nats_load import LOOK_SECONDS, send_mail, wait_until_known
from bench.subject import Daemon, cpu_seconds, make_home
from moot.broker.nats_server import LocalServer
from moot.broker.nats_stream import STREAM
from moot.daemon import app
from moot.daemon.paths import Paths
from moot.domain.events import MailDelivered
from moot.multiagent.peers.mail_sender import MailSender
from moot.redaction.redactor import Redactor

_MESSAGES = 5_000
_ROUNDS = 3
_SYNCED_MESSAGES = 500
# Each is sent fewer messages in all than its inbox holds, so that none is evicted.
_GOALS = 256
_LATENCIES = 200
# No other message has this number or a later one.
_FIRST_LATENCY = 9_000_000


@dataclass(slots=True, kw_only=True)
class NatsMailCost:
    """For each round the messages per second; CPU seconds for a message by process; seconds until one is stored."""

    raw: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    # By nats-py while nobody receives.
    published: list[float] = field(default_factory=list)
    # By nats-py with a server that syncs each message before it acknowledges it.
    synced: float = 0.0
    cpu: dict[str, list[float]] = field(default_factory=dict)
    latency: float = 0.0


class _Load:
    """A process of mail_nats_load.py."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def exchange(self, numbers: range) -> tuple[float, float]:
        """Have it send or receive messages; return when it began, by the clock of all processes, and what it took."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{numbers.start} {numbers.stop}\n".encode())
        answer = json.loads(await self.read_line())
        return answer["began"], answer["seconds"]

    async def read_line(self) -> bytes:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("a process that exchanges messages has ended")
        return line

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


@asynccontextmanager
async def _start_load(*command: str) -> AsyncIterator[_Load]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.mail_nats_load", *command,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    load = _Load(process)
    try:
        while b"ready" not in await load.read_line():
            pass
        yield load
    finally:
        await load.stop()


async def measure_nats_mail(folder: Path, base: str, messages: int = _MESSAGES) -> NatsMailCost:
    server = LocalServer(folder / "nats")
    await asyncio.to_thread(server.start)
    try:
        desk, laptop = (_furnish(folder / name, base, server.url, name) for name in ("desk", "laptop"))
        cost = NatsMailCost()
        goals = await _measure_latency(desk, laptop, cost)
        (folder / "goals.json").write_text(json.dumps(goals), encoding="utf-8")
        async with AsyncExitStack() as stack:
            receiver = await Daemon.start(laptop)
            stack.push_async_callback(receiver.stop)
            mail = await stack.enter_async_context(_start_load("mail", str(desk), str(folder / "goals.json")))
            raw = await stack.enter_async_context(_start_load("raw", server.url))
            reader = await stack.enter_async_context(_start_load("receive", server.url))
            client = await nats.connect(server.url)
            stack.push_async_callback(client.close)
            assert server.process is not None
            rounds = _Rounds(cost, mail, raw, reader, client.jetstream(), receiver.pid, server.process.pid)
            for number in range(_ROUNDS):
                await rounds.measure(number * messages, messages)
        cost.synced = await _measure_synced(folder / "synced")
        return cost
    finally:
        await asyncio.to_thread(server.stop)


class _SyncedServer(LocalServer):
    """A server that acknowledges a message after its disk has it, as a daemon does."""

    def _list_options(self) -> list[str]:
        config = self.folder / "nats-server.conf"
        config.write_text(f'jetstream {{ store_dir: "{self.folder}", sync_interval: always }}\n', encoding="utf-8")
        return ["-c", str(config)]


async def _measure_synced(folder: Path) -> float:
    server = _SyncedServer(folder)
    await asyncio.to_thread(server.start)
    try:
        async with _start_load("raw", server.url) as raw:
            _, seconds = await raw.exchange(range(_SYNCED_MESSAGES))
            return _SYNCED_MESSAGES / seconds
    finally:
        await asyncio.to_thread(server.stop)


def _furnish(home: Path, base: str, url: str, name: str) -> Path:
    config = make_home(home, base) / "config.toml"
    more = f'[broker]\nurl = "{url}"\nname = "{name}"\n[listen]\ntcp = "off"\nhttp = "off"\n'
    config.write_text(f"{config.read_text()}\n{more}")
    return home


@dataclass(frozen=True, slots=True)
class _Rounds:
    """What is measured in turns: nats-py that publishes, nats-py between two processes, and mail."""

    cost: NatsMailCost
    mail: _Load
    raw: _Load
    reader: _Load
    jetstream: JetStreamContext
    receiver: int
    server: int

    async def measure(self, first: int, count: int) -> None:
        # Twice as many raw messages as mail, and none with the number of an earlier one: NATS would drop it.
        published, relayed = range(2 * first, 2 * first + count), range(2 * first + count, 2 * (first + count))
        async with self._measure_cpu("publish.", count, sender=self.raw.pid, server=self.server):
            _, seconds = await self.raw.exchange(published)
        self.cost.published.append(count / seconds)
        await self.jetstream.purge_stream(RAW_STREAM)
        pids = {"sender": self.raw.pid, "receiver": self.reader.pid, "server": self.server}
        async with self._measure_cpu("raw.", count, **pids), asyncio.TaskGroup() as group:
            group.create_task(self.reader.exchange(relayed))
            self.cost.raw.append(await self._measure_rate(self.raw, relayed, RAW_STREAM))
        async with self._measure_cpu("", count, sender=self.mail.pid, receiver=self.receiver, server=self.server):
            self.cost.rate.append(await self._measure_rate(self.mail, range(first, first + count), STREAM))

    async def _measure_rate(self, load: _Load, numbers: range, stream: str) -> float:
        """Have messages sent; return those per second until each has been in the stream and was acknowledged there.

        The server drops what is acknowledged. That the stream is empty is not enough: a receiver that keeps up empties
        it while messages still wait in the outbox of the sender.
        """
        last = (await self.jetstream.stream_info(stream)).state.last_seq + len(numbers)
        began, _ = await load.exchange(numbers)
        while (  # noqa: ASYNC110 - the server tells nobody
            state := (await self.jetstream.stream_info(stream)).state
        ).messages or state.last_seq < last:
            await asyncio.sleep(LOOK_SECONDS)
        return len(numbers) / (time.monotonic() - began)

    @asynccontextmanager
    async def _measure_cpu(self, kind: str, count: int, **pids: int) -> AsyncIterator[None]:
        """Note what each process takes for one of so many messages."""
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        yield
        for name, pid in pids.items():
            self.cost.cpu.setdefault(kind + name, []).append((cpu_seconds(pid) - before[name]) / count)


async def _measure_latency(desk: Path, laptop: Path, cost: NatsMailCost) -> list[str]:
    """Measure the time until a mail is stored, with both daemons in this process; return the goals of the receiver."""
    async with AsyncExitStack() as stack:
        sending = await stack.enter_async_context(app.running(Paths.under(desk), Redactor()))
        receiving = await stack.enter_async_context(app.running(Paths.under(laptop), Redactor()))
        goals = await have_conversations(receiving.storage, _GOALS)
        await wait_until_known(sending)
        cost.latency = await _measure_latencies(sending.runtime.peers.sender, receiving, goals)
    return goals


async def _measure_latencies(sender: MailSender, receiving: app.Daemon, goals: Sequence[str]) -> float:
    is_stored = asyncio.Event()
    stop = receiving.bus.observe(lambda _event: is_stored.set(), MailDelivered)
    latencies = []
    for number in range(_LATENCIES):
        is_stored.clear()
        started = time.perf_counter()
        sending = asyncio.create_task(send_mail(sender, goals[number % len(goals)], _FIRST_LATENCY + number))
        await is_stored.wait()
        latencies.append(time.perf_counter() - started)
        await sending
    stop()
    return statistics.median(latencies)
