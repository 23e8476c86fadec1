"""One lane per conversation: the work in flight and what waits behind it, first come first served."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct, field

from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError, StoreError, Unavailable
from moot.domain.events import (
    AskOpened,
    EventBody,
    ModelRetrying,
    RunQueued,
    TextChunk,
    ThinkingChunk,
    ToolFinished,
    ToolsStarted,
)
from moot.domain.message import ToolCall
from moot.domain.ports.clock import Clock
from moot.domain.ports.spawned_runs import SpawnedRuns
from moot.domain.run import Outcome, RunRequest
from moot.domain.senders import BACKGROUND_SENDER, CHILD_SENDER
from moot.engine.asks import Asks
from moot.engine.history import Histories
from moot.engine.run_stream import RunStream
from moot.engine.supervisor import Supervisor
from moot.engine.turn import Progress
from moot.failpoint import reach

logger = logging.getLogger(__name__)

# A stopped run that does not let go within this many seconds is ended without it; a kill is done within one.
_PATIENCE = 0.8
# After so much work it is looked which histories need not stay in memory.
_TRIM_EVERY = 64


class Ticket(Struct, kw_only=True, eq=False):
    """One piece of work in a lane. `stop` is the outcome it must end with, once someone has stopped it."""

    key: ConversationKey
    work: "Callable[[Ticket], Coroutine[Any, Any, None]]"
    stream: RunStream
    clock: Clock
    request: RunRequest | None = None
    # The write that keeps a waiting message; None for work that does not wait or is not kept.
    stored: asyncio.Task[None] | None = None
    # Whether the message waits on disk, and so has to be taken off the line when it cannot begin.
    kept: bool = False
    task: asyncio.Task[Any] | None = None
    # Done when nobody waits for the task any longer.
    over: asyncio.Future[None] | None = None
    stop: Outcome | None = None
    suspended: bool = False
    # The place in line that was published last.
    place: RunQueued | None = None
    # Set where the run began before a restart, and goes on with the calls that waited.
    resumed: bool = False
    # What it has done so far, once it has begun.
    progress: Progress | None = None
    started: float = 0.0
    # When it began, where that was before a restart.
    began_at: float = 0.0
    last: EventBody | None = None
    last_at: float = 0.0
    # The calls under way.
    calls: dict[str, ToolCall] = field(default_factory=dict)

    def halt(self, outcome: Outcome) -> None:
        """Stop the work at once. The first to stop it decides how it ended."""
        if self.stop is None:
            self.stop = outcome
        if self.task is not None:
            self.task.cancel()
            self.clock.call_later(_PATIENCE, self.give_up)

    def give_up(self) -> None:
        """Let go of whoever waits for the task."""
        if self.over is not None and not self.over.done():
            self.over.set_result(None)

    def fail(self, error: MootError) -> None:
        if not self.stream.closed:
            self.stream.fail(error)

    def note(self, body: EventBody, at: float) -> None:
        """Remember what happened last and which calls are under way."""
        self.last, self.last_at = body, at
        match body:
            case ToolsStarted(calls):
                self.calls = {call.id: call for call in calls}
            case ToolFinished(call_id):
                self.calls.pop(call_id, None)
            case _:
                return

    def suspend(self) -> None:
        """Let go of the work without an end: it is taken up again at the next start."""
        # What somebody has stopped stays stopped.
        self.suspended = self.suspended or self.stop is None
        self.halt(Outcome.INTERRUPTED)

    @property
    def last_action(self) -> str:
        """What it did last, in a few words for a person."""
        match self.last:
            case TextChunk():
                return "writing"
            case ThinkingChunk():
                return "thinking"
            case AskOpened(ask):
                return "waiting for an answer" if ask.is_question else f"waiting for approval of {ask.tool}"
            case ModelRetrying(attempt):
                return f"asking the model again ({attempt})"
            case None:
                return "starting"
            case _:
                return ", ".join([call.name for call in self.calls.values()][:3]) or "waiting for the model"


class Lane:
    def __init__(self, key: ConversationKey, asks: Asks) -> None:
        self.key = key
        self._asks = asks
        self.waiting: deque[Ticket] = deque()
        self.active: Ticket | None = None

    @property
    def is_nobodys(self) -> bool:
        """Whether nobody sits before it: what a teammate does, and work in the background."""
        return self.key.sender.startswith((CHILD_SENDER, BACKGROUND_SENDER))

    def announce_positions(self) -> None:
        for ticket in self.waiting:
            # A message is told its place once it is on disk; what is no message is kept nowhere.
            if ticket.request is None or (ticket.stored is not None and ticket.stored.done()):
                self.announce(ticket)

    def announce(self, ticket: Ticket) -> None:
        """Publish where in line a ticket stands, unless that was said before."""
        place = self.place(ticket)
        if place != ticket.place:
            ticket.place = place
            ticket.stream.publish(place)

    def place(self, ticket: Ticket) -> RunQueued:
        """Where in line a ticket stands, and what the run in front waits for a person with."""
        position = self.waiting.index(ticket) + 1
        asks = self._asks.of_conversation(self.key) if self.active is not None else ()
        return RunQueued(position, asks[0].id, asks[0].kind) if asks else RunQueued(position)

    def front(self) -> Ticket | None:
        """The run in flight, or the next in line."""
        tickets = (self.active, *self.waiting)
        return next((ticket for ticket in tickets if ticket is not None and ticket.request is not None), None)


class Lanes:
    """All lanes with work. A lane is there while it has work and gone when it has none."""

    def __init__(
        self,
        *,
        supervisor: Supervisor,
        clock: Clock,
        asks: Asks,
        histories: Histories,
        spawned: SpawnedRuns,
    ) -> None:
        self._supervisor = supervisor
        self._clock = clock
        self._asks = asks
        self._histories = histories
        self._spawned = spawned
        self._lanes: dict[ConversationKey, Lane] = {}
        # The messages in flight and in line, by the ids their clients gave them.
        self._by_client_id: dict[tuple[ConversationKey, str], Ticket] = {}
        self._done_count = 0
        self._empty = asyncio.Event()
        self._empty.set()
        self.closing = False

    def get(self, key: ConversationKey) -> Lane | None:
        return self._lanes.get(key)

    def all(self) -> list[Lane]:
        return list(self._lanes.values())

    def is_busy(self, key: ConversationKey) -> bool:
        return key in self._lanes

    def remember_client_id(self, ticket: Ticket) -> None:
        if ticket.request is not None and ticket.request.client_message_id:
            self._by_client_id[ticket.key, ticket.request.client_message_id] = ticket

    def forget_client_id(self, ticket: Ticket) -> None:
        if ticket.request is not None and ticket.request.client_message_id:
            self._by_client_id.pop((ticket.key, ticket.request.client_message_id), None)

    def find_by_client_id(self, key: ConversationKey, client_message_id: str) -> Ticket | None:
        return self._by_client_id.get((key, client_message_id))

    def find_by_client_id_prefix(self, key: ConversationKey, prefix: str) -> Ticket | None:
        """The newest message or reply whose id begins so."""
        for (known, message_id), ticket in reversed(self._by_client_id.items()):
            if known == key and message_id.startswith(prefix) and ticket.request is not None:
                return ticket
        return None

    def enter(self, ticket: Ticket) -> None:
        lane = self._lanes.get(ticket.key)
        if lane is not None:
            lane.waiting.append(ticket)
            return
        lane = self._lanes[ticket.key] = Lane(ticket.key, self._asks)
        lane.waiting.append(ticket)
        self._empty.clear()
        self._supervisor.start(f"lane {ticket.key}", self._drive(lane))

    def withdraw(self, ticket: Ticket) -> bool:
        """Take what has not begun out of its line. False where it has, or is about to."""
        lane = self._lanes.get(ticket.key)
        if lane is None or ticket not in lane.waiting or (lane.active is None and lane.waiting[0] is ticket):
            return False
        lane.waiting.remove(ticket)
        self._finish(ticket)
        lane.announce_positions()
        return True

    def put_back(self, ticket: Ticket, position: int) -> None:
        """Let what was taken out of its line wait where it waited, or as near as it can."""
        lane = self._lanes.get(ticket.key)
        if lane is None:
            self.enter(ticket)
        else:
            lane.waiting.insert(position, ticket)
            lane.announce_positions()

    async def wait_stored(self, ticket: Ticket) -> None:
        """Wait until a waiting message is on disk; only then its place in line is announced."""
        assert ticket.stored is not None
        await asyncio.wait({ticket.stored})
        lane = self._lanes.get(ticket.key)
        waits = lane is not None and ticket in lane.waiting
        error = ticket.stored.exception()
        if error is not None:
            if waits and lane is not None:
                lane.waiting.remove(ticket)
            raise error if isinstance(error, MootError) else StoreError(f"the message could not be stored: {error}")
        if waits and lane is not None:
            reach("queued.before")
            lane.announce(ticket)
            reach("queued.sent")

    async def stop(self, *, grace: float) -> None:
        """Let what runs finish within the grace, then interrupt it. What waits is left where it is kept.

        A run that waits for a human is not waited for: nobody can say when that ends.
        """
        self.closing = True
        for lane in self.all():
            asks = self._asks.of_run(lane.active.request.id) if lane.active and lane.active.request else ()
            if lane.active is not None and asks:
                self._let_go(lane, lane.active, suspend=all(ask.is_resumable for ask in asks))
        reach("drain.begun")
        if await self._wait_empty(grace):
            return
        for lane in self.all():
            if lane.active is not None:
                self._let_go(lane, lane.active)
        reach("drain.halted")
        await self._wait_empty(5.0)
        reach("drain.done")

    def _let_go(self, lane: Lane, ticket: Ticket, *, suspend: bool = False) -> None:
        """Interrupt it, unless it goes on at the next start, from its last recorded step."""
        if suspend or lane.is_nobodys or (ticket.request is not None and self._spawned.leads(ticket.request.id)):
            ticket.suspend()
        else:
            ticket.halt(Outcome.INTERRUPTED)

    async def _wait_empty(self, seconds: float) -> bool:
        try:
            async with self._clock.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    async def _drive(self, lane: Lane) -> None:
        """Do the lane's work in order. Nothing is awaited between an empty line and the lane's end."""
        try:
            while lane.waiting and not self.closing:
                ticket = lane.active = lane.waiting.popleft()
                ticket.started = ticket.last_at = self._clock.monotonic()
                lane.announce_positions()
                try:
                    await ticket.work(ticket)
                except Exception as error:
                    # A broken ticket must not hold up those behind it.
                    logger.exception("work in %s failed", lane.key)
                    ticket.fail(MootError(f"something went wrong inside: {type(error).__name__}"))
                finally:
                    lane.active = None
                    self._finish(ticket)
        finally:
            self._close(lane)

    def _finish(self, ticket: Ticket) -> None:
        self.forget_client_id(ticket)
        self._done_count += 1
        if self._done_count % _TRIM_EVERY == 0:
            self._histories.trim(self.is_busy)

    def _close(self, lane: Lane) -> None:
        del self._lanes[lane.key]
        for ticket in lane.waiting:
            is_kept = ticket.kept or ticket.stored is not None
            fix = "The message is kept and will run later." if is_kept else "Send it again once the daemon is back."
            ticket.fail(Unavailable("the daemon is shutting down", fix=fix))
            self._finish(ticket)
        if not self._lanes:
            self._empty.set()
