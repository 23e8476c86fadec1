"""One lane per conversation: the active work and the queue behind it, first in, first out."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct, field

from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError, StoreError, Unavailable
from moot.domain.events import (
    AskOpened,
    EventBody,
    MessageSteered,
    ModelPreparing,
    ModelRetrying,
    PrivateText,
    RunEnded,
    RunQueued,
    Stage,
    TextChunk,
    ThinkingChunk,
    ToolFinished,
    ToolsStarted,
)
from moot.domain.mail import MAIL_AUTHOR
from moot.domain.message import ToolCall
from moot.domain.ports.clock import Clock
from moot.domain.ports.spawned_runs import SpawnedRuns
from moot.domain.run import Outcome, RunRequest, end_steered
from moot.domain.senders import RUN_SENDERS
from moot.engine.asks import Asks
from moot.engine.history import Histories
from moot.engine.run_stream import RunStream
from moot.engine.supervisor import Supervisor
from moot.engine.turn import RunProgress
from moot.failpoint import reach

logger = logging.getLogger(__name__)

# A stopped run that has not ended after this many seconds is abandoned, so that a kill takes effect within a second.
_PATIENCE = 0.8
# After this many tickets, unused histories are dropped from memory.
_TRIM_EVERY = 64


class Ticket(Struct, kw_only=True, eq=False):
    """One item of work in a lane. `stop` is the outcome it must end with, once it was stopped."""

    key: ConversationKey
    work: "Callable[[Ticket], Coroutine[Any, Any, None]]"
    stream: RunStream
    clock: Clock
    request: RunRequest | None = None
    # The task that stores a waiting message; None for work that does not wait or is not stored.
    stored: asyncio.Task[None] | None = None
    # Whether the message is stored as queued, and must be unqueued if it cannot begin.
    kept: bool = False
    task: asyncio.Task[Any] | None = None
    # Done when the task is no longer waited for.
    over: asyncio.Future[None] | None = None
    stop: Outcome | None = None
    suspended: bool = False
    # The queue position that was published last.
    place: RunQueued | None = None
    # Whether the run began before a restart and continues with the calls that were open.
    resumed: bool = False
    # What the run has done so far, once it has begun.
    progress: RunProgress | None = None
    started: float = 0.0
    # When the run began, if that was before a restart.
    began_at: float = 0.0
    last: EventBody | None = None
    last_at: float = 0.0
    # The tool calls in progress, by id.
    calls: dict[str, ToolCall] = field(default_factory=dict)
    # The queued messages that are to be shown to it, once it is active.
    steering: "LaneSteering | None" = None

    @property
    def is_stored(self) -> bool:
        """Whether the waiting message is on disk. A write that failed, or was cancelled, does not count."""
        task = self.stored
        return task is not None and task.done() and not task.cancelled() and task.exception() is None

    def halt(self, outcome: Outcome) -> None:
        """Cancel the work. The first caller decides the outcome."""
        if self.stop is None:
            self.stop = outcome
        if self.task is not None:
            self.task.cancel()
            self.clock.call_later(_PATIENCE, self.give_up)

    def give_up(self) -> None:
        """Stop waiting for the task."""
        if self.over is not None and not self.over.done():
            self.over.set_result(None)

    def fail(self, error: MootError) -> None:
        if not self.stream.closed:
            self.stream.fail(error)

    def note(self, body: EventBody, at: float) -> None:
        """Remember the last event and which calls are in progress."""
        self.last, self.last_at = body, at
        if type(body) is ToolsStarted:
            self.calls = {call.id: call for call in body.calls}
        elif type(body) is ToolFinished:
            self.calls.pop(body.call_id, None)

    def suspend(self) -> None:
        """Cancel the work without recording an end; the run is resumed at the next start."""
        # A run that was stopped before stays stopped.
        self.suspended = self.suspended or self.stop is None
        self.halt(Outcome.INTERRUPTED)

    @property
    def last_action(self) -> str:
        """A short description of the latest activity, for people."""
        match self.last:
            case TextChunk() | PrivateText():
                return "writing"
            case ThinkingChunk():
                return "thinking"
            case AskOpened(ask):
                return "waiting for an answer" if ask.is_question else f"waiting for approval of {ask.tool}"
            case ModelRetrying(attempt):
                return f"asking the model again ({attempt})"
            case ModelPreparing(Stage.TOOLS):
                return "starting MCP servers"
            case ModelPreparing(stage, percent):
                return f"reading the prompt ({percent} %)" if stage is Stage.READING else "loading the model"
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
    def is_of_run(self) -> bool:
        """Whether no person talks in this conversation: it belongs to a teammate or a background run."""
        return self.key.sender.startswith(RUN_SENDERS)

    def announce_positions(self) -> None:
        for ticket in self.waiting:
            # The position of a message is published once it is on disk; other work is not stored.
            if ticket.request is None or ticket.kept or ticket.is_stored:
                self.announce(ticket)

    def announce(self, ticket: Ticket) -> None:
        """Publish the queue position of a ticket if it has changed."""
        place = self.place(ticket)
        if place != ticket.place:
            ticket.place = place
            ticket.stream.publish(place)

    def place(self, ticket: Ticket) -> RunQueued:
        """Return the queue position of a ticket, and the ask that the active run waits for."""
        position = self.waiting.index(ticket) + 1
        asks = self._asks.list_local_of_conversation(self.key) if self.active is not None else ()
        return RunQueued(position, asks[0].id, asks[0].kind) if asks else RunQueued(position)

    def take_steered(self) -> list[Ticket]:
        """Remove the messages from the queue that the active run is to be shown: those on disk, oldest first."""
        taken: list[Ticket] = []
        for ticket in [each for each in self.waiting if self._is_for_active(each)]:
            if not (ticket.kept or ticket.is_stored):
                # The messages after it wait for it, to keep their order.
                break
            self.waiting.remove(ticket)
            taken.append(ticket)
        if taken:
            self.announce_positions()
        return taken

    def _is_for_active(self, ticket: Ticket) -> bool:
        """Whether the message is for the active run, and for its speaker. The run keeps its directory."""
        active = self.active.request if self.active is not None else None
        request = ticket.request
        if active is None or request is None or request.rerun_of:
            return False
        return request.steers == active.id and request.speaker == active.speaker

    def front(self) -> Ticket | None:
        """Return the active run, or the next one in the queue."""
        tickets = (self.active, *self.waiting)
        return next((ticket for ticket in tickets if ticket is not None and ticket.request is not None), None)


class LaneSteering:
    """The messages that are shown to the active run of a lane."""

    def __init__(self, lane: Lane, on_finished: Callable[[Ticket], None]) -> None:
        self._lane = lane
        self._on_finished = on_finished
        self._taken: dict[str, Ticket] = {}

    def take(self) -> list[RunRequest]:
        if not self._lane.waiting:
            return []
        tickets = self._lane.take_steered()
        requests = [ticket.request for ticket in tickets if ticket.request is not None]
        self._taken |= {request.id: ticket for request, ticket in zip(requests, tickets, strict=True)}
        return requests

    def has_mail(self) -> bool:
        return any(each.request is not None and each.request.author == MAIL_AUTHOR for each in self._lane.waiting)

    def has_waiting(self) -> bool:
        return bool(self._lane.waiting)

    def put_back(self, requests: Sequence[RunRequest]) -> None:
        self._lane.waiting.extendleft(self._taken.pop(request.id) for request in reversed(requests))
        self._lane.announce_positions()

    def finish(self, shown: MessageSteered) -> None:
        ticket = self._taken.pop(shown.run_id)
        ticket.stream.publish(shown)
        ticket.stream.publish(RunEnded(ticket.stream.source.speaker, end_steered(shown.into)))
        self._on_finished(ticket)


class Lanes:
    """All lanes that have work. A lane is removed when its queue is empty."""

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
        # Active and waiting messages, by the ids their clients gave them.
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
        """Return the newest active or waiting message whose client id starts with `prefix`."""
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
        """Remove a waiting ticket from its queue. Return False if it has begun or is about to."""
        lane = self._lanes.get(ticket.key)
        if lane is None or ticket not in lane.waiting or (lane.active is None and lane.waiting[0] is ticket):
            return False
        lane.waiting.remove(ticket)
        self._finish(ticket)
        lane.announce_positions()
        return True

    def put_back(self, ticket: Ticket, position: int) -> None:
        """Insert a withdrawn ticket at its former position in the queue, or as near to it as possible."""
        lane = self._lanes.get(ticket.key)
        if lane is None:
            self.enter(ticket)
        else:
            lane.waiting.insert(position, ticket)
            lane.announce_positions()

    async def wait_stored(self, ticket: Ticket) -> None:
        """Wait until a waiting message is on disk, then announce its queue position."""
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
        """Let active work finish within `grace` seconds, then interrupt it. Waiting messages stay in the store.

        A run that waits for a person is suspended or interrupted at once, since the wait has no foreseeable end.
        """
        self.closing = True
        for lane in self.all():
            asks = self._asks.list_local_of_run(lane.active.request.id) if lane.active and lane.active.request else ()
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
        """Suspend a ticket that can be resumed from its last recorded step at the next start; interrupt others."""
        if suspend or lane.is_of_run or (ticket.request is not None and self._spawned.has_spawned(ticket.request.id)):
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
        """Process the lane's queue in order. There is no await between the empty queue and the removal of the lane."""
        try:
            while lane.waiting and not self.closing:
                ticket = lane.active = lane.waiting.popleft()
                ticket.started = ticket.last_at = self._clock.monotonic()
                ticket.steering = LaneSteering(lane, self._finish)
                if lane.waiting:
                    lane.announce_positions()
                try:
                    await ticket.work(ticket)
                except Exception as error:
                    # A failing ticket must not block those behind it.
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
