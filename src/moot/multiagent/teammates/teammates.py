"""Teammates at work: spawned, in line, run through the one loop, awaited, stopped, and their results handed on once."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from moot.domain.agent_run import (
    AgentRun,
    AgentRunStatus,
    Block,
    Condition,
    Delivery,
    status_of,
)
from moot.domain.ask import Ask
from moot.domain.errors import Conflict, MootError, NotFound, StoreError, Unavailable
from moot.domain.events import AskClosed, AskOpened, Event, RunBlocked, RunEnded, RunUnblocked
from moot.domain.message import Entry
from moot.domain.ports import RunContext
from moot.domain.run import Outcome, Run, RunEnd, RunRequest
from moot.domain.trace import TraceKind
from moot.engine.deadline import Deadline
from moot.failpoint import reach
from moot.multiagent.teammates.blocked import current_block
from moot.multiagent.teammates.concurrency import Places
from moot.multiagent.teammates.delegation import Delegations, check_chain, check_not_done, check_not_given
from moot.multiagent.teammates.delivery import Deliveries
from moot.multiagent.teammates.live_runs import Muster
from moot.multiagent.teammates.recovery import fate, going_on, never_went_on
from moot.multiagent.teammates.run_factory import (
    check_same,
    in_background,
    request_of,
    source_of_run,
    spawned,
    spawned_event,
    taken_back,
)
from moot.multiagent.teammates.spawn_request import DEFAULT_SECONDS, Crew, Live, Wish
from moot.multiagent.teammates.waits import Attendance

logger = logging.getLogger(__name__)

_STOP_SECONDS = 5.0
# How long an end waits before the disk is tried again.
_DISK_SECONDS = 1.0


class Teammates:
    def __init__(self, crew: Crew) -> None:
        self._c = crew
        self._live = Muster(crew.supervisor)
        self._places = Places(most=lambda: crew.config().max_running, start=self._begin, bus=crew.bus)
        self._delegations = Delegations(crew.shelf)
        self.attendance = Attendance(self.at_work)
        self._closing = False
        # Ended runs whose results the last daemon owed.
        self._left: list[AgentRun] = []
        self._deliveries = Deliveries(crew, self.at_work)

    # ---- to begin -----------------------------------------------------------------------------

    async def spawn(self, context: RunContext, wish: Wish) -> AgentRun:
        """Start a teammate for the run that asks. The same call made again gives the run it started before."""
        chain = self._live.chain(context)
        check_chain(wish.agent, chain, most=self._c.config().max_depth)
        # What cannot be allowed is refused before anything is made.
        self._c.partition().spawn_scope(wish.agent, wish.allowed_tools)
        history = await self._c.runs.histories.load(context.key)
        if history is not None and self._has_twin(context.run_id, wish):
            check_not_given(context, wish.agent, wish.instruction, self.not_fetched(context.run_id, history.entries))
        await self._count(context, wish)
        # Those of one step are spawned from the same place.
        parent_seq = history.last_said_seq() if history is not None else 0
        return await self._keep(spawned(context, wish, run_id=self._new_id(), chain=chain, parent_seq=parent_seq))

    async def start(self, wish: Wish, *, owner: str, cwd: str, client_message_id: str = "") -> AgentRun:
        """Put a task into the background for a person. The same start made again gives the run it made before."""
        if self._closing:
            raise Unavailable("the daemon is shutting down", fix="Try again once the daemon is back.")
        made = in_background(wish, run_id=self._new_id(), owner=owner, cwd=cwd, client_message_id=client_message_id)
        return check_same(await self._keep(made), wish, client_message_id)

    async def recover(self) -> list[Run]:
        """Look at all that the last daemon left, before any of it goes on: a run may meet those it spawned.

        Returns the turns of people's that go on as well.
        """
        self._left = await self._c.shelf.owed()
        for run in await self._c.shelf.not_ended():
            live = self._live.enlist(run)
            begun, end, live.is_moot, begun_at = await fate(self._c, run)
            live.run = replace(run, started_at=begun_at)
            if end is not None:
                self._left += await self._end(live, end)
                continue
            if begun:
                live.taken_up = True
                live.run = replace(live.run, block=Block(condition=Condition.RESUMING))
            self._places.stand_in_line(live)
        left = [run for run in await self._c.store.waiting_runs() if run.request.id not in self._live]
        turns = await going_on(self._c, left)
        reach("teammates.recovered")
        return turns

    async def go_on(self) -> None:
        """Hand on what is owed, and let runs go on from their last recorded steps and begin."""
        left, self._left = self._left, []
        await self._deliveries.settle(left)
        self._places.open()

    # ---- to look and to wait ------------------------------------------------------------------

    def live(self) -> list[AgentRun]:
        return self._live.runs()

    async def find(self, run_id: str) -> AgentRun:
        run = self.at_work(run_id) or self._deliveries.held(run_id) or await self._c.shelf.get(run_id)
        if run is None:
            raise NotFound(f"there is no run {run_id!r}", fix="See which there are with `moot ps -a`.")
        return run

    def at_work(self, run_id: str) -> AgentRun | None:
        """The run, while it has not ended."""
        live = self._live.get(run_id)
        return live.run if live is not None else None

    def under(self, run_id: str) -> list[AgentRun]:
        """Those that a run has spawned and that have not ended."""
        return self._live.under(run_id)

    def is_owed(self, run_id: str) -> bool:
        """Whether teammates of the run are at work, or have ended and what came of it is kept for it."""
        return bool(self._deliveries.held_for(run_id) or self.under(run_id))

    def not_fetched(self, run_id: str, entries: Sequence[Entry]) -> list[AgentRun]:
        """Those that a run has spawned and has not had the result of, as its own messages tell."""
        return [*self.under(run_id), *self._deliveries.not_fetched(run_id, entries)]

    def _has_twin(self, run_id: str, wish: Wish) -> bool:
        """Whether a run has given this very task before."""
        given = [*self.under(run_id), *self._deliveries.held_for(run_id)]
        return any(run.agent == wish.agent and run.instruction == wish.instruction for run in given)

    async def grant(self, run_id: str, tool: str) -> None:
        """Let a run use one tool more, for as long as it lives."""
        live = self._live.get(run_id)
        if live is not None and tool not in live.run.granted_tools:
            live.run = replace(live.run, granted_tools=(*live.run.granted_tools, tool))
            await self._c.shelf.grant(run_id, live.run.granted_tools)

    async def ended(self, owns: Callable[[str], bool], *, limit: int) -> list[AgentRun]:
        """Those that ended last, set off by senders that are owned."""
        return await self._c.shelf.ended(owns, limit=limit)

    async def found(self, context: RunContext, run_ids: Sequence[str]) -> list[AgentRun]:
        """Runs of the same tree as the one that asks; others are not there for it."""
        runs = [await self.find(run_id) for run_id in run_ids]
        for run in runs:
            if run.root != context.asks_in:
                raise NotFound(f"there is no run {run.id!r} here", fix="Use an id that agent_spawn returned.")
        return runs

    async def wait(
        self, context: RunContext, run_ids: Sequence[str], *, seconds: float | None, every: bool
    ) -> list[AgentRun]:
        """Wait until all of the runs, or one of them, have ended; however that goes, see them as they stand then.

        Where no time is named, that of the wait stands while nobody is waited for but a person.
        """
        runs = await self.found(context, run_ids)
        above = self._live.above(context)
        if any(run.id in above or self.attendance.leads(run.id, above) for run in runs):
            raise Conflict("a run cannot wait for itself or for one that waits for it")
        clock = Deadline(DEFAULT_SECONDS if seconds is None else None)
        try:
            async with clock:
                with self._attending(context, [run.id for run in runs], clock):
                    await self.over(run_ids, seconds=seconds, every=every)
        except TimeoutError:
            if not clock.expired:
                raise
        runs = [await self.find(run_id) for run_id in run_ids]
        for run in runs:
            if run.status is AgentRunStatus.FAILED and run.end is not None:
                self._recovers(context, action="reroute", specialist=run.agent, cause=str(run.end.outcome))
        return runs

    async def done_before(self, run: AgentRun) -> AgentRun | None:
        """Who completed the same task before, in the turn the run belongs to."""
        tally = await self._delegations.of(run.origin, user=run.parent)
        return next(iter(tally.done(run.agent, run.instruction, parent=run.parent, step=run.step)), None)

    def streak(self, run: AgentRun) -> int:
        """How many teammates in a row have failed by now in the turn this one belongs to."""
        return self._delegations.streak(run.origin)

    def _recovers(self, context: RunContext, **what: str) -> None:
        self._c.traces.note(context.run_id, TraceKind.RECOVERY_ATTEMPT, context.speaker, **what)

    async def over(self, run_ids: Sequence[str], *, seconds: float | None, every: bool) -> bool:
        """Wait until all of the runs, or one of them, have ended. False when the time was up first."""
        return await self._live.over(run_ids, seconds=seconds, every=every)

    async def taint_of(self, run: AgentRun) -> frozenset[str]:
        """The strangers whose words the run has seen: they may speak out of its result."""
        history = await self._c.runs.histories.load(run.key)
        return history.taint if history is not None else run.taint

    # ---- to stop ------------------------------------------------------------------------------

    async def stop_for(self, context: RunContext, run_id: str) -> AgentRun:
        """Stop a run for another one of its tree; none stops itself or those it works for."""
        (run,) = await self.found(context, [run_id])
        if run.id in self._live.above(context):
            raise Conflict("a run cannot stop itself or one it works for", fix="End with what you have.")
        return await self.stop(run.id, told=False)

    async def stop(self, run_id: str, *, only: bool = False, told: bool = True) -> AgentRun:
        """End a run and everything under it, at once. `told` is whether its parent still wants to hear of it."""
        run = await self.find(run_id)
        if run.status.is_terminal:
            raise Conflict(f"run {run_id} is already {run.status}", fix="Nothing is left to stop.")
        stopped = [self._live[run_id]] if only else list(self._live.subtree(run_id))
        for live in stopped:
            live.is_moot = live.is_moot or not told or live.run.id != run_id
            await self._halt(live)
        reach("teammate.halted")
        await self.over([live.run.id for live in stopped], seconds=_STOP_SECONDS, every=True)
        return await self.find(run_id)

    def parent_ended(self, request: RunRequest, end: RunEnd) -> None:
        """A run that may have spawned others is over: those it leaves go on, unless it was killed."""
        self._delegations.left(request.origin or request.id, request.id)
        if end.outcome is Outcome.CANCELLED:
            for run in self.under(request.id):
                if not run.outlives:
                    self._c.supervisor.start(f"stop {run.id}", self._stop_quietly(run.id))
        # One that was spawned itself is over a little later, once that is on disk.
        left = [] if request.id in self._live else self._deliveries.left_by(request.id)
        if left:
            self._c.supervisor.start(f"results of {request.id}", self._deliveries.settle(left))

    async def spare(self, run_id: str) -> None:
        """Let those that a run set to work go on when it is stopped."""
        await self._c.shelf.spare(run_id)
        for run in self.under(run_id):
            self._live[run.id].run = replace(self._live[run.id].run, outlives=True)

    def close(self) -> None:
        """The daemon stops: nothing new begins, and what goes on is taken up at the next start."""
        self._closing = True
        self._places.close()

    async def _stop_quietly(self, run_id: str) -> None:
        try:
            await self.stop(run_id, told=False)
        except MootError as error:
            logger.info("run %s had ended before it was stopped: %s", run_id, error.message)

    async def _halt(self, live: Live) -> None:
        if self._places.left_line(live):
            await self._finish(live, await never_went_on(self._c, live.run))
        elif not self._c.runs.kill(live.run.key):
            # It is on its way into its lane.
            live.is_halted = True

    # ---- guards -------------------------------------------------------------------------------

    async def _count(self, context: RunContext, wish: Wish) -> None:
        tally = await self._delegations.of(context.origin or context.run_id, user=context.run_id)
        try:
            done = tally.done(wish.agent, wish.instruction, parent=context.run_id, step=context.step)
            check_not_done(wish.agent, done)
            tally.count(context, wish.agent, most=self._c.config().max_delegation_rounds)
        except MootError as error:
            self._recovers(context, action="refused", specialist=wish.agent, cause=error.message)
            raise

    # ---- to run -------------------------------------------------------------------------------

    async def _keep(self, run: AgentRun) -> AgentRun:
        """Keep a run and let it begin; what is spawned while the daemon stops begins at the next start."""
        try:
            kept = await self._c.shelf.create(replace(run, created_at=self._c.clock.now()))
        except asyncio.CancelledError:
            if not self._closing:
                # Whoever spawns it was stopped and never hears of it. It is kept all the same, and then ended.
                ended = taken_back(run, now=self._c.clock.now())
                self._c.supervisor.start(f"take back {run.id}", self._c.shelf.end(ended))
            raise
        reach("teammate.spawned")
        if kept.id in self._live:
            return self._live[kept.id].run
        if kept.status.is_terminal:
            return kept
        live = self._live.enlist(kept)
        self._c.bus.publish(source_of_run(kept), spawned_event(kept))
        self._places.stand_in_line(live)
        self._places.fill()
        return live.run

    def _begin(self, live: Live) -> None:
        started_at = live.run.started_at or self._c.clock.now()
        live.run = replace(live.run, status=AgentRunStatus.RUNNING, block=Block(), started_at=started_at)
        self._c.supervisor.start(f"teammate {live.run.id}", self._execute(live))

    async def _execute(self, live: Live) -> None:
        request = request_of(live.run, self._c.partition(), is_first=not live.taken_up)
        reach("teammate.begun")
        try:
            stream = self._c.runs.go_on(request) if live.taken_up else await self._c.runs.submit(request)
        except MootError as error:
            # Refused because the daemon stops, it begins at the next start.
            if not self._closing:
                await self._finish(live, RunEnd(outcome=Outcome.INTERNAL_ERROR, error=error.sentence))
            return
        if live.is_halted:
            self._c.runs.kill(live.run.key)
        try:
            end = await stream.wait_end(lambda event: self._note(live, event))
            live.is_end_published = True
        except MootError as error:
            if self._closing:
                return
            end = RunEnd(outcome=Outcome.INTERNAL_ERROR, error=error.sentence)
        await self._finish(live, end)

    def _note(self, live: Live, event: Event) -> None:
        self.attendance.stirred(live.run.id)
        # A run also receives what those it set to work ask, and that blocks them, not it.
        if isinstance(event.body, AskOpened | AskClosed) and event.body.ask.run_id == live.run.id:
            self._hold(live, closed=event.body.ask if isinstance(event.body, AskClosed) else None)

    def _hold(self, live: Live, closed: Ask | None = None) -> None:
        """Note what holds a run up from now on, if anything does: one that is held up needs no place."""
        block = current_block(self._c.asks.of_run(live.run.id), live.waits, closed)
        live.run = replace(live.run, block=block, waiting_on=live.waits.run_ids)
        self.attendance.changed(live.run.id)
        if block.condition:
            self._places.give_up(live.run.id)
        elif live.run.id in self._live:
            self._places.take_again(live.run.id)

    @contextmanager
    def _attending(self, context: RunContext, run_ids: Sequence[str], clock: Deadline) -> Iterator[None]:
        """While a run waits for others it needs no place of its own."""
        live = self._live.get(context.run_id)
        with self.attendance.waiting(context, run_ids, clock):
            if live is not None:
                live.waits.add(context.call_id, run_ids)
                self._hold(live)
            context.emit(RunBlocked(Condition.WAITING, "it waits for its teammates", waiting_on=tuple(run_ids)))
            try:
                yield
            finally:
                if live is not None:
                    live.waits.remove(context.call_id)
                    self._hold(live)
                context.emit(RunUnblocked(Condition.WAITING))

    async def _finish(self, live: Live, end: RunEnd) -> None:
        """End a run. While the disk refuses to have it, others wait for it a little longer, and not for ever."""
        while True:
            try:
                ended = await self._end(live, end)
                break
            except StoreError as error:
                logger.warning("the end of run %s waits for the disk: %s", live.run.id, error.message)
            await asyncio.sleep(_DISK_SECONDS)
        await self._deliveries.settle(ended)

    async def _end(self, live: Live, end: RunEnd) -> list[AgentRun]:
        """Keep how a run ended. Its result, and those it leaves, are to be handed on."""
        run = live.run
        if end.outcome is not Outcome.COMPLETED:
            # Nobody is told what it left running.
            self._c.stop(run.key)
        delivery = Delivery.NONE if run.is_background or live.is_moot else Delivery.OWED
        run = replace(
            run,
            status=status_of(end.outcome),
            end=end,
            delivery=delivery,
            block=Block(),
            waiting_on="",
            ended_at=self._c.clock.now(),
        )
        await self._c.shelf.end(run)
        reach("teammate.ended")
        live.run = run
        self._delegations.ended(run)
        self._live.pop(run.id, None)
        self.attendance.changed(run.id)
        if not live.is_end_published:
            # It ended without a turn of its own: stopped in line, or left by an earlier daemon.
            self._c.bus.publish(source_of_run(run), RunEnded(run.agent, end))
        live.over.set()
        self._places.give_up(run.id)
        return [*self._deliveries.left_by(run.id), *([run] if delivery is Delivery.OWED else ())]

    def _new_id(self) -> str:
        return f"arun-{self._c.rng.getrandbits(64):016x}"
