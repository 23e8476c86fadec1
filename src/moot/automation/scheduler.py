"""Scheduler: fires the jobs that are due. One task sleeps until the next of them; changes of jobs wake it.

Works with store/cron_jobs.py, which decides in one transaction whether a firing is the first one, and with teammates,
which execute the run. A daemon that is killed after the transaction finds the queued run when it starts.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from moot.automation.workflow_start import WorkflowStart
from moot.domain.cron_job import MISSED_SECONDS, CronJob, Firing, MissedRule, SkipReason, make_job_run
from moot.domain.errors import Conflict, MootError, NotFound
from moot.domain.ports.clock import Clock
from moot.domain.ports.cron import CronStore
from moot.domain.run import Run
from moot.domain.workflow import Workflow, WorkflowLaunch, WorkflowRun
from moot.engine.supervisor import Supervisor
from moot.failpoint import reach

logger = logging.getLogger(__name__)

# Jobs read at once; the others are due with the next round.
_BATCH = 100
# The clock may be set, and stands still for timers while the computer sleeps, so it is compared again after this time.
_LONGEST_SLEEP = 60.0
_TRY_AGAIN_SECONDS = 1.0
# How far the clock must have been set back until the times of jobs are computed again.
_SET_BACK_SECONDS = 60.0
# Jobs whose times are computed before others have their turn.
_SLICE = 100


class RunStarter(Protocol):
    """Executes background runs: the teammates."""

    def new_id(self) -> str: ...
    def adopt(self, kept: Run) -> object:
        """Take up a run that was stored as queued."""
        ...


class WorkflowStarter(Protocol):
    """Executes workflows: the WorkflowExecutor."""

    @property
    def is_closing(self) -> bool:
        """Whether the daemon stops."""
        ...

    async def prepare(self, start: WorkflowStart) -> WorkflowLaunch: ...
    def adopt(self, run: WorkflowRun, workflow: Workflow) -> object:
        """Begin with a run that was stored."""
        ...


class SchedulerDependencies(Struct, frozen=True, kw_only=True):
    jobs: CronStore
    starter: RunStarter
    workflows: WorkflowStarter
    # Whether jobs fire.
    is_enabled: Callable[[], bool]
    clock: Clock
    supervisor: Supervisor


class Scheduler:
    def __init__(self, dependencies: SchedulerDependencies) -> None:
        self._d = dependencies
        self._jobs = dependencies.jobs
        self._clock = dependencies.clock
        self._changed = asyncio.Event()
        # The latest time that the clock has had; None until it is read from the firings of an earlier daemon.
        self._latest: float | None = None

    def start(self) -> None:
        """Fire jobs from now on. Call it once the runs of an earlier daemon are recovered."""
        self._d.supervisor.start("fire scheduled jobs", self._run())

    def wake(self) -> None:
        """Look again when the next job is due: jobs or the configuration have changed."""
        self._changed.set()

    async def fire_now(self, job: CronJob) -> str:
        """Start a run of a job at once and return its id; the schedule stays as it is."""
        now = self._clock.now()
        work = await self._make_work(job, now, now)
        firing = Firing(job_id=job.id, due_at=now, fired_at=now, is_manual=True)
        fired = await self._jobs.fire(job, firing, work, next_at=job.next_at)
        if fired is None:
            if await self._jobs.get(job.id) is None:
                raise NotFound(f"there is no job {job.name!r} any more")
            raise Conflict(f"{job.name} is firing now", fix="Try again.")
        reach("cron.fired")
        self._begin(work)
        return fired.run_id

    async def _make_work(self, job: CronJob, due_at: float, now: float) -> Run | WorkflowLaunch:
        """Return what a firing starts: a run with the prompt, or a run of the workflow."""
        if not job.workflow:
            return make_job_run(job, run_id=self._d.starter.new_id(), due_at=due_at, now=now)
        return await self._d.workflows.prepare(
            WorkflowStart(
                source=job.workflow,
                owner=job.owner.sender,
                origin=job.owner if job.delivers else None,
                report_to=job.report_to,
                start_key=f"{job.id}/{due_at}",
                cwd=job.cwd,
                search_path=job.search_path,
                taint=job.taint,
                cause=job.cause,
            )
        )

    def _begin(self, work: Run | WorkflowLaunch) -> None:
        if isinstance(work, WorkflowLaunch):
            self._d.workflows.adopt(work.run, work.workflow)
        else:
            self._d.starter.adopt(work)

    async def _run(self) -> None:
        logged = ""
        while True:
            self._changed.clear()
            try:
                await self._sleep(await self._fire_due())
                logged = ""
            except MootError as error:
                if error.message != logged:
                    logged = error.message
                    logger.warning("scheduled jobs wait: %s", logged)
                await self._sleep(_TRY_AGAIN_SECONDS)

    async def _sleep(self, seconds: float | None) -> None:
        """Sleep until the time is up, or until something has changed."""
        with suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await self._changed.wait()

    async def _fire_due(self) -> float | None:
        """Fire what is due; return the seconds until it has to be called again, None if only after a change."""
        if not self._d.is_enabled():
            return None
        due_at = await self._jobs.find_next_due()
        if due_at is None:
            return None
        if await self._is_set_back():
            await self._compute_again()
            return 0.0
        left = due_at - self._clock.now()
        if left > 0:
            return min(left, _LONGEST_SLEEP)
        failed: MootError | None = None
        for job in await self._jobs.list_due(self._clock.now(), limit=_BATCH):
            try:
                await self._fire(job)
            except MootError as error:
                # Another daemon may own its conversation. The others must not wait for it.
                failed = error
        if failed is not None:
            raise failed
        return 0.0

    async def _is_set_back(self) -> bool:
        """Whether the clock was ahead when jobs fired or were looked at last."""
        now, latest = self._clock.now(), self._latest
        if latest is None:
            latest = await self._jobs.find_last_fired()
        self._latest = now
        return latest - now > _SET_BACK_SECONDS

    async def _compute_again(self) -> None:
        """Have jobs fire at their next times from now on, instead of once the clock is where it was."""
        now, times = self._clock.now(), dict[str, tuple[float, float]]()
        for number, job in enumerate(await self._jobs.list_jobs()):
            earlier = job.find_earlier(now)
            if earlier is not None and job.next_at is not None:
                times[job.id] = (job.next_at, earlier)
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        logger.warning("the clock was set back; scheduled jobs that continue from now on: %s", len(times))
        if times:
            await self._jobs.move(times)

    async def _fire(self, job: CronJob) -> None:
        """Fire a job that is due, or record that its firing is skipped."""
        now, due_at = self._clock.now(), job.next_at
        assert due_at is not None, "the store lists jobs that are due"
        firing, work = Firing(job_id=job.id, due_at=due_at, fired_at=now), None
        if job.missed is MissedRule.SKIP and now - due_at > MISSED_SECONDS:
            firing = replace(firing, skipped=SkipReason.MISSED)
        else:
            try:
                work = await self._make_work(job, due_at, now)
            except MootError as error:
                if self._d.workflows.is_closing:
                    # It stays due, and fires when the daemon is back.
                    raise
                logger.warning("schedule %s (%s) cannot start its workflow: %s", job.name, job.id, error.message)
                firing = replace(firing, skipped=SkipReason.REFUSED)
        reach("cron.due")
        fired = await self._jobs.fire(job, firing, work, next_at=job.find_following(now))
        reach("cron.fired")
        if fired is None:
            return
        if work is not None and fired.run_id:
            self._begin(work)
            reach("cron.started")
        else:
            logger.info("schedule %s (%s) skipped a firing: %s", job.name, job.id, fired.skipped)
