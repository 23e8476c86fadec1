"""Runs: submits, finds, joins and stops runs. At most one is active per conversation; the others are queued."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.conversation import Archive, ConversationKey
from moot.domain.errors import BadRequest, Busy, Conflict, MootError, NotFound, Unavailable
from moot.domain.events import (
    ASK_EVENTS,
    Event,
    EventSource,
    RunEnded,
    RunQueued,
    RunWithdrawn,
    make_event_source,
)
from moot.domain.owner import check_here
from moot.domain.run import RETRYABLE, WITHDRAWN, Outcome, Run, RunRequest, RunStatus
from moot.engine.archiving import Archiving
from moot.engine.dependencies import RunsDependencies
from moot.engine.lanes import Lane, Lanes, Ticket
from moot.engine.run_results import load_result
from moot.engine.run_stream import RunStream, repeat_run
from moot.engine.supervisor import catch
from moot.engine.turns import Turns
from moot.failpoint import reach

T = TypeVar("T")

logger = logging.getLogger(__name__)

# How long after the end of a run a client may resend its request and still get the same run.
_JUST_ENDED_SECONDS = 60.0


def _ignore(_: object) -> None:
    return


class Waiter(Struct, frozen=True, kw_only=True):
    """The client that waits for work in a lane: receives its queue position (0 when it starts) and can disconnect."""

    queued: Callable[[RunQueued], None] = _ignore
    on_gone: Callable[[Callable[[], None]], None] = _ignore


NOBODY = Waiter()


class Runs:
    def __init__(self, dependencies: RunsDependencies) -> None:
        self._d = dependencies
        self.histories = dependencies.histories
        self._turns = Turns(dependencies)
        self._archiving = Archiving(dependencies)
        self._lanes = Lanes(
            supervisor=dependencies.supervisor,
            clock=dependencies.clock,
            asks=dependencies.asks,
            histories=self.histories,
            spawned=dependencies.spawned,
        )
        self._arrivals: WeakValueDictionary[ConversationKey, asyncio.Lock] = WeakValueDictionary()
        dependencies.bus.observe(self._pass_on_ask, *ASK_EVENTS)

    async def submit(self, request: RunRequest, *, steer: bool = False) -> RunStream:
        """Start the run or queue it, with `steer` for the run that is active now. Return its stream from the start."""
        reach("submit.received")
        if steer:
            request = replace(request, steers=self.active(request.key))
        ticket = self._make_ticket(request)
        if not request.client_message_id and request.key not in self._arrivals:
            self._admit(ticket)
        else:
            # Looking up the id awaits; later messages must not enter the lane before this one.
            async with self._arrivals.setdefault(request.key, asyncio.Lock()):
                known = self._lanes.find_by_client_id(request.key, request.client_message_id)
                if known is not None:
                    _require_same_message(known.request, request)
                    return known.stream
                await self._place(ticket, request)
        if ticket.stored is not None:
            await self._wait_stored(ticket)
        return ticket.stream

    async def require_here(self, key: ConversationKey) -> None:
        """Raise Fenced if another living node owns the conversation: only that one can act on its runs."""
        check_here(str(key), await self._d.store.find_owner(key))

    async def compact(self, key: ConversationKey, waiter: Waiter = NOBODY) -> Archive:
        """Compact the history once no run is active in the conversation."""
        return await self.run_exclusively(key, "compaction", self._archiving.compact, waiter)

    async def open_stretch(self, key: ConversationKey, resumed: int = 0, waiter: Waiter = NOBODY) -> Archive:
        """Archive the current messages and begin anew, or go on with the archive `resumed`, once no run is active."""
        return await self.run_exclusively(key, "change", partial(self._archiving.open_stretch, resumed=resumed), waiter)

    async def run_exclusively(
        self, key: ConversationKey, what: str, work: Callable[[Ticket], Coroutine[Any, Any, T]], waiter: Waiter = NOBODY
    ) -> T:
        """Do work on a conversation in its lane, with no run beside it, and return the result.

        Once begun, the work completes even if the client disconnects; only the ticket's `task` can be killed. If the
        client disconnects before, the work is withdrawn.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def take(ticket: Ticket) -> None:
            waiter.queued(RunQueued(0))
            await self._take_alone(ticket, what, work(ticket), answer)

        def read(item: Event | MootError) -> None:
            if isinstance(item, Event):
                # The only event published for work that is not a run.
                assert isinstance(item.body, RunQueued)
                waiter.queued(item.body)
            elif not answer.done():
                # A lane that closes fails its waiting tickets.
                answer.set_exception(Unavailable(item.message, fix=f"Nothing has changed; try the {what} later."))

        def withdraw() -> None:
            if self._lanes.withdraw(ticket) and not answer.done():
                answer.set_exception(
                    Conflict(f"the client that requested the {what} has disconnected; nothing has changed")
                )

        ticket = Ticket(
            key=key,
            work=take,
            stream=RunStream(EventSource(key=key, root=key, speaker=key.agent)),
            clock=self._d.clock,
        )
        ticket.stream.subscribe(read)
        await self._admit_in_order(ticket)
        lane = self._lanes.get(key)
        if lane is not None and lane.active is not None:
            lane.announce(ticket)
        waiter.on_gone(withdraw)
        return await answer

    def resume(self, run: Run) -> RunStream:
        """Resume a run that a daemon left: from its last recorded step, or from the queue."""
        request = run.request
        ticket = self._make_ticket(request)
        ticket.kept, ticket.resumed = run.status is RunStatus.QUEUED, run.status is RunStatus.RUNNING
        ticket.began_at = run.started_at
        self._lanes.remember_client_id(ticket)
        self._lanes.enter(ticket)
        return ticket.stream

    def active(self, key: ConversationKey) -> str:
        """Return the id of the active run, or ""."""
        lane = self._lanes.get(key)
        request = lane.active.request if lane is not None and lane.active is not None else None
        return request.id if request is not None else ""

    def has_begun_here(self, key: ConversationKey, run_id: str) -> bool:
        """Whether the run is active and was not begun by an earlier daemon."""
        lane = self._lanes.get(key)
        ticket = lane.active if lane is not None else None
        return ticket is not None and ticket.request is not None and ticket.request.id == run_id and not ticket.resumed

    def holds(self, key: ConversationKey, run_id: str) -> bool:
        """Whether the run is active or queued; a run that is resumed after a restart is queued first."""
        lane = self._lanes.get(key)
        tickets = () if lane is None else (lane.active, *lane.waiting)
        return any(ticket is not None and ticket.request and ticket.request.id == run_id for ticket in tickets)

    def kill(self, key: ConversationKey, run_id: str = "") -> bool:
        """Cancel the active work of the conversation, or only if it is this run. Return False if there was none."""
        lane = self._lanes.get(key)
        if lane is None:
            return False
        # If nothing is active yet, the first in the queue is about to start.
        ticket = lane.active or lane.waiting[0]
        if run_id and (ticket.request is None or ticket.request.id != run_id):
            return False
        ticket.halt(Outcome.CANCELLED)
        reach("kill.halted")
        return True

    def stream_of(self, key: ConversationKey) -> RunStream | None:
        """Return the stream of the active run, or of the next one in the queue."""
        lane = self._lanes.get(key)
        front = lane.front() if lane is not None else None
        return front.stream if front is not None else None

    async def withdraw(self, key: ConversationKey, run_id: str = "") -> RunRequest:
        """Withdraw a waiting message, by run id or the newest, and return it. It stays withdrawn after a restart."""
        async with self._arrivals.setdefault(key, asyncio.Lock()):
            ticket = self._find_waiting(key, run_id)
            if ticket is None:
                await self.require_here(key)
                return await self._require_withdrawn(key, run_id)
            request = ticket.request
            assert request is not None
            position = next(index for index, each in enumerate(self.list_waiting(key)) if each is ticket)
            if not self._lanes.withdraw(ticket):
                raise _has_begun(request.id)
            if ticket.stored is not None:
                await asyncio.wait({ticket.stored})
                ticket.kept = ticket.stored.exception() is None
            if not ticket.kept:
                # Its sender learns that it was refused. If it is sent again, that is another message.
                raise _none_waits(key)
            try:
                await self._d.store.unqueue(request.id, WITHDRAWN, now=self._d.clock.now())
            except MootError:
                self._lanes.put_back(ticket, position)
                self._lanes.remember_client_id(ticket)
                raise
        reach("withdrawn.recorded")
        ticket.stream.publish(RunWithdrawn(request.content))
        ticket.stream.publish(RunEnded(request.speaker, WITHDRAWN))
        return request

    async def find_retried(self, key: ConversationKey, prefix: str, message_id: str = "") -> RunRequest | None:
        """Return the newest message or reply whose id has this prefix, if its turn is active or has just ended.

        With `message_id`: that message, or the reply with the prefix, regardless of when it was sent.
        """
        if not prefix:
            raise BadRequest("the prefix of the message id is empty")
        if message_id:
            return await self._find_sent(key, message_id) or await self._find_answered(key, prefix)
        ticket = self._lanes.find_by_client_id_prefix(key, prefix)
        if ticket is not None:
            return ticket.request
        since = self._d.clock.now() - _JUST_ENDED_SECONDS
        run = await self._d.store.find_retried(key, prefix, since=since)
        return run.request if run is not None else await self._find_answered(key, prefix, since=since)

    async def _find_sent(self, key: ConversationKey, message_id: str) -> RunRequest | None:
        ticket = self._lanes.find_by_client_id(key, message_id)
        if ticket is not None:
            return ticket.request
        run = await self._d.store.find_run(key, message_id)
        return run.request if run is not None else None

    async def _find_answered(self, key: ConversationKey, prefix: str, *, since: float = 0.0) -> RunRequest | None:
        """Return the run whose question was answered by a reply with this prefix, unless it ended before `since`."""
        replied = await self._d.asks.find_reply(key, prefix)
        asking = await self._d.store.get_run(replied.run_id) if replied is not None else None
        if asking is None or (asking.end is not None and asking.ended_at < since):
            return None
        return asking.request

    def list_waiting(self, key: ConversationKey) -> list[Ticket]:
        lane = self._lanes.get(key)
        return list(lane.waiting) if lane is not None else []

    def _find_waiting(self, key: ConversationKey, run_id: str) -> Ticket | None:
        for ticket in reversed(self.list_waiting(key)):
            request = ticket.request
            # Reports of teammates and turns resumed after a restart are in the same queue, but cannot be withdrawn.
            if request is not None and not (request.author or ticket.resumed) and run_id in ("", request.id):
                return ticket
        return None

    async def _require_withdrawn(self, key: ConversationKey, run_id: str) -> RunRequest:
        """Return the message of a run that was withdrawn before; raise if the run is in any other state."""
        if not run_id:
            raise _none_waits(key)
        run = await self._d.store.get_run(run_id)
        if run is None or run.request.key != key:
            raise NotFound(f"there is no run {run_id!r} in this conversation", fix="See `moot ps -a`.")
        if run.end is None or run.started_at or run.end.outcome is not Outcome.CANCELLED:
            raise _has_begun(run_id)
        return run.request

    def ticket(self, run_id: str) -> Ticket | None:
        """Return the ticket of a run, active or queued."""
        tickets = (ticket for lane in self._lanes.all() for ticket in (lane.active, *lane.waiting))
        found = (each for each in tickets if each is not None and each.request is not None)
        return next((each for each in found if each.request is not None and each.request.id == run_id), None)

    def local_lanes(self) -> list[Lane]:
        """Return the lanes of this node that have work. Store.list_live_runs has the runs of all nodes."""
        return self._lanes.all()

    def has_local_work(self, key: ConversationKey) -> bool:
        """Whether this node has work in the conversation: a run, or a compaction, import or deletion."""
        return self._lanes.is_busy(key)

    def owes_end(self, run_id: str) -> bool:
        """Whether a run has ended but its end could not be stored yet."""
        return self._turns.owes_end(run_id)

    async def settle_owed(self) -> None:
        await self._turns.settle_owed()

    async def stop(self, *, grace: float) -> None:
        await self._lanes.stop(grace=grace)

    def _make_ticket(self, request: RunRequest) -> Ticket:
        stream = RunStream(make_event_source(request), self._d.bus)
        return Ticket(key=request.key, work=self._turns.take, request=request, stream=stream, clock=self._d.clock)

    def _pass_on_ask(self, event: Event) -> None:
        """Pass a teammate's ask to the root conversation's stream, and update the queue positions behind it."""
        lane = self._lanes.get(event.source.root)
        front = lane.front() if lane is not None else None
        if lane is None or front is None:
            return
        if front.stream.source.run_id != event.source.run_id and not front.stream.closed:
            front.stream.receive(event)
        lane.announce_positions()

    def _admit(self, ticket: Ticket) -> None:
        """Append a ticket to its lane; a message that has to wait is stored. Raise when the queue is full."""
        if self._lanes.closing:
            raise Unavailable("the daemon is shutting down", fix="Send it again once the daemon is back.")
        lane = self._lanes.get(ticket.key)
        if lane is not None:
            if len(lane.waiting) >= self._d.config().queue_bound:
                raise Busy(
                    f"{len(lane.waiting)} messages already wait in this conversation",
                    fix="Wait for an answer, or stop the active run with `moot kill`.",
                )
            if ticket.request is not None:
                keep = self._d.store.enqueue(ticket.request, now=self._d.clock.now())
                ticket.stored = self._d.supervisor.start_awaited(f"enqueue {ticket.request.id}", keep)
        self._lanes.enter(ticket)

    async def _admit_in_order(self, ticket: Ticket) -> None:
        """Admit work behind messages that came before it and are still being looked up."""
        if ticket.key not in self._arrivals:
            self._admit(ticket)
            return
        async with self._arrivals.setdefault(ticket.key, asyncio.Lock()):
            self._admit(ticket)

    async def _place(self, ticket: Ticket, request: RunRequest) -> None:
        """Admit a message. If it was sent before, repeat its ended run, or run again on the stored message."""
        message_id = request.client_message_id
        earlier = await self._d.store.find_run(request.key, message_id) if message_id else None
        if earlier is not None:
            _require_same_message(earlier.request, request)
        if earlier is not None and _is_final(earlier):
            # The events were published when they happened; only this caller gets them again.
            ticket.stream = repeat_run(await load_result(self._d.store, earlier))
            return
        if earlier is not None:
            ticket.request = replace(request, rerun_of=earlier.request.id)
        self._admit(ticket)
        self._lanes.remember_client_id(ticket)

    async def _wait_stored(self, ticket: Ticket) -> None:
        """Wait until a queued message is on disk."""
        try:
            await self._lanes.wait_stored(ticket)
        except MootError as error:
            self._lanes.forget_client_id(ticket)
            ticket.fail(error)
            raise

    async def _take_alone(
        self, ticket: Ticket, what: str, work: Coroutine[Any, Any, T], answer: asyncio.Future[T]
    ) -> None:
        result = await catch(lambda: work)
        if answer.done():
            return
        if isinstance(result, MootError):
            answer.set_exception(result)
        elif isinstance(result, Exception):
            logger.error("the %s of %s failed inside", what, ticket.key, exc_info=result)
            answer.set_exception(
                MootError(f"the {what} failed because of an internal error; the daemon's log has the cause")
            )
        else:
            answer.set_result(result)


def _none_waits(key: ConversationKey) -> NotFound:
    return NotFound(f"no message waits in the conversation with {key.agent}", fix="See `moot ps`.")


def _has_begun(run_id: str) -> Conflict:
    return Conflict(f"run {run_id} has begun, and its message cannot be withdrawn", fix=f"Stop it: moot stop {run_id}")


def _require_same_message(earlier: RunRequest | None, request: RunRequest) -> None:
    """Raise Conflict if the same client id was used for a different message or speaker."""
    if earlier is not None and (earlier.content, earlier.speaker) != (request.content, request.speaker):
        raise Conflict(
            f"another message was sent under the id {request.client_message_id!r}",
            fix="Give every new message its own id.",
        )


def _is_final(run: Run) -> bool:
    return run.end is not None and run.end.outcome not in RETRYABLE
