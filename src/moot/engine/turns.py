"""Turns: carries a turn from storing its message through the loop to storing its outcome. Used by runs."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from moot.domain.agent import Agent
from moot.domain.conversation import Conversation, ConversationKey
from moot.domain.errors import Conflict, Fenced, MootError, NotFound, StoreError, Unavailable
from moot.domain.events import EventBody, RunEnded, RunStarted
from moot.domain.message import Entry, user
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.engine.dependencies import Resolved, RunsDependencies, no_agent
from moot.engine.history import History
from moot.engine.lanes import Ticket
from moot.engine.recorder import PendingMessage, Recorder, on_disk
from moot.engine.run_results import add_messages, complete_if_delivered
from moot.engine.supervisor import catch
from moot.engine.turn import Ending, RunProgress, Turn
from moot.failpoint import reach

logger = logging.getLogger(__name__)

# How long a queued message waits before writing it is retried.
_DISK_SECONDS = 1.0


class Turns:
    def __init__(self, dependencies: RunsDependencies) -> None:
        self._d = dependencies
        self._histories = dependencies.histories
        self._budgets = dependencies.budgets
        # Ends that could not be stored, each with the epoch of its run; they are retried.
        self._owed: dict[str, tuple[ConversationKey, RunEnd, int]] = {}
        # Queued messages that were rejected but could not be unqueued in the store.
        self._refused: dict[str, RunEnd] = {}

    async def take(self, ticket: Ticket) -> None:
        request = ticket.request
        assert request is not None
        try:
            if ticket.stored is not None:
                await _wait_stored(ticket, ticket.stored)
            resolved = self._d.resolve(request)
            # A run that has begun or is queued on disk gets its end there, even if its agent no longer exists.
            if resolved.speaker is None and not ticket.kept and not ticket.resumed:
                raise no_agent(request.speaker)
            history, pending = await self._begin_when_disk_allows(ticket, request)
        except MootError as error:
            await self._fail_unstarted(ticket, request, error)
            return
        emit = self._build_emitter(ticket, request, pending)
        try:
            ending = await self._run_to_end(ticket, request, resolved, history, emit)
            await self._run_prepared(ticket, request, history, pending, ending, emit)
        finally:
            self._budgets.close(request)

    async def _run_prepared(
        self,
        ticket: Ticket,
        request: RunRequest,
        history: History,
        pending: PendingMessage,
        ending: Ending,
        emit: Callable[[EventBody], None],
    ) -> None:
        end, messages = ending
        progress, is_suspended = ticket.progress, ticket.suspended
        recorder = progress.recorder if progress is not None else self._build_recorder(ticket, request, history)
        if progress is not None:
            self._d.loop.record_request(progress)
        if not is_suspended and not pending.is_already_refused():
            reach("end.before")
            # Ordered after the message, and refused if the message is refused.
            recorder.end(end, messages)
        refusal = await pending.refusal()
        if refusal is not None:
            self._histories.drop(request.key)
            with suppress(MootError):
                await recorder.settle()
            await self._fail_unstarted(ticket, request, refusal)
            return
        if is_suspended:
            fix = "The run goes on once it is back; what it asks stays in `moot inbox`."
            ticket.fail(Unavailable("the daemon is stopping", fix=fix))
            return
        end = await self._record(request, recorder, end, history.epoch)
        self._d.asks.end_run(request.id)
        history.end_turn(pending.seq, request.speaker, end)
        end = add_messages(end, progress, history, request.id)
        reach("end.recorded")
        emit(RunEnded(request.speaker, end))
        reach("end.sent")

    async def _run_to_end(
        self,
        ticket: Ticket,
        request: RunRequest,
        resolved: Resolved,
        history: History,
        emit: Callable[[EventBody], None],
    ) -> Ending:
        """Run to the end. A run that has begun always gets an outcome, whatever fails here."""
        try:
            # A queued message is in the history by now, even if its agent no longer exists.
            if resolved.speaker is None:
                raise no_agent(request.speaker)
            end, messages = await self._execute(ticket, request, resolved, resolved.speaker, history, emit)
            return complete_if_delivered(end) if request.author else end, messages
        except Exception as error:
            if not isinstance(error, NotFound):
                logger.exception("run %s failed outside its loop", request.id)
            sentence = error.sentence if isinstance(error, MootError) else f"Something went wrong inside: {error!r}"
            return RunEnd(outcome=Outcome.INTERNAL_ERROR, error=sentence), []

    def owes_end(self, run_id: str) -> bool:
        """Whether the end of the run could not be stored yet."""
        return run_id in self._owed

    async def settle_owed(self) -> None:
        """Store the ends that could not be stored before."""
        for run_id, (key, end, epoch) in list(self._owed.items()):
            # A run that was deleted with its conversation needs no end.
            with suppress(NotFound, Fenced):
                await self._d.store.end(key, run_id, end, (), now=self._d.clock.now(), epoch=epoch)
            self._owed.pop(run_id, None)
            self._histories.drop(key)
        for run_id, end in list(self._refused.items()):
            with suppress(NotFound, Conflict, Fenced):
                await self._d.store.unqueue(run_id, end, now=self._d.clock.now())
            self._refused.pop(run_id, None)

    # ---- before -------------------------------------------------------------------------------

    async def _begin_when_disk_allows(self, ticket: Ticket, request: RunRequest) -> tuple[History, PendingMessage]:
        """Begin the turn. A message that was announced as queued stays queued while the disk refuses it."""
        while True:
            try:
                return await self._begin(ticket, request)
            except StoreError as error:
                if not ticket.kept or ticket.stop is not None or isinstance(error, Fenced):
                    raise
                logger.warning("run %s waits for the disk: %s", request.id, error.message)
            await self._d.clock.sleep(_DISK_SECONDS)

    async def _begin(self, ticket: Ticket, request: RunRequest) -> tuple[History, PendingMessage]:
        """Store the user message. Nothing is acknowledged until the future is done."""
        if self._owed or self._refused:
            await self.settle_owed()
        history = None if request.is_first else await self._histories.load(request.key)
        now = self._d.clock.now()
        if ticket.resumed and history is not None:
            last = history.last_user_seq()
            return history, on_disk(next(entry for entry in history.entries if entry.seq == last))
        # A model is not asked about a message that the disk is about to refuse.
        if not ticket.kept and not request.rerun_of and not self._d.store.is_short_of_room():
            history = self._start_if_new(history, request.key, now)
            return history, self._begin_ahead(ticket, request, history)
        epoch = history.epoch if history is not None else 0
        try:
            if request.rerun_of:
                begun = await self._d.store.rerun(request, now=now, epoch=epoch)
                if history is not None and begun.entry.seq <= history.last_seq:
                    return history, on_disk(begun.entry)
            else:
                begun = await self._d.store.begin(request, now=now, epoch=epoch)
        except StoreError:
            self._histories.drop(request.key)
            raise
        history = self._start_if_new(history, request.key, now)
        history.epoch = begun.epoch
        history.extend([begun.entry])
        return history, on_disk(begun.entry)

    def _start_if_new(self, history: History | None, key: ConversationKey, now: float) -> History:
        if history is not None:
            return history
        return self._histories.start(Conversation(key=key, created_at=now, updated_at=now))

    def _begin_ahead(self, ticket: Ticket, request: RunRequest, history: History) -> PendingMessage:
        """Send the message to the model while it is being stored; no event is published before it is on disk.

        The lane is the only writer of its conversation, so the message's number is known. All writes of the run are
        queued behind the message and are refused if it is refused.
        """
        now = self._d.clock.now()
        entry = Entry(
            seq=history.last_seq + 1,
            message=user(request.content, author=request.author, taint=request.taint),
            run_id=request.id,
            created_at=now,
        )
        history.extend([entry])

        stored = self._d.supervisor.own(
            f"begin {request.id}", self._d.store.begin(request, now=now, epoch=history.epoch)
        )
        pending = PendingMessage(entry.seq, stored)

        def stop_if_refused(begun: "asyncio.Future[Any]") -> None:
            if not pending.is_refused():
                history.epoch = begun.result().epoch
            elif ticket.task is not None:
                ticket.task.cancel()

        pending.stored.add_done_callback(stop_if_refused)
        return pending

    async def _fail_unstarted(self, ticket: Ticket, request: RunRequest, error: MootError) -> None:
        """Fail a turn that never began. A queued message is unqueued, or later if the disk refuses that."""
        if isinstance(error, StoreError):
            logger.error("a message to %s was refused: %s", request.key.agent, error.message)
        # When the daemon stops, a queued message stays queued.
        if ticket.kept and ticket.stop is not Outcome.INTERRUPTED:
            end = RunEnd(outcome=Outcome.INTERNAL_ERROR, error=error.message)
            try:
                await self._d.store.unqueue(request.id, end, now=self._d.clock.now())
            except MootError as refusal:
                logger.warning("run %s could not be taken off the queue: %s", request.id, refusal)
                if not isinstance(refusal, Fenced):
                    self._refused[request.id] = end
            self._d.bus.publish(ticket.stream.source, RunEnded(request.speaker, end))
        ticket.fail(error)

    # ---- during -------------------------------------------------------------------------------

    async def _execute(
        self,
        ticket: Ticket,
        request: RunRequest,
        resolved: Resolved,
        agent: Agent,
        history: History,
        emit: Callable[[EventBody], None],
    ) -> Ending:
        config = resolved.config
        if history.model and not request.guest:
            agent = replace(agent, model=history.model)
        try:
            model = self._d.model(agent, config)
        except MootError as error:
            return RunEnd(outcome=Outcome.MODEL_ERROR, error=error.sentence), []
        if self._d.observe_model is not None:
            model = self._d.observe_model(model, request)
        progress = ticket.progress = RunProgress(recorder=self._build_recorder(ticket, request, history), model=model)
        if ticket.resumed:
            await self._go_on_counting(request, history, progress)
        turn = Turn(
            request=request,
            agent=agent,
            primary=resolved.primary or agent,
            model=model,
            config=config,
            history=history,
            cwd=request.cwd or history.cwd or self._d.workspace(request.key),
            limits=config.limits.narrow(request.limits),
            budget=await self._budgets.open(request, config, resumed=ticket.resumed),
            emit=emit,
            steering=ticket.steering,
            is_resumed=ticket.resumed,
        )
        run = partial(self._d.loop.run, turn, progress)
        task = ticket.task = self._d.supervisor.start(f"run {request.id}", catch(run, ticket.give_up))
        await _wait_until_over(ticket, task)
        return await self._settle_ending(ticket, task, progress)

    async def _go_on_counting(self, request: RunRequest, history: History, progress: RunProgress) -> None:
        """Restore the usage of a run that is resumed after a restart."""
        stored = await self._d.store.get_run(request.id)
        if stored is not None:
            spent = stored.spent
            progress.steps, progress.usage, progress.cost = spent.steps, spent.usage, spent.cost
            progress.seconds, progress.begun_before = spent.seconds, spent.tool_uses
        for call_id, name in progress.restore_calls(history.list_messages(request.id)):
            is_denied = await self._d.asks.is_call_denied(request.id, call_id, name)
            (progress.denied if is_denied else progress.failed).add(name)

    async def _settle_ending(
        self, ticket: Ticket, task: "asyncio.Task[Ending | Exception]", progress: RunProgress
    ) -> Ending:
        """Return how the loop ended, in every case, with a result for each open call."""
        if progress.step is not None:
            progress.step.discard()
        end, messages = self._decide_ending(ticket, task, progress)
        if not progress.calls:
            # No call is open, so pending writes and the end can be written together.
            return end, messages
        try:
            await progress.recorder.settle()
        except MootError as error:
            self._histories.drop(ticket.key)
            return progress.end(Outcome.INTERNAL_ERROR, error=error.sentence), []
        return end, [*progress.close_calls(), *messages]

    def _decide_ending(self, ticket: Ticket, task: "asyncio.Task[Ending | Exception]", progress: RunProgress) -> Ending:
        if not task.done() or task.cancelled():
            return progress.end(ticket.stop or Outcome.INTERRUPTED), []
        result = task.result()
        if isinstance(result, tuple):
            # The run ended before it was suspended, and its text may have been seen.
            ticket.suspended = False
            return result
        if isinstance(result, StoreError):
            self._histories.drop(ticket.key)
            # The store decides which calls still need a result, and closes those.
            progress.calls = ()
            return progress.end(Outcome.INTERNAL_ERROR, error=result.sentence), []
        if isinstance(result, MootError):
            return progress.end(Outcome.MODEL_ERROR, error=result.sentence), []
        logger.error("run failed inside", exc_info=result)
        text = f"Something went wrong inside ({type(result).__name__}); the daemon's log has the cause."
        return progress.end(Outcome.INTERNAL_ERROR, error=text), []

    # ---- after --------------------------------------------------------------------------------

    def _build_recorder(self, ticket: Ticket, request: RunRequest, history: History) -> Recorder:
        return Recorder(
            store=self._d.store,
            history=history,
            run_id=request.id,
            clock=self._d.clock,
            supervisor=self._d.supervisor,
            spawned=self._d.spawned,
            lost=lambda: ticket.halt(Outcome.INTERRUPTED),
        )

    async def _record(self, request: RunRequest, recorder: Recorder, end: RunEnd, epoch: int) -> RunEnd:
        """Store the end before it is published. If the disk refuses it, the end is retried later."""
        try:
            await recorder.finish()
        except MootError as error:
            logger.error("the end of run %s could not be recorded: %s", request.id, error)
            self._histories.drop(request.key)
            if isinstance(error, Fenced):
                # The daemon that has taken over the run records its end.
                return replace(end, outcome=Outcome.INTERRUPTED, error=error.sentence, content="")
            text = f"The reply could not be saved: {error.message}."
            end = replace(end, outcome=Outcome.INTERNAL_ERROR, error=text, content="")
            self._owed[request.id] = (request.key, end, epoch)
        return end

    def _build_emitter(
        self, ticket: Ticket, request: RunRequest, pending: PendingMessage
    ) -> Callable[[EventBody], None]:
        """Return the emitter of a run. Events are held back until the message is stored; RunStarted is first."""
        stream, monotonic = ticket.stream, self._d.clock.monotonic
        held: list[EventBody] | None = []

        def emit(body: EventBody) -> None:
            if held is not None:
                held.append(body)
            # A run that did not stop in time publishes nothing after its end.
            elif not stream.closed:
                ticket.note(body, monotonic())
                stream.publish(body)

        def start(_stored: "asyncio.Future[Any] | None" = None) -> None:
            nonlocal held
            if not pending.is_refused() and held is not None:
                waiting, held = held, None
                reach("start.before")
                emit(RunStarted(request.speaker, pending.seq))
                reach("start.sent")
                for body in waiting:
                    emit(body)

        if pending.stored.done():
            start()
        else:
            pending.stored.add_done_callback(start)
        return emit


async def _wait_stored(ticket: Ticket, stored: "asyncio.Task[None]") -> None:
    """Wait until a queued message is on disk."""
    await asyncio.wait({stored})
    if (error := stored.exception()) is not None:
        raise error if isinstance(error, MootError) else StoreError("the message could not be stored")
    ticket.kept = True


async def _wait_until_over(ticket: Ticket, task: "asyncio.Task[Any]") -> None:
    """Wait for the task; after it was told to stop, only for a limited time."""
    ticket.over = over = asyncio.get_running_loop().create_future()
    # A task that is cancelled before its first step does not call it itself.
    task.add_done_callback(lambda _: ticket.give_up())
    if ticket.stop is not None:
        # Stopped before it began: let the task take its first step, so that it can be cancelled.
        await asyncio.sleep(0)
        ticket.halt(ticket.stop)
    await over
    if not task.done():
        logger.error("%s does not let go; its run is ended without it", task.get_name())
