"""WorkflowExecutor: starts the steps of workflows as background runs, and goes on with them after a restart.

Works with domain/workflow.py (which steps are ready), step_concurrency.py (whose turn it is), multiagent/teammates and
workflow_reports.py. The intent to make an attempt is a row that is stored before its run is.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from random import Random
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from moot.automation.active_workflow import ActiveWorkflow, judge
from moot.automation.step_concurrency import StepConcurrency
from moot.automation.step_records import StepRecords
from moot.automation.watchers import Watchers
from moot.automation.workflow_reports import WorkflowReports, render_report, render_step_report
from moot.automation.workflow_start import WorkflowStart, make_launch, make_step_run, read_workflow
from moot.domain.automation_config import WorkflowConfig
from moot.domain.errors import Busy, Conflict, Fenced, MootError, NotFound, StoreError, Unavailable
from moot.domain.events import AskClosed, AskOpened, Event, RunBlocked, RunUnblocked
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.domain.ports.workflows import Workflows
from moot.domain.run import Run
from moot.domain.senders import SenderSet
from moot.domain.workflow import (
    Progress,
    StepAttempt,
    StepResult,
    StepState,
    Workflow,
    WorkflowLaunch,
    WorkflowReport,
    WorkflowRun,
    WorkflowStatus,
    WorkflowStep,
    has_another_attempt,
    read_result,
    render_prompt,
)
from moot.domain.workflow_file import BadWorkflow
from moot.domain.workflow_view import WorkflowView, make_view, replay
from moot.engine.bus import Bus
from moot.engine.request_factory import RequestFactory
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor
from moot.failpoint import reach
from moot.multiagent.teammates.teammates import Teammates

T = TypeVar("T")

logger = logging.getLogger(__name__)

# How many workflows of one owner may run at once.
MOST_RUNNING = 200
# The delay before a failed write is retried.
_DISK_SECONDS = 1.0


class WorkflowDependencies(Struct, frozen=True, kw_only=True):
    workflows: Workflows
    store: Store
    teammates: Teammates
    runs: Runs
    requests: RequestFactory
    # The names of all agents.
    agents: Callable[[], Collection[str]]
    config: Callable[[], WorkflowConfig]
    # Masks secrets in a text.
    redact: Callable[[str], str]
    supervisor: Supervisor
    bus: Bus
    clock: Clock
    rng: Random


class WorkflowExecutor:
    def __init__(self, dependencies: WorkflowDependencies) -> None:
        self._d = d = dependencies
        self._active: dict[str, ActiveWorkflow] = {}
        self._concurrency = StepConcurrency(lambda: d.config().max_parallel)
        self._reports = WorkflowReports(
            workflows=d.workflows, runs=d.runs, supervisor=d.supervisor, clock=d.clock, rng=d.rng
        )
        self._records = StepRecords(workflows=d.workflows, store=d.store, teammates=d.teammates)
        # Told when a workflow may have changed.
        self.watchers = Watchers()
        self._closing = False
        d.bus.observe(self._on_waiting, AskOpened, AskClosed, RunBlocked, RunUnblocked)

    # ---- start --------------------------------------------------------------------------------

    async def parse(self, source: str, *, file: str = "") -> Workflow:
        """Return the workflow of a text. Raise BadWorkflow with all its mistakes."""
        return await read_workflow(source, file=file, agents=self._d.agents())

    def redact(self, source: str) -> str:
        """Return a text without secrets."""
        return self._d.redact(source)

    async def start(self, start: WorkflowStart) -> WorkflowRun:
        """Start a workflow; its steps begin as soon as there are places. The same start is made once."""
        self._require_enabled()
        start = replace(start, source=self._d.redact(start.source))
        workflow = await self.parse(start.source, file=start.file)
        owned = sum(active.run.owner == start.owner for active in self._active.values())
        if owned >= MOST_RUNNING:
            raise Busy(f"{owned} workflows are running already", fix="Wait for some of them, or cancel them.")
        made = make_launch(start, workflow, now=self._d.clock.now(), rng=self._d.rng)
        run = await self._d.workflows.create(made.run, made.reports)
        reach("workflow.created")
        self.adopt(run, workflow)
        return run

    async def prepare(self, start: WorkflowStart) -> WorkflowLaunch:
        """Return the run of a start whose text was checked before. Whoever stores it calls `adopt`."""
        self._require_enabled()
        workflow = await read_workflow(start.source)
        return make_launch(start, workflow, now=self._d.clock.now(), rng=self._d.rng)

    def adopt(self, run: WorkflowRun, workflow: Workflow) -> None:
        """Begin with a run that was stored."""
        if run.id not in self._active and not run.ended_at:
            self._activate(ActiveWorkflow(run, Progress(workflow)))

    def _require_enabled(self) -> None:
        if self._closing:
            raise Unavailable("the daemon is shutting down", fix="Try again once the daemon is back.")
        if not self._d.config().enabled:
            raise Unavailable("workflows are disabled", fix="Set `enabled` under [workflow] in config.toml.")

    def _activate(self, active: ActiveWorkflow) -> None:
        self._active[active.run.id] = active
        self._concurrency.add(active)
        self._continue_run(active)

    @property
    def is_closing(self) -> bool:
        """Whether the daemon stops."""
        return self._closing

    def close(self) -> None:
        """Start no more steps because the daemon stops. Unfinished workflows go on at the next start."""
        self._closing = True

    # ---- recovery -----------------------------------------------------------------------------

    async def recover(self) -> None:
        """Go on with the workflows that a daemon left, and deliver the reports that are owed."""
        for run in await self._d.workflows.recover():
            try:
                workflow = await read_workflow(run.source)
            except BadWorkflow as error:
                # It was written by a version that accepted it.
                await self._d.workflows.end(run.id, WorkflowStatus.FAILED, error=error.message, now=self._d.clock.now())
                continue
            await self._resume(run, workflow)
        await self._deliver_owed()

    async def _resume(self, run: WorkflowRun, workflow: Workflow) -> None:
        attempts = await self._records.list_attempts(run.id)
        replayed = replay(workflow, attempts, await self._records.load_taints(attempts))
        active = ActiveWorkflow(run, replayed.progress)
        active.attempts = {step: attempt.attempt for step, attempt in replayed.last.items()}
        for name in replayed.unfinished:
            attempt = replayed.last[name]
            step = active.progress.steps[name]
            if attempt.run is not None and attempt.run.end is not None:
                self._retry_later(active, step, attempt.run)
            elif attempt.run is not None or not active.is_cancelled:
                # A run that was not stored is started under the id that its attempt has.
                self._begin(active, step, attempt)
        if active.is_cancelled:
            self._d.supervisor.start(f"cancel {run.id}", self._stop_steps(active))
        self._activate(active)

    async def _deliver_owed(self) -> None:
        for run_id in dict.fromkeys(run_id for run_id, _ in await self._d.workflows.list_owed()):
            run = await self._d.workflows.get(run_id)
            if run is not None and run.ended_at:
                with suppress(BadWorkflow):
                    await self._report(run, await self._records.load_progress(run))

    # ---- execution ----------------------------------------------------------------------------

    def _continue_run(self, active: ActiveWorkflow) -> None:
        """Start what can be started, end the workflow if it is over, and tell those who watch it."""
        self._start_ready_steps()
        if active.is_over and not self._closing:
            self._concurrency.remove(active)
            if self._active.pop(active.run.id, None) is not None:
                self._d.supervisor.start(f"end {active.run.id}", self._end(active))
        self.watchers.notify(active.run.id)

    def _start_ready_steps(self) -> None:
        while not self._closing:
            active = self._concurrency.find_next()
            if not isinstance(active, ActiveWorkflow):
                return
            step = active.progress.take_ready()
            number = active.attempts[step.id] = active.attempts.get(step.id, 0) + 1
            self._begin(active, step, StepAttempt(step=step.id, attempt=number, run_id=self._d.teammates.new_id()))

    def _begin(self, active: ActiveWorkflow, step: WorkflowStep, attempt: StepAttempt) -> None:
        active.running[step.id] = attempt.run_id
        self._concurrency.start(attempt.run_id)
        self._d.supervisor.start(f"{active.run.id} {step.id}", self._execute(active, step, attempt))

    async def _execute(self, active: ActiveWorkflow, step: WorkflowStep, attempt: StepAttempt) -> None:
        """Make one attempt at a step: store it, run it, and record its end."""
        run: Run | None = None
        try:
            run = await self._attempt(active, step, attempt)
            taint = await self._records.find_taint(run)
            result = read_result(run, taint)
        except Fenced as error:
            logger.warning("workflow %s is left to another daemon: %s", active.run.id, error.message)
            self._drop(active)
            return
        except MootError as error:
            if self._closing:
                return
            state = StepState.CANCELLED if active.is_cancelled else StepState.FAILED
            result = StepResult(state=state, error=error.sentence, taint=active.run.taint)
        finally:
            self._concurrency.release(attempt.run_id)
        if active.running.pop(step.id, None) is None:
            return
        reach("workflow.stepped")
        can_retry = not (active.is_cancelled or active.progress.has_failed)
        if run is not None and can_retry and has_another_attempt(step, attempt.attempt, run):
            self._retry_later(active, step, run)
        else:
            active.progress.finish(step.id, result)
            await self._report_step(active, step, result)
        self._continue_run(active)

    async def _attempt(self, active: ActiveWorkflow, step: WorkflowStep, attempt: StepAttempt) -> Run:
        """Return the ended run of an attempt. One that was stored before is awaited, not started again."""
        run = attempt.run
        if run is None:
            stored = await self._write(lambda: self._d.workflows.start_attempt(active.run.id, attempt))
            reach("workflow.intended")
            run = stored.run or await self._start_run(active, step, attempt)
            reach("workflow.started")
            self.watchers.notify(active.run.id)
        if active.is_cancelled:
            await self._stop(run.id)
        await self._d.teammates.wait_for_end([run.id], seconds=None, every=True)
        ended = (await self._d.teammates.find(run.id)).run
        if ended.end is None:
            raise Fenced(f"another daemon goes on with run {run.id}")
        return ended

    async def _start_run(self, active: ActiveWorkflow, step: WorkflowStep, attempt: StepAttempt) -> Run:
        content, taint = render_prompt(step, active.progress.results)
        made = make_step_run(
            active.run,
            step,
            content,
            run_id=attempt.run_id,
            attempt=attempt.attempt,
            taint=taint | active.run.taint,
            now=self._d.clock.now(),
        )
        # The same checks and redaction as for a turn.
        request = await self._d.requests.turn(made.key, content)
        view = await self._write(
            lambda: self._d.teammates.keep(replace(made, request=replace(made.request, content=request.content)))
        )
        return view.run

    async def _write(self, write: Callable[[], Awaitable[T]]) -> T:
        """Write until the disk accepts it."""
        while True:
            try:
                return await write()
            except Fenced:
                raise
            except StoreError as error:
                logger.warning("a workflow waits for the disk: %s", error.message)
            await self._d.clock.sleep(_DISK_SECONDS)

    def _retry_later(self, active: ActiveWorkflow, step: WorkflowStep, run: Run) -> None:
        active.retrying.add(step.id)
        seconds = max(0.0, run.ended_at + step.retry.delay - self._d.clock.now())
        self._d.supervisor.start(f"{active.run.id} {step.id} again", self._retry(active, step, seconds))

    async def _retry(self, active: ActiveWorkflow, step: WorkflowStep, seconds: float) -> None:
        await self._d.clock.sleep(min(seconds, step.retry.delay))
        active.retrying.discard(step.id)
        active.progress.put_back(step.id)
        if active.run.id in self._active:
            self._continue_run(active)

    def _drop(self, active: ActiveWorkflow) -> None:
        self._active.pop(active.run.id, None)
        self._concurrency.remove(active)

    # ---- end ----------------------------------------------------------------------------------

    async def _end(self, active: ActiveWorkflow) -> None:
        status, error = judge(active)
        try:
            run = await self._write(
                lambda: self._d.workflows.end(active.run.id, status, error=error, now=self._d.clock.now())
            )
        except Fenced as fenced:
            logger.warning("workflow %s is left to another daemon: %s", active.run.id, fenced.message)
            return
        reach("workflow.ended")
        self.watchers.notify(run.id)
        await self._report(run, active.progress)

    async def _report_step(self, active: ActiveWorkflow, step: WorkflowStep, result: StepResult) -> None:
        if step.deliver_to:
            for _, report in await self._d.workflows.list_owed(active.run.id):
                if report.step == step.id:
                    self._deliver_step(active.run, report, result)

    def _deliver_step(self, run: WorkflowRun, report: WorkflowReport, result: StepResult) -> None:
        content = render_step_report(run, report.step, result)
        self._reports.deliver(run, report, content, run.taint | result.taint)

    async def _report(self, run: WorkflowRun, progress: Progress) -> None:
        """Deliver all reports of an ended workflow that are owed."""
        results = progress.results
        for _, report in await self._d.workflows.list_owed(run.id):
            if not report.step:
                taint = run.taint.union(*(result.taint for result in results.values()))
                self._reports.deliver(run, report, render_report(run, progress.workflow, results), taint)
            elif report.step in results and results[report.step].state is not StepState.SKIPPED:
                self._deliver_step(run, report, results[report.step])

    # ---- cancel -------------------------------------------------------------------------------

    async def cancel(self, run_id: str, senders: SenderSet) -> WorkflowRun:
        """Start no more steps of a workflow and stop those that run. Returns once that is decided on disk."""
        await self.require(run_id, senders)
        run = await self._d.workflows.cancel(run_id, now=self._d.clock.now())
        if run is None:
            raise NotFound(f"workflow run {run_id!r} was not found or is not running")
        reach("workflow.cancelled")
        active = self._active.get(run_id)
        if active is not None:
            active.run = run
            await self._stop_steps(active)
            self._continue_run(active)
        return run

    async def _stop_steps(self, active: ActiveWorkflow) -> None:
        for run_id in list(active.running.values()):
            await self._stop(run_id)

    async def _stop(self, run_id: str) -> None:
        # It may have ended, or not have been stored; in that case it is stopped once it is.
        with suppress(Conflict, NotFound):
            await self._d.teammates.stop(run_id, seconds=0)

    # ---- find ---------------------------------------------------------------------------------

    async def require(self, run_id: str, senders: SenderSet) -> WorkflowRun:
        """Return a run of these senders; raise NotFound for any other."""
        run = await self._d.workflows.get(run_id)
        if run is None or not senders.includes(run.owner):
            raise NotFound(f"there is no workflow run {run_id!r}", fix="`moot workflow history` lists them.")
        return run

    def find_active(self, run_id: str) -> ActiveWorkflow | None:
        """Return a workflow if it runs here."""
        return self._active.get(run_id)

    async def view(self, run: WorkflowRun) -> WorkflowView:
        """Return a run with the states of its steps."""
        attempts = await self._records.list_attempts(run.id)
        active = self._active.get(run.id)
        running = active.running.values() if active else ()
        waiting = frozenset(each for each in running if self._concurrency.is_waiting(each))
        workflow = active.progress.workflow if active else await read_workflow(run.source)
        return make_view(run, workflow, attempts, waiting)

    async def find_taint(self, run: WorkflowRun) -> frozenset[str]:
        """Return the taint of what a view of the run shows, also of steps that run, wait or are tried again."""
        return await self._records.find_shown_taint(run)

    def _on_waiting(self, event: Event) -> None:
        """A step that waits makes room for another."""
        self._concurrency.note(event)
        if self._active:
            self._start_ready_steps()
            for run_id, active in self._active.items():
                if event.source.run_id in active.running.values():
                    self.watchers.notify(run_id)
