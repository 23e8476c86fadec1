"""Teammates: spawns runs, queues them, follows them through the one loop, waits for them, stops and recovers them.

Works with engine/runs (execution), delivery (of results), waits, concurrency and recovery.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from moot.domain.ask import Ask
from moot.domain.errors import Conflict, Fenced, MootError, NotFound, StoreError, Unavailable
from moot.domain.events import AskClosed, AskOpened, Event, RunBlocked, RunEnded, RunUnblocked
from moot.domain.ports.tool import RunContext
from moot.domain.recovery import LeftRun
from moot.domain.run import Outcome, Run, RunEnd, RunKind, RunStatus
from moot.domain.run_view import Block, Condition, RunView, TeammateStatus
from moot.domain.trace import TraceKind
from moot.engine.deadline import Deadline
from moot.engine.run_results import load_result
from moot.failpoint import reach
from moot.multiagent.blocked import current_block
from moot.multiagent.teammates.concurrency import Concurrency
from moot.multiagent.teammates.delegation import Delegations, check_chain, check_not_done, check_not_given
from moot.multiagent.teammates.delivery import Deliveries
from moot.multiagent.teammates.dependencies import TeammateDependencies
from moot.multiagent.teammates.live_runs import LiveRun
from moot.multiagent.teammates.recovery import end_unfinished, recover
from moot.multiagent.teammates.run_factory import (
    DEFAULT_SECONDS,
    SpawnRequest,
    build_background_run,
    build_request,
    build_spawned_event,
    build_spawned_run,
    check_same_start,
    make_cancelled_end,
    make_run_source,
)
from moot.multiagent.teammates.teammate_text import TeammateTexts
from moot.multiagent.teammates.waits import Waits

logger = logging.getLogger(__name__)

_STOP_SECONDS = 5.0
# The delay before a failed write of an end is retried.
_DISK_SECONDS = 1.0
_STOPPED_QUEUED = "It was stopped before it began."
_STOPPED_RESUMING = "It was stopped before it continued."


class Teammates:
    def __init__(self, dependencies: TeammateDependencies) -> None:
        self._d = dependencies
        self._live = dependencies.live
        self._concurrency = Concurrency(most=lambda: dependencies.config().max_running, bus=dependencies.bus)
        self._delegations = Delegations(dependencies.store)
        self.waits = Waits(self._live.find)
        self.texts = TeammateTexts(dependencies.runs.histories, dependencies.store, self._live)
        self._closing = False
        # Ended runs whose results were owed when the daemon started.
        self._owed: list[Run] = []
        self._deliveries = Deliveries(dependencies, self.waits, self.texts)
        dependencies.bus.observe(self._on_run_ended, RunEnded)

    # ---- start --------------------------------------------------------------------------------

    async def spawn(self, context: RunContext, request: SpawnRequest) -> RunView:
        """Start a teammate for the calling run. Idempotent: a repeated call returns the run it started before."""
        chain = self._live.chain(context)
        check_chain(request.agent, chain, most=self._d.config().max_depth)
        # Raises if the agent or a tool is not allowed, before anything is stored.
        self._d.partition().spawn_scope(request.agent, request.allowed_tools)
        if context.step > 1:
            # In its first step a run has given nothing before, and it may start a hundred.
            check_not_given(context, request.agent, request.instruction, self._live.not_fetched(context.run_id))
        await self.count_delegation(context, request.agent, request.instruction)
        history = await self._d.runs.histories.load(context.key)
        # All spawns of one step get the same position.
        parent_seq = history.last_said_seq if history is not None else 0
        return await self.keep(
            build_spawned_run(
                context, request, run_id=self.new_id(), chain=chain, parent_seq=parent_seq, now=self._d.clock.now()
            )
        )

    async def start(self, request: SpawnRequest, *, owner: str, cwd: str, client_message_id: str = "") -> RunView:
        """Start a background run for a person. Idempotent: a repeated start returns the run it started before."""
        if self._closing:
            raise Unavailable("the daemon is shutting down", fix="Try again once the daemon is back.")
        made = build_background_run(
            request,
            run_id=self.new_id(),
            owner=owner,
            cwd=cwd,
            now=self._d.clock.now(),
            client_message_id=client_message_id,
        )
        started = await self.keep(made)
        check_same_start(started.run, request, client_message_id)
        return started

    async def recover(self, left: Sequence[LeftRun]) -> list[Run]:
        """Register and queue all left runs before any is resumed, because a resumed run may ask for those it spawned.

        Returns the left runs of kind `turn` that are to be resumed or queued; the caller starts these.
        """
        turns: list[Run] = []
        for run in await recover(self._d, left):
            if run.kind is RunKind.TURN:
                turns.append(run)
                continue
            live = self._live.add(run)
            live.is_resumed = run.status is RunStatus.RUNNING
            self._concurrency.enqueue(live)
        self._owed = await self._d.store.list_owed_runs()
        reach("teammates.recovered")
        return turns

    def resume(self) -> None:
        """Deliver owed results and start queued runs; resumed ones continue from their last recorded step."""
        owed, self._owed = self._owed, []
        self._deliveries.settle(owed)
        self._concurrency.open()
        self._start_ready()

    # ---- find and wait ------------------------------------------------------------------------

    def local_runs(self) -> list[RunView]:
        """Return the spawned and background runs of this node that have not ended; Store.list_live_runs, of all."""
        return self._live.views()

    async def find(self, run_id: str) -> RunView:
        view = self._live.find(run_id)
        if view is not None:
            return view
        run = self._live.find_ended(run_id) or await self._d.store.get_run(run_id)
        if run is None or run.kind is RunKind.TURN:
            raise NotFound(f"there is no run {run_id!r}", fix="`moot ps -a` lists them.")
        return RunView(await load_result(self._d.store, run))

    def find_live(self, run_id: str) -> RunView | None:
        """Return the run; None if it has ended or does not exist."""
        return self._live.find(run_id)

    async def find_in_tree(self, context: RunContext, run_ids: Sequence[str]) -> list[RunView]:
        """Return runs by id. Raise NotFound for a run of another root conversation than the caller's."""
        found = [await self.find(run_id) for run_id in run_ids]
        for view in found:
            if view.run.root != context.asks_in:
                raise NotFound(f"there is no run {view.id!r} here", fix="Use an id that agent_spawn returned.")
        return found

    async def wait(
        self, context: RunContext, run_ids: Sequence[str], *, seconds: float | None, every: bool
    ) -> list[RunView]:
        """Wait until all of the runs (`every`), or one of them, have ended or time is up; return their current views.

        Without `seconds` a default limit applies, which pauses while all awaited runs wait for a person.
        """
        runs = await self.find_in_tree(context, run_ids)
        above = self._live.ancestors(context)
        if any(run.id in above or self.waits.is_waiting_for(run.id, above) for run in runs):
            raise Conflict("a run cannot wait for itself or for one that waits for it")
        clock = Deadline(self._d.clock, DEFAULT_SECONDS if seconds is None else None)
        try:
            async with clock:
                with self._attending(context, [run.id for run in runs], clock):
                    await self.wait_for_end(run_ids, seconds=seconds, every=every)
        except TimeoutError:
            if not clock.expired:
                raise
        runs = [await self.find(run_id) for run_id in run_ids]
        for run in runs:
            if run.status is TeammateStatus.FAILED and run.end is not None:
                self._note_recovery(context, action="reroute", specialist=run.agent, cause=str(run.end.outcome))
        return runs

    async def find_earlier_result(self, run: Run) -> Run | None:
        """Return the run that completed the same task earlier in the same turn, if any."""
        tally = await self._delegations.of(run.root_id, user=run.parent_id)
        done = tally.list_completed(run.agent, run.instruction, parent=run.parent_id, step=run.spawn.parent_step)
        return await load_result(self._d.store, done[0]) if done else None

    def streak(self, run: Run) -> int:
        """Return the current number of consecutive failures of teammates in the turn of this run."""
        return self._delegations.streak(run.root_id)

    def _note_recovery(self, context: RunContext, **what: str) -> None:
        self._d.traces.note(context.run_id, TraceKind.RECOVERY_ATTEMPT, context.speaker, **what)

    async def wait_for_end(self, run_ids: Sequence[str], *, seconds: float | None, every: bool) -> bool:
        """Wait until all of the runs (`every`), or one of them, have ended. Return False on timeout."""
        return await self._live.wait(run_ids, seconds=seconds, every=every)

    # ---- stop ---------------------------------------------------------------------------------

    async def stop_for(self, context: RunContext, run_id: str) -> RunView:
        """Stop a run for another of its tree. Return once all have ended: the caller shows it, no report follows."""
        (view,) = await self.find_in_tree(context, [run_id])
        if view.id in self._live.ancestors(context):
            raise Conflict("a run cannot stop itself or one it works for", fix="End with what you have.")
        with self.waits.stopping(view.id, context.run_id), context.attending():
            return await self.stop(view.id, seconds=None)

    async def stop(self, run_id: str, *, only: bool = False, seconds: float | None = _STOP_SECONDS) -> RunView:
        """Stop a run and, unless `only`, all runs below it; return its view after waiting `seconds` for their ends."""
        view = await self.find(run_id)
        if view.end is not None:
            raise Conflict(f"run {run_id} is already {view.status}", fix="Nothing is left to stop.")
        stopped = [live for live in self._live.subtree(run_id) if not only or live.run.id == run_id]
        for live in stopped:
            await self._halt(live)
        reach("teammate.halted")
        await self.wait_for_end([live.run.id for live in stopped], seconds=seconds, every=True)
        return await self.find(run_id)

    def _on_run_ended(self, event: Event) -> None:
        """Release what was held for an ended run. Stop its children if it was cancelled; otherwise they continue."""
        run_id, body = event.source.run_id, event.body
        self._delegations.release(event.source.root_id, run_id)
        if isinstance(body, RunEnded) and body.end.outcome is Outcome.CANCELLED:
            for view in self._live.children(run_id):
                if not view.run.spawn.outlives:
                    self._d.supervisor.start(f"stop {view.id}", self._stop_quietly(view.id))
        # For a spawned run, `_finish` does this after it has removed the run from the registry.
        if run_id not in self._live:
            self._deliveries.release(run_id)

    async def detach_children(self, run_id: str) -> None:
        """Let the children of a run continue when it is stopped."""
        await self._d.store.detach_children(run_id)
        for view in self._live.children(run_id):
            self._live[view.id].run = replace(view.run, spawn=replace(view.run.spawn, outlives=True))

    def close(self) -> None:
        """Start no more runs because the daemon stops. Unfinished runs are recovered at the next start."""
        self._closing = True
        self._concurrency.close()

    async def _stop_quietly(self, run_id: str) -> None:
        try:
            await self.stop(run_id)
        except MootError as error:
            logger.info("run %s had ended before it was stopped: %s", run_id, error.message)

    async def _halt(self, live: LiveRun) -> None:
        if self._concurrency.remove(live):
            await self._finish_queued(live)
        elif not self._d.runs.kill(live.run.key):
            # It has left the queue and is about to enter its lane.
            live.is_halted = True

    # ---- guards -------------------------------------------------------------------------------

    async def count_delegation(self, context: RunContext, agent: str, instruction: str = "") -> None:
        """Count work given to an agent; raise if that exceeds a limit of the turn, or repeats the instruction."""
        is_new = not context.root_id and self._d.runs.has_begun_here(context.key, context.run_id)
        tally = await self._delegations.of(context.root_id or context.run_id, user=context.run_id, is_new=is_new)
        try:
            check_not_done(agent, tally.list_completed(agent, instruction, parent=context.run_id, step=context.step))
            tally.count(context, agent, most=self._d.config().max_delegation_rounds)
        except MootError as error:
            self._note_recovery(context, action="refused", specialist=agent, cause=error.message)
            raise

    # ---- execution ----------------------------------------------------------------------------

    async def keep(self, run: Run) -> RunView:
        """Store a run and queue it. A run that is stored while the daemon stops starts at the next start."""
        try:
            kept = await self._d.store.spawn(run)
        except asyncio.CancelledError:
            if not self._closing:
                # The spawning run was stopped and never learns of this run, which is stored nevertheless: end it.
                ended = self._d.store.unqueue(run.id, make_cancelled_end(), now=self._d.clock.now())
                self._d.supervisor.start(f"take back {run.id}", ended)
            raise
        reach("teammate.spawned")
        return self.adopt(kept)

    def adopt(self, kept: Run) -> RunView:
        """Take up a run that was stored as queued."""
        if kept.id in self._live:
            return self._live[kept.id].view
        if kept.end is not None:
            return RunView(kept)
        live = self._live.add(kept)
        self._d.bus.publish(make_run_source(kept), build_spawned_event(kept))
        self._concurrency.enqueue(live)
        self._start_ready()
        return live.view

    def _start_ready(self) -> None:
        """Start queued runs while there are free slots."""
        for live in self._concurrency.take_ready():
            self._begin(live)

    def _begin(self, live: LiveRun) -> None:
        run = replace(live.run, request=build_request(live.run, self._d.partition()))
        live.block = Block()
        live.run = replace(live.run, status=RunStatus.RUNNING, started_at=run.started_at or self._d.clock.now())
        self._d.supervisor.start(f"teammate {run.id}", self._execute(live, run))

    async def _execute(self, live: LiveRun, run: Run) -> None:
        reach("teammate.begun")
        live.is_submitted = True
        try:
            stream = self._d.runs.resume(run) if live.is_resumed else await self._d.runs.submit(run.request)
        except MootError as error:
            # While the daemon stops, runs are refused; this one starts at the next start.
            if not self._closing:
                await self._finish_queued(live, RunEnd(outcome=Outcome.INTERNAL_ERROR, error=error.sentence))
            return
        if live.is_halted:
            self._d.runs.kill(run.key)
        try:
            end = await stream.wait_end(lambda event: self._note(live, event))
            live.is_end_published = True
        except MootError as error:
            if not self._closing:
                await self._finish_queued(live, RunEnd(outcome=Outcome.INTERNAL_ERROR, error=error.sentence))
            return
        await self._finish(live, end)

    def _note(self, live: LiveRun, event: Event) -> None:
        # The stream also contains asks of the children; these block the children, not this run.
        if isinstance(event.body, AskOpened | AskClosed) and event.body.ask.run_id == live.run.id:
            self._hold(live, closed=event.body.ask if isinstance(event.body, AskClosed) else None)

    def _hold(self, live: LiveRun, closed: Ask | None = None) -> None:
        """Update what blocks a run. A blocked run gives up its slot; an unblocked one takes it again."""
        live.waiting_on = tuple(self.waits.list_awaited(live.run.id))
        live.block = current_block(self._d.asks.list_local_of_run(live.run.id), live.waiting_on, closed)
        self.waits.update(live.run.id)
        if live.block.condition:
            self._concurrency.release(live.run.id)
            self._start_ready()
        elif live.run.id in self._live:
            self._concurrency.reacquire(live.run.id)

    @contextmanager
    def _attending(self, context: RunContext, run_ids: Sequence[str], clock: Deadline) -> Iterator[None]:
        """Mark a run as waiting for others during the block; it gives up its slot meanwhile."""
        live = self._live.get(context.run_id)
        try:
            with self.waits.waiting(context, run_ids, clock):
                if live is not None:
                    self._hold(live)
                context.emit(RunBlocked(Condition.WAITING, "it waits for its teammates", waiting_on=tuple(run_ids)))
                yield
        finally:
            if live is not None:
                self._hold(live)
            context.emit(RunUnblocked(Condition.WAITING))

    # ---- end ----------------------------------------------------------------------------------

    async def _finish_queued(self, live: LiveRun, end: RunEnd | None = None) -> None:
        """End a run that is in no lane: stopped in the queue, or refused. Retries until the store accepts the end."""
        while True:
            try:
                run = await self._d.store.get_run(live.run.id) or live.run
                stopped = make_cancelled_end(run.spent, _STOPPED_RESUMING if run.started_at else _STOPPED_QUEUED)
                ended = run.end or end or stopped
                if run.end is None:
                    with suppress(Fenced):  # The daemon that took the run over ends it.
                        await end_unfinished(self._d, LeftRun(run=run), ended)
                break
            except StoreError as error:
                logger.warning("the end of run %s waits for the disk: %s", live.run.id, error.message)
            await self._d.clock.sleep(_DISK_SECONDS)
        await self._finish(live, ended)

    async def _finish(self, live: LiveRun, end: RunEnd) -> None:
        """Remove an ended run from the registry, publish its end and deliver its result, once the end is on disk."""
        while self._d.runs.owes_end(live.run.id):
            with suppress(StoreError):
                await self._d.runs.settle_owed()
                break
            await self._d.clock.sleep(_DISK_SECONDS)
        run = live.run = replace(live.run, status=RunStatus.ENDED, end=end, ended_at=self._d.clock.now())
        live.block = Block()
        reach("teammate.ended")
        if end.outcome is not Outcome.COMPLETED:
            # No report mentions the background commands it left running, so they are stopped.
            self._d.stop(run.key)
        self._delegations.record_end(run)
        self._live.remove(run)
        self.waits.update(run.id)
        if not live.is_end_published:
            # It ended without a turn: stopped in the queue, or refused.
            self._d.bus.publish(make_run_source(run), RunEnded(run.agent, end))
        live.over.set()
        self._concurrency.release(run.id)
        self._start_ready()
        self._deliveries.settle([run])
        self._deliveries.release(run.id)

    def new_id(self) -> str:
        return f"arun-{self._d.rng.getrandbits(64):016x}"
