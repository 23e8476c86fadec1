"""One cycle with two daemons on a NATS server: one of the three is killed under a stream of mail, which is checked.

Every message has a text of its own, with the name of its stream and a number; each stream is sent in order.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from shutil import rmtree

from moot.domain.errors import MootError
from moot.domain.mail import MAIL_AUTHOR
from moot.failpoint import PEER_POINTS
from moot.wire import moot_pb2 as pb
from tests.chaos.daemon import Mortal
from tests.chaos.ledger import lost
from tests.daemon_process import Home
from tests.nats_server import NatsServer
from tests.scripting import call, say, script
from tests.talking import Talking

BROKER, DESK, LAPTOP = "broker", "desk", "laptop"
SETTLE_SECONDS = 30.0
_AGENTS = {DESK: "ada", LAPTOP: "bob"}
_MESSAGES = 8
_TEXT = re.compile(r"^([a-z]+-[a-z]+)-(\d+)$", re.MULTILINE)
_CONFIG = """default_model = "scripted"
[models.scripted]
provider = "scripted"
script = "script.toml"
[listen]
tcp = "off"
http = "off"
[broker]
url = "{url}"
name = "{name}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Messages of one sender to one agent: of a person, or of an agent in its turns."""

    name: str
    daemon: str
    to: str
    receiver: str
    is_agent: bool = False


STREAMS = (
    Stream(name="desk-person", daemon=DESK, to="bob@laptop", receiver=LAPTOP),
    Stream(name="laptop-person", daemon=LAPTOP, to="ada@desk", receiver=DESK),
    Stream(name="desk-agent", daemon=DESK, to="bob@laptop", receiver=LAPTOP, is_agent=True),
    Stream(name="laptop-agent", daemon=LAPTOP, to="ada@desk", receiver=DESK, is_agent=True),
    Stream(name="desk-local", daemon=DESK, to="ada", receiver=DESK),
)


@dataclass(slots=True, kw_only=True)
class PeerCycle:
    """What was killed and what came of it. Without a point it was killed at a random moment."""

    number: int
    target: str
    point: str = ""
    passes: int = 1
    reached: bool = False
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        where = f"{self.point}:{self.passes}" if self.point else "a random moment"
        return f"cycle {self.number}, {self.target} at {where}"


class MailLedger:
    """The messages of all streams, and what their senders were told about them."""

    def __init__(self) -> None:
        self._next = dict.fromkeys((stream.name for stream in STREAMS), 0)
        self.accepted: set[tuple[str, int]] = set()
        self.refused: set[tuple[str, int]] = set()

    def take_number(self, stream: Stream) -> int:
        self._next[stream.name] += 1
        return self._next[stream.name]

    def note(self, stream: Stream, number: int, delivered: bool, reasons: str) -> None:
        """A message is sent if it was delivered or queued; otherwise it must never be shown."""
        kept = self.accepted if delivered or "queued for goal" in reasons else self.refused
        kept.add((stream.name, number))

    def check(self, shown: list[tuple[str, int]], dead: set[tuple[str, int]]) -> list[str]:
        """Compare with what a receiver was shown, in its order, and with messages that were given back."""
        names = {stream.name for stream in STREAMS}
        problems = [f"{name}-{number} was never sent" for name, number in shown if name not in names]
        doubled = {each for each in shown if shown.count(each) > 1}
        problems += [f"{name}-{number} was shown twice" for name, number in sorted(doubled)]
        problems += [f"{name}-{number} was lost" for name, number in sorted(self.accepted - {*shown} - dead)]
        problems += [f"{name}-{number} was refused, and shown" for name, number in sorted(self.refused & {*shown})]
        for name in sorted(names):
            numbers = [number for each, number in shown if each == name]
            if numbers != sorted(numbers):
                problems.append(f"{name} was shown in another order: {numbers}")
        return problems


def _write_home(home: Home, name: str, url: str) -> Home:
    agent = _AGENTS[name]
    (to,) = {stream.to for stream in STREAMS if stream.daemon == name and stream.is_agent}
    rule = {
        "match": r"^write (?P<text>[a-z]+-agent-\d+)\Z",
        "steps": [call("send_to_peer", to=to, message="{text}"), say("Written.")],
    }
    home.furnish(script=script(rule, {"reply": "Read."}), config=_CONFIG.format(url=url, name=name), agents=())
    front = f"name: {agent}\ndescription: {agent} of the tests\nallowed_delegates: ['*']\naccept_delegates_from: ['*']"
    path = home.path / "agents" / agent / "AGENT.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{front}\nwake: true\n---\nYou are {agent}.\n", encoding="utf-8")
    return home


class PeerArena:
    """A NATS server and two daemons through many cycles; new homes every so often keep them quick."""

    def __init__(self, path: Path, seed: int, *, generation: int = 20) -> None:
        self._path = path
        self._seed = seed
        self._generation = generation
        self._cycles = 0
        self._begun = 0
        self._daemons: dict[str, Mortal] = {}
        self.accepted = 0
        self.losses = 0
        self._begin()

    def __enter__(self) -> "PeerArena":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _begin(self) -> None:
        self._begun += 1
        self._cycles = 0
        self._folder = self._path / f"homes-{self._begun}"
        self._server = NatsServer(self._folder / "nats")
        self._server.start()
        self._homes = {name: _write_home(Home(self._folder / name), name, self._server.url) for name in (DESK, LAPTOP)}
        self.ledger = MailLedger()

    def _stop(self) -> None:
        for daemon in self._daemons.values():
            daemon.kill_9()
        self._daemons.clear()
        self._server.kill()

    def cycle(self, number: int, target: str, point: str = "", passes: int = 1) -> PeerCycle:
        if self._cycles >= self._generation:
            self._stop()
            rmtree(self._folder, ignore_errors=True)
            self._begin()
        self._cycles += 1
        done = PeerCycle(number=number, target=target, point=point, passes=passes)
        before = len(self.ledger.accepted)
        asyncio.run(self._run(done, Random(f"{self._seed}/{number}")))
        self.accepted += len(self.ledger.accepted) - before
        if done.problems:
            # What follows on broken homes would only repeat it; they are kept for whoever looks.
            self._stop()
            self._begin()
        return done

    async def _run(self, done: PeerCycle, rng: Random) -> None:
        try:
            self._start_all()
            await self._meet()
            await self._kill_under_load(done, rng)
            self._start_all()
            await self._settle()
            await self._check(done)
        except (MootError, AssertionError, TimeoutError) as error:
            done.problems.append(f"{type(error).__name__}: {error}")

    def _start_all(self) -> None:
        if self._server.process is None:
            self._server.start()
        for name, home in self._homes.items():
            daemon = self._daemons.get(name)
            if daemon is not None and daemon.process.poll() is not None:
                daemon.reap()
                daemon = None
            self._daemons[name] = daemon or self._launch(home)

    def _launch(self, home: Home) -> Mortal:
        daemon = Mortal.launch(home)
        assert daemon is not None, "no failpoint was set"
        return daemon

    # ---- the kill -------------------------------------------------------------------------------

    async def _meet(self) -> None:
        """Wait until each daemon knows the goal of the other."""
        async with AsyncExitStack() as stack:
            talks = {name: await stack.enter_async_context(each.client()) for name, each in self._daemons.items()}
            for name, talk in talks.items():
                if not (await talk.ask(list_goals=pb.ListGoalsMsg(agent=_AGENTS[name]))).goals.goals:
                    await talk.say(_AGENTS[name], "hello")
            for talk in talks.values():
                await _until(partial(_knows_other, talk), "the daemons did not find each other")

    async def _kill_under_load(self, done: PeerCycle, rng: Random) -> None:
        if done.point:
            self._daemons[done.target].arm(f"{done.point}:{done.passes}")
        async with asyncio.TaskGroup() as group:
            for stream in STREAMS:
                group.create_task(self._send(stream))
            if not done.point:
                group.create_task(self._kill_at_random(done, rng))
            elif rng.random() < 0.25:
                group.create_task(self._kill_broker(rng))
        if done.point:
            done.reached = self._daemons[done.target].died_by_itself
            # A point that was not reached is forgotten with its process.
            self._daemons[done.target].kill_9()

    async def _kill_at_random(self, done: PeerCycle, rng: Random) -> None:
        if done.target == BROKER:
            await self._kill_broker(rng)
        else:
            await asyncio.sleep(rng.uniform(0.0, 0.4))
            process = self._daemons[done.target].process
            process.kill()
            await asyncio.to_thread(process.wait, SETTLE_SECONDS)
        done.reached = True

    async def _kill_broker(self, rng: Random) -> None:
        """Kill it and start it again, now and then without anything it had stored."""
        await asyncio.sleep(rng.uniform(0.0, 0.4))
        await asyncio.to_thread(self._server.kill)
        if rng.random() < 0.3:
            self.losses += 1
            self._server.lose_data()
        await asyncio.sleep(rng.uniform(0.0, 0.3))
        await asyncio.to_thread(self._server.start)

    async def _send(self, stream: Stream) -> None:
        """Send one message after the other until all are sent or the daemon is gone."""
        with suppress(TimeoutError):
            try:
                async with self._daemons[stream.daemon].client() as talk:
                    for _ in range(_MESSAGES):
                        number = self.ledger.take_number(stream)
                        await (self._write_turn if stream.is_agent else self._post)(talk, stream, number)
            except MootError as error:
                if not lost(error):
                    raise

    async def _post(self, talk: Talking, stream: Stream, number: int) -> None:
        request = pb.SendMailMsg(agent=stream.to, content=f"{stream.name}-{number}")
        report = (await talk.ask(send_mail=request)).mail_report
        self.ledger.note(stream, number, bool(report.delivered_to), " ".join(report.unreachable_reasons))

    async def _write_turn(self, talk: Talking, stream: Stream, number: int) -> None:
        """Have the agent write in a turn: its result tells what became of the message."""
        speech = talk.start(_AGENTS[stream.daemon], f"write {stream.name}-{number}")
        try:
            await speech.end()
        finally:
            for result in speech.of("tool_result"):
                self.ledger.note(stream, number, '"delivered_to":[]' not in result.output, result.output)

    # ---- and after ------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Wait until all mail has arrived and every run has ended; then have the agents read what is left."""
        async with AsyncExitStack() as stack:
            talks = {name: await stack.enter_async_context(each.client()) for name, each in self._daemons.items()}
            for name, talk in talks.items():
                await _until(talk.is_idle, f"{name} is still active")
                await _until(partial(_has_empty_outbox, talk), f"mail is still in the outbox of {name}")
            for name, talk in talks.items():
                await _until(talk.is_idle, f"{name} is still active")
                while await _count_unread(talk):
                    await talk.say(_AGENTS[name], "any news?")

    async def _check(self, done: PeerCycle) -> None:
        shown: list[tuple[str, int]] = []
        dead: set[tuple[str, int]] = set()
        for name, daemon in self._daemons.items():
            async with daemon.client() as talk:
                for _, author, text in await talk.told(_AGENTS[name], all=True):
                    if author == MAIL_AUTHOR:
                        shown += [(found[1], int(found[2])) for found in _TEXT.finditer(text)]
                for each in (await talk.ask(list_dead_mail=pb.ListDeadMailMsg())).dead_mail.mail:
                    dead |= {(found[1], int(found[2])) for found in _TEXT.finditer(each.mail.body)}
                findings = (await talk.ask(check=pb.CheckMsg())).checked.findings
                done.problems += [f"{name}: {each.message}" for each in findings if each.level == "error"]
        done.problems += self.ledger.check(shown, dead)


async def _knows_other(talk: Talking) -> bool:
    peers = (await talk.ask(list_peers=pb.ListPeersMsg())).peers.peers
    return any(peer.daemon and peer.goals for peer in peers)


async def _has_empty_outbox(talk: Talking) -> bool:
    return not (await talk.ask(list_outbox=pb.ListOutboxMsg())).outbox.total


async def _count_unread(talk: Talking) -> int:
    return sum(goal.unread for goal in (await talk.ask(list_goals=pb.ListGoalsMsg())).goals.goals)


async def _until(condition: Callable[[], Awaitable[bool]], complaint: str) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, complaint
        await asyncio.sleep(0.01)


def plan(cycles: int, seed: int, points: tuple[str, ...] = PEER_POINTS) -> list[tuple[str, str, int]]:
    """Return target, point and pass of each cycle: half of them at named points, the others at random moments."""
    named = [
        (target, point, 1 + round_ % 4)
        for round_ in range(cycles // (2 * len(points)) + 1)
        for point in points
        # Mail within one daemon is sent on the desk.
        for target in ((DESK,) if point.endswith(".mail") else (DESK, LAPTOP))
    ]
    at_random = [(target, "", 1) for target in (BROKER, DESK, LAPTOP)]
    planned = [at_random[number // 2 % 3] if number % 2 else named.pop(0) for number in range(cycles)]
    Random(seed).shuffle(planned)
    return planned
