"""One simulated history: clients of a daemon do what a seed decides, the daemon crashes and starts again, and
checks.py finds what must not happen. Works with world.py."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from moot.domain.approval import Decision
from moot.domain.ask import AskReply
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Fenced, MootError, NotFound
from moot.domain.events import Event, Gap, RunEnded, RunQueued, RunStarted
from moot.domain.run import RunEnd
from moot.multiagent.teammates.run_factory import SpawnRequest
from tests.simulation.records import RecordOperations
from tests.simulation.world import Daemon, World

KEYS = (ConversationKey("moot", "user"), ConversationKey("moot", "tg:1"), ConversationKey("planner", "user"))
GUESTS = ("librarian", "chronicler")
_QUIET_SECONDS = 5.0
# More than any history takes that comes to an end.
_MOST_STEPS = 20_000


class Violation(AssertionError):
    """Something happened that must not."""


@dataclass(slots=True)
class Sent:
    """A message of a client, and what the client was told of it."""

    number: int
    key: ConversationKey
    content: str
    guest: str
    # Whether it is for the active run.
    steers: bool = False
    is_acknowledged: bool = False
    is_retried: bool = False
    # It was asked for, or told.
    is_withdrawing: bool = False
    is_withdrawn: bool = False
    # Its conversation was to be deleted after it was sent.
    is_deleting: bool = False


@dataclass(slots=True)
class Told:
    """All that clients were told, by whichever daemon: none of it may turn out untrue."""

    sent: list[Sent] = field(default_factory=list)
    # By run, with its conversation.
    ends: dict[str, tuple[ConversationKey, RunEnd]] = field(default_factory=dict)
    # By the id of the ask: the answer, or the decision and the attempt it was about.
    answers: dict[str, str] = field(default_factory=dict)
    decisions: dict[str, tuple[Decision, int]] = field(default_factory=dict)
    event_numbers: set[int] = field(default_factory=set)
    untrue: list[str] = field(default_factory=list)


class Scenario:
    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.told = Told()
        self._rng = Random(f"plan {seed}")
        self._clients: list[asyncio.Task[None]] = []
        self.records = records = RecordOperations(self.world, self._rng, KEYS, on_delete=self._mark_deleting)
        self._operations: tuple[Callable[[Daemon], Awaitable[None]], ...] = (
            *[self._say] * 9,
            self._say_to_guest,
            self._retry,
            *[self._answer] * 4,
            *[self._decide] * 6,
            self._kill,
            self._withdraw,
            self._compact,
            self._start_background,
            self._stop_teammate,
            self._reload,
            self._refresh_asks,
            self._wait_long,
            records.import_file,
            records.delete,
            records.trust,
            records.reflect,
            records.expire,
        )

    @property
    def trace(self) -> list[str]:
        return self.world.trace

    def run(self) -> None:
        """Play it to its end.

        Without the garbage collector: it would end abandoned coroutines at a moment that depends on earlier seeds.
        """
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            self._play()
        finally:
            if was_enabled:
                gc.enable()

    def _play(self) -> None:
        from tests.simulation.checks import check_end, check_told

        rng, world = self._rng, self.world
        for _ in range(rng.randint(1, 4)):
            daemon = Daemon(world)
            self.records.deleting.clear()
            how = rng.choice(("crash", "crash", "pause", "stop"))
            steps = rng.choice((rng.randint(1, 60), rng.randint(1, 1_500)))
            task = daemon.loop.create_task(self._live(daemon, stops=how == "stop"))
            if how == "stop":
                self._run_to_end(daemon, task)
            else:
                world.go_on(daemon, task, steps)
            if how == "pause" and not task.done():
                self._take_over(daemon, task)
            world.note(how)
            daemon.crash()
            check_told(self)
        daemon = Daemon(world)
        self.records.deleting.clear()
        self._run_to_end(daemon, daemon.loop.create_task(self._drain(daemon)))
        check_told(self)
        check_end(self)
        daemon.crash()

    def _run_to_end(self, daemon: Daemon, task: "asyncio.Task[None]") -> None:
        if not self.world.go_on(daemon, task, _MOST_STEPS):
            raise Violation(f"it never comes to an end: {daemon.loop.describe_tasks()}")

    def _take_over(self, paused: Daemon, task: "asyncio.Task[None]") -> None:
        """Another daemon starts while the first one is paused, and works a while; then the first one goes on."""
        rng, world = self._rng, self.world
        world.note("paused, and another takes over")
        other = Daemon(world)
        world.run(other, self._live(other, stops=False), rng.randint(1, 800))
        world.note("the paused one goes on")
        world.go_on(paused, task, rng.randint(1, 300))
        world.note("the paused one and the other crash")
        other.crash()

    async def _live(self, daemon: Daemon, *, stops: bool) -> None:
        try:
            await daemon.start()
        except (Fenced, NotFound) as error:
            # It was paused while it started, and another has taken over, and may have deleted what this one knew.
            if daemon.number == self.world.daemons:
                raise
            self.world.note(f"does not start: {error.message}")
            return
        self.world.note("started")
        self._watch(daemon)
        for _ in range(self._rng.randint(2, 12)):
            operation = self._rng.choice(self._operations)
            self._clients.append(asyncio.get_running_loop().create_task(self._perform(operation, daemon)))
            await asyncio.sleep(self._rng.choice((0.0, 0.0, 0.03, 0.5, 4.0)))
        if stops:
            await daemon.shut_down()

    def _watch(self, daemon: Daemon) -> None:
        told, events = self.told, self.world.events

        def read(event: Event | Gap) -> None:
            if daemon.is_dead or isinstance(event, Gap):
                return
            if event.seq in told.event_numbers:
                told.untrue.append(f"event {event.seq} was published twice")
            told.event_numbers.add(event.seq)
            events.append(f"{event.seq} {event.at:.3f} {event.source.run_id} {event.body!r}")

        daemon.bus.subscribe(read)

    async def _perform(self, operation: Callable[[Daemon], Awaitable[None]], daemon: Daemon) -> None:
        try:
            await operation(daemon)
        except MootError as error:
            self.world.note(f"{operation.__name__} is refused: {error.message}")

    # ---- what clients do --------------------------------------------------------------------------

    async def _say(self, daemon: Daemon) -> None:
        await self._submit(daemon, self._new_message(""))

    async def _say_to_guest(self, daemon: Daemon) -> None:
        await self._submit(daemon, self._new_message(self._rng.choice(GUESTS)))

    def _new_message(self, guest: str) -> Sent:
        number = len(self.told.sent) + 1
        key = self._rng.choice(KEYS)
        sent = Sent(number=number, key=key, content=f"message {number}.", guest=guest)
        # It may be sent just before the conversation is gone, or just after.
        sent.is_deleting = key in self.records.deleting
        self.told.sent.append(sent)
        return sent

    def _mark_deleting(self, key: ConversationKey) -> None:
        for sent in self.told.sent:
            sent.is_deleting |= sent.key == key

    async def _retry(self, daemon: Daemon) -> None:
        if self.told.sent:
            sent = self._rng.choice(self.told.sent)
            sent.is_retried = True
            sent.is_deleting |= sent.key in self.records.deleting
            await self._submit(daemon, sent)

    async def _submit(self, daemon: Daemon, sent: Sent) -> None:
        runtime, note = daemon.runtime, self.world.note
        note(f"sends {sent.content!r} to {sent.key} {sent.guest}")
        request = await runtime.requests.turn(
            sent.key, sent.content, guest=sent.guest, client_message_id=f"client-{sent.number}"
        )
        stream = await runtime.runs.submit(request, steer=sent.steers)

        def read(item: Event | MootError) -> None:
            if daemon.is_dead:
                return
            if isinstance(item, MootError):
                note(f"{sent.content!r} failed: {item.message}")
            elif item.source.run_id != stream.source.run_id:
                return
            elif isinstance(item.body, RunStarted | RunQueued):
                sent.is_acknowledged = True
            elif isinstance(item.body, RunEnded):
                note(f"{sent.content!r} ended: {item.source.run_id} {item.body.end.outcome} {item.body.end.error}")
                if "taken over" not in item.body.end.error:
                    self.told.ends[item.source.run_id] = (sent.key, item.body.end)

        stream.subscribe(read)

    async def _answer(self, daemon: Daemon) -> None:
        questions = [ask for ask in await daemon.runtime.asks.list_pending() if ask.is_question]
        if questions:
            key = self._rng.choice(questions).key
            answer = f"answer at {self.world.now}"
            answered = await daemon.runtime.asks.answer(key, AskReply(content=answer, by="owner"))
            self.world.note(f"answered {answered.id}")
            if answered.id in self.told.answers:
                self.told.untrue.append(f"{answered.id} was answered twice")
            self.told.answers[answered.id] = answer

    async def _decide(self, daemon: Daemon) -> None:
        pending = [ask for ask in await daemon.runtime.asks.list_pending() if not ask.is_question]
        if pending:
            ask = self._rng.choice(pending)
            decision = self._rng.choice((Decision.ONCE, Decision.ONCE, Decision.DENY, Decision.RUN))
            decided = await daemon.runtime.asks.decide(ask.id, attempt=ask.attempt, decision=decision, by="owner")
            self.world.note(f"decided {decided.id} attempt {ask.attempt}: {decision}")
            if self.told.decisions.get(ask.id, (None, 0))[1] == ask.attempt:
                self.told.untrue.append(f"{ask.id} was decided twice")
            self.told.decisions[ask.id] = (decision, ask.attempt)

    async def _kill(self, daemon: Daemon) -> None:
        key = self._rng.choice(KEYS)
        self.world.note(f"kills {key}: {daemon.runtime.runs.kill(key)}")

    async def _withdraw(self, daemon: Daemon) -> None:
        key = self._rng.choice(KEYS)
        waiting = [sent for sent in self.told.sent if sent.key == key]
        for sent in waiting:
            sent.is_withdrawing = True
        withdrawn = await daemon.runtime.runs.withdraw(key)
        self.world.note(f"withdrew {withdrawn.content!r}")
        for sent in waiting:
            sent.is_withdrawn |= sent.content == withdrawn.content and not sent.is_retried

    async def _compact(self, daemon: Daemon) -> None:
        archive = await daemon.runtime.runs.compact(self._rng.choice(KEYS))
        self.world.note(f"compacted up to {archive.last_seq}")

    async def _start_background(self, daemon: Daemon) -> None:
        number = len(self.world.trace)
        asked = SpawnRequest(agent="operator", instruction=f"background {number}")
        run = await daemon.runtime.teammates.start(asked, owner="user", cwd="", client_message_id=f"start-{number}")
        self.world.note(f"started {run.id} in the background")

    async def _stop_teammate(self, daemon: Daemon) -> None:
        live = daemon.runtime.teammates.local_runs()
        if live:
            run = self._rng.choice(live)
            self.world.note(f"stops {run.id}")
            await daemon.runtime.teammates.stop(run.id, only=self._rng.random() < 0.3)

    async def _reload(self, _daemon: Daemon) -> None:
        config = self.world.config
        agent = replace(config.current.agent, max_running=self._rng.choice((1, 2, 16)))
        config.current = replace(config.current, agent=agent)
        self.world.note(f"reloads: {agent.max_running} teammates at once")

    async def _refresh_asks(self, daemon: Daemon) -> None:
        """What a daemon does every few seconds: one that was paused learns which of its runs were taken over."""
        await daemon.runtime.asks.refresh_all()

    async def _wait_long(self, _daemon: Daemon) -> None:
        await asyncio.sleep(self._rng.choice((100.0, 4_000.0)))

    # ---- to the end -------------------------------------------------------------------------------

    async def _drain(self, daemon: Daemon) -> None:
        """Decide and answer everything until nothing goes on any more."""
        await daemon.start()
        self.world.note("started for the last time")
        self._watch(daemon)
        runtime = daemon.runtime
        # Where there are schedules, one task waits for the next of them for ever; all are due within a minute.
        standing = int(self.world.automates)
        if standing:
            await asyncio.sleep(60.0)
        while runtime.runs.local_lanes() or runtime.teammates.local_runs() or len(daemon.supervisor) > standing:
            for operation in (self._answer, self._decide):
                await self._perform(operation, daemon)
            await asyncio.sleep(_QUIET_SECONDS)
