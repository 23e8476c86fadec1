"""One turn from end to end: the message on disk, the loop, the outcome on disk, whatever happens in between."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from moot.domain.agent import Agent
from moot.domain.config import Config
from moot.domain.conversation import Conversation, ConversationKey
from moot.domain.errors import Conflict, MootError, NotFound, StoreError, Unavailable
from moot.domain.events import Event, RunEnded, RunStarted
from moot.domain.message import Entry, Role, user
from moot.domain.ports import Clock, Model, Store
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.engine.asks import Asks
from moot.engine.begun import Begun, on_disk
from moot.engine.compaction import Compaction
from moot.engine.feed import Feed
from moot.engine.history import Histories, History
from moot.engine.lanes import Ticket
from moot.engine.loop import Loop
from moot.engine.purse import Purses
from moot.engine.recorder import Recorder
from moot.engine.supervisor import Supervisor
from moot.engine.turn import Ending, Progress, Turn
from moot.failpoint import reach

T = TypeVar("T")
Tap = Callable[[Feed, Event], None]

logger = logging.getLogger(__name__)

# How long a message in line waits before the disk is tried again.
_DISK_SECONDS = 1.0
_UNANSWERED = "It is kept; what it came of has nothing left to answer it with."


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What the engine is built from."""

    store: Store
    loop: Loop
    compaction: Compaction
    agents: Callable[[str], Agent | None]
    models: Callable[[str], Model]
    config: Callable[[], Config]
    workspace: Callable[[ConversationKey], str]
    clock: Clock
    asks: Asks
    supervisor: Supervisor
    # Told after each turn, once its end is on disk.
    ended: Callable[[RunRequest, RunEnd], None]
    # Whether a run that is stopped with the daemon goes on at the next start; those nobody sits before always do.
    outlasts: Callable[[RunRequest], bool] = lambda _: False

    def agent(self, name: str) -> Agent:
        agent = self.agents(name)
        if agent is None:
            raise NotFound(f"there is no agent {name!r}", fix="See which there are with `moot agents`.")
        return agent

    def model(self, agent: Agent) -> Model:
        return self.models(agent.model or self.config().default_model)


class Turns:
    def __init__(self, wiring: Wiring, histories: Histories) -> None:
        self._w = wiring
        self._histories = histories
        self._purses = Purses(store=wiring.store, config=wiring.config)
        # Ends the disk refused; they are written as soon as it takes them.
        self._owed: dict[str, tuple[ConversationKey, RunEnd]] = {}
        # Messages in line that were refused while the disk would not have them taken off it.
        self._refused: dict[str, RunEnd] = {}
        self.taps: list[Tap] = []

    async def take(self, ticket: Ticket) -> None:
        request = ticket.request
        assert request is not None
        try:
            await _stored(ticket)
            # One that has begun, or is on disk, gets its end there also when nobody is left to speak.
            if not ticket.kept and not ticket.resumed:
                self._w.agent(request.speaker)
            history, begun = await self._begun(ticket, request)
        except MootError as error:
            await self._never_began(ticket, request, error)
            return
        emit = self._emitter(ticket, request, begun)
        try:
            await self._to_its_end(ticket, request, history, begun, emit)
        finally:
            self._purses.close(request)

    async def _to_its_end(
        self, ticket: Ticket, request: RunRequest, history: History, begun: Begun, emit: Callable[[Event], None]
    ) -> None:
        end, messages = await self._ended(ticket, request, history, emit)
        progress, is_suspended = ticket.progress, ticket.suspended
        recorder = progress.recorder if progress is not None else self._recorder(request, history)
        if not is_suspended:
            reach("end.before")
            # Behind the message, and refused where that is.
            recorder.end(end, messages)
        refusal = await begun.refusal()
        if refusal is not None:
            self._histories.drop(request.key)
            with suppress(MootError):
                await recorder.settle()
            await self._never_began(ticket, request, refusal)
            return
        if is_suspended:
            ticket.fail(
                Unavailable(
                    "the daemon is stopping",
                    fix="The run goes on once it is back; what it asks stays in `moot inbox`.",
                )
            )
            return
        end = await self._record(request, recorder, end)
        self._w.asks.end_run(request.id)
        reach("end.recorded")
        emit(RunEnded(request.speaker, end))
        reach("end.sent")
        self._w.ended(request, end)

    async def _ended(
        self, ticket: Ticket, request: RunRequest, history: History, emit: Callable[[Event], None]
    ) -> Ending:
        """Run to an end. Whatever goes wrong here, a run that has begun gets its outcome."""
        try:
            # A message that waited is in the history by now, also when nobody is left to answer it.
            agent = self._w.agent(request.speaker)
            end, messages = await self._execute(ticket, request, agent, history, emit)
            return _only_told(end) if request.author else end, messages
        except Exception as error:
            if not isinstance(error, NotFound):
                logger.exception("run %s failed outside its loop", request.id)
            told = error.sentence if isinstance(error, MootError) else f"Something went wrong inside: {error!r}"
            return RunEnd(outcome=Outcome.INTERNAL_ERROR, error=told), []

    async def settle_owed(self) -> None:
        """Write the ends that the disk refused before."""
        for run_id, (key, end) in list(self._owed.items()):
            # A run that was deleted with its conversation needs no end any more.
            with suppress(NotFound):
                await self._w.store.end(key, run_id, end, (), now=self._w.clock.now())
            self._owed.pop(run_id, None)
            self._histories.drop(key)
        for run_id, end in list(self._refused.items()):
            with suppress(NotFound, Conflict):
                await self._w.store.unqueue(run_id, end, now=self._w.clock.now())
            self._refused.pop(run_id, None)

    # ---- before -------------------------------------------------------------------------------

    async def _begun(self, ticket: Ticket, request: RunRequest) -> tuple[History, Begun]:
        """Begin. A message that was told to be in line stays there while the disk refuses it."""
        while True:
            try:
                return await self._begin(ticket, request)
            except StoreError as error:
                if not ticket.kept or ticket.stop is not None:
                    raise
                logger.warning("run %s waits for the disk: %s", request.id, error.message)
            await asyncio.sleep(_DISK_SECONDS)

    async def _begin(self, ticket: Ticket, request: RunRequest) -> tuple[History, Begun]:
        """Put the user message on disk. Until the future is done, nothing has been acknowledged."""
        if self._owed or self._refused:
            await self.settle_owed()
        history = None if request.is_first else await self._histories.load(request.key)
        now = self._w.clock.now()
        if ticket.resumed and history is not None:
            last = history.last_user_seq()
            return history, on_disk(next(entry for entry in history.entries if entry.seq == last))
        if not ticket.kept and not ticket.rerun_of:
            history = self._or_new(history, request.key, now)
            return history, self._begin_ahead(ticket, request, history)
        try:
            if ticket.rerun_of:
                entry = await self._w.store.rerun(request, of=ticket.rerun_of, now=now)
                if history is not None and entry.seq <= history.last_seq:
                    return history, on_disk(entry)
            else:
                entry = (await self._w.store.begin(request, now=now)).entry
        except StoreError:
            self._histories.drop(request.key)
            raise
        history = self._or_new(history, request.key, now)
        history.extend([entry])
        return history, on_disk(entry)

    def _or_new(self, history: History | None, key: ConversationKey, now: float) -> History:
        if history is not None:
            return history
        return self._histories.start(Conversation(key=key, created_at=now, updated_at=now))

    def _begin_ahead(self, ticket: Ticket, request: RunRequest, history: History) -> Begun:
        """Let the model read the message while the disk takes it: nobody hears a word before the disk has it.

        The lane is the only writer of its conversation, so the message's place is known; and whatever the run
        writes comes after it on the writer's line, and is refused where the message was.
        """
        now = self._w.clock.now()
        entry = Entry(
            seq=history.last_seq + 1,
            message=user(request.content, author=request.author, taint=request.taint),
            run_id=request.id,
            created_at=now,
        )
        history.extend([entry])

        stored = self._w.supervisor.own(f"begin {request.id}", self._w.store.begin(request, now=now))
        begun = Begun(entry.seq, stored)

        def stop_if_refused(_stored: "asyncio.Future[Any]") -> None:
            if begun.is_refused() and ticket.task is not None:
                ticket.task.cancel()

        begun.stored.add_done_callback(stop_if_refused)
        return begun

    async def _never_began(self, ticket: Ticket, request: RunRequest, error: MootError) -> None:
        """Tell why. A message that waited on disk is taken off the line, at the latest when the disk lets us."""
        # Stopped with the daemon, a message that waits stays in line.
        if ticket.kept and ticket.stop is not Outcome.INTERRUPTED:
            end = RunEnd(outcome=Outcome.INTERNAL_ERROR, error=error.message)
            try:
                await self._w.store.unqueue(request.id, end, now=self._w.clock.now())
            except MootError as refusal:
                logger.warning("run %s could not be taken off the queue: %s", request.id, refusal)
                self._refused[request.id] = end
        ticket.fail(error)

    # ---- during -------------------------------------------------------------------------------

    async def _execute(
        self, ticket: Ticket, request: RunRequest, agent: Agent, history: History, emit: Callable[[Event], None]
    ) -> Ending:
        try:
            model = self._w.model(agent)
        except MootError as error:
            return RunEnd(outcome=Outcome.MODEL_ERROR, error=error.sentence), []
        progress = ticket.progress = Progress(recorder=self._recorder(request, history), model=model)
        if ticket.resumed:
            await self._go_on_counting(request, history, progress)
        turn = Turn(
            request=request,
            agent=agent,
            primary=self._w.agents(request.key.agent) or agent,
            model=model,
            history=history,
            cwd=request.cwd or history.cwd or self._w.workspace(request.key),
            limits=self._w.config().limits.narrowed(request.limits),
            purse=await self._purses.open(request, resumed=ticket.resumed),
            emit=emit,
        )
        task = ticket.task = self._w.supervisor.start(f"run {request.id}", guarded(self._w.loop.run(turn, progress)))
        await _over(ticket, task)
        return await self._ending(ticket, task, progress)

    async def _go_on_counting(self, request: RunRequest, history: History, progress: Progress) -> None:
        """A run that goes on after a restart has used up what it had used up before."""
        stored = await self._w.store.run(request.id)
        if stored is not None:
            spent = stored.spent
            progress.steps, progress.usage, progress.cost = spent.steps, spent.usage, spent.cost
            progress.seconds = spent.seconds
        results = [entry for entry in history.entries if entry.run_id == request.id and entry.message.role is Role.TOOL]
        progress.used_tools = bool(results)
        progress.made = len(results)

    async def _ending(self, ticket: Ticket, task: "asyncio.Task[Ending | Exception]", progress: Progress) -> Ending:
        """How the loop ended, whatever way it ended, with every open call closed."""
        if progress.step is not None:
            progress.step.discard()
        end, messages = self._verdict(ticket, task, progress)
        if not progress.calls:
            # Nothing is open; what is still on its way to the disk and the end go there together.
            return end, messages
        try:
            await progress.recorder.settle()
        except MootError as error:
            self._histories.drop(ticket.key)
            return progress.end(Outcome.INTERNAL_ERROR, error=error.sentence), []
        return end, [*progress.close_calls(), *messages]

    def _verdict(self, ticket: Ticket, task: "asyncio.Task[Ending | Exception]", progress: Progress) -> Ending:
        if not task.done() or task.cancelled():
            return progress.end(ticket.stop or Outcome.INTERRUPTED), []
        result = task.result()
        if isinstance(result, tuple):
            # It came to its end before it could be let go; what it said may have been seen.
            ticket.suspended = False
            return result
        if isinstance(result, StoreError):
            self._histories.drop(ticket.key)
            # What the disk holds of the calls decides which still need a result; the store closes those.
            progress.calls = ()
            return progress.end(Outcome.INTERNAL_ERROR, error=result.sentence), []
        if isinstance(result, MootError):
            return progress.end(Outcome.MODEL_ERROR, error=result.sentence), []
        logger.error("run failed inside", exc_info=result)
        told = f"Something went wrong inside ({type(result).__name__}); the daemon's log has the cause."
        return progress.end(Outcome.INTERNAL_ERROR, error=told), []

    # ---- after --------------------------------------------------------------------------------

    def _recorder(self, request: RunRequest, history: History) -> Recorder:
        return Recorder(
            store=self._w.store,
            history=history,
            run_id=request.id,
            clock=self._w.clock,
            supervisor=self._w.supervisor,
        )

    async def _record(self, request: RunRequest, recorder: Recorder, end: RunEnd) -> RunEnd:
        """Put the end on disk before anyone hears of it. A disk that refuses is owed the record."""
        try:
            await recorder.finish()
        except MootError as error:
            logger.error("the end of run %s could not be recorded: %s", request.id, error)
            self._histories.drop(request.key)
            told = f"The reply could not be saved: {error.message}."
            end = replace(end, outcome=Outcome.INTERNAL_ERROR, error=told, content="")
            self._owed[request.id] = (request.key, end)
        return end

    def _emitter(self, ticket: Ticket, request: RunRequest, begun: Begun) -> Callable[[Event], None]:
        """Where the events of a run go, its start first. What it says before that is kept back until then."""
        feed, taps, clock = ticket.feed, self.taps, self._w.clock
        held: list[Event] | None = []

        def emit(event: Event) -> None:
            if held is not None:
                held.append(event)
                return
            ticket.note(event, clock.monotonic())
            feed.emit(event)
            for tap in taps:
                tap(feed, event)

        def start(_stored: "asyncio.Future[Any] | None" = None) -> None:
            nonlocal held
            if not begun.is_refused() and held is not None:
                said, held = held, None
                reach("start.before")
                emit(RunStarted(request.speaker, begun.seq))
                reach("start.sent")
                for event in said:
                    emit(event)

        if begun.stored.done():
            start()
        else:
            begun.stored.add_done_callback(start)
        return emit


def _only_told(end: RunEnd) -> RunEnd:
    """A report that comes when the purse it would be answered from is empty is kept, and nothing has failed."""
    if end.steps or end.outcome not in (Outcome.LIMIT, Outcome.TIMEOUT):
        return end
    return replace(end, outcome=Outcome.COMPLETED, limit="", error=_UNANSWERED)


async def _stored(ticket: Ticket) -> None:
    """Wait until a message that had to wait is on disk as waiting."""
    if ticket.stored is not None:
        await asyncio.wait({ticket.stored})
        if ticket.stored.exception() is not None:
            raise StoreError("the message could not be stored")
        ticket.kept = True


async def _over(ticket: Ticket, task: "asyncio.Task[Any]") -> None:
    """Wait for the task; once it was told to stop, not for ever."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ticket.over = over
    task.add_done_callback(lambda _: ticket.give_up())
    if ticket.stop is not None:
        # Stopped before it began. It takes its first step, so that there is something to stop.
        await asyncio.sleep(0)
        ticket.halt(ticket.stop)
    await over
    if not task.done():
        logger.error("%s does not let go; its run is ended without it", task.get_name())


async def guarded(work: Coroutine[Any, Any, T]) -> T | Exception:
    """Work that never fails as a task: its error is its result, judged by the one who waits for it."""
    try:
        return await work
    except Exception as error:  # noqa: BLE001 — handed on as a value, never dropped
        return error
