"""The scheduler fires what is due, once, and sleeps until then. The clock is moved by hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from msgspec.structs import replace

from moot.automation.scheduler import Scheduler, SchedulerDependencies
from moot.automation.workflow_start import WorkflowStart, make_launch
from moot.daemon.clock import ManualClock, SystemClock
from moot.domain.conversation import ConversationKey
from moot.domain.cron_job import CronJob, JobIsolation, MissedRule, SkipReason
from moot.domain.errors import Unavailable
from moot.domain.ports.storage import Storage
from moot.domain.run import Outcome, Run, RunEnd
from moot.domain.schedule import Schedule, ScheduleKind
from moot.domain.senders import SenderSet
from moot.domain.workflow import Workflow, WorkflowLaunch, WorkflowRun, WorkflowStatus
from moot.domain.workflow_file import parse_workflow
from moot.engine.supervisor import Supervisor
from moot.store.memory.storage import open_memory_storage

OWNER = ConversationKey("moot", "user")
START = 1_000_000.0
EVERYONE = SenderSet(is_everyone=True)
FLOW = "name: demo\nsteps: [{id: a, prompt: go}]"
EVERY = Schedule(kind=ScheduleKind.EVERY, text="60s")


class Starter:
    """Takes up runs, and executes none."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._made = 0

    def new_id(self) -> str:
        self._made += 1
        return f"arun-{self._made}"

    def adopt(self, kept: Run) -> object:
        self.runs.append(kept)
        return None


class Flows:
    """Takes up runs of workflows, and executes none."""

    is_closing = False

    def __init__(self) -> None:
        self.runs: list[WorkflowRun] = []
        self.refuses = False

    async def prepare(self, start: WorkflowStart) -> WorkflowLaunch:
        if self.refuses:
            raise Unavailable("workflows are disabled")
        return make_launch(start, parse_workflow(start.source), now=START, rng=Random(len(self.runs)))

    def adopt(self, run: WorkflowRun, workflow: Workflow) -> object:
        self.runs.append(run)
        return None


class World:
    """A scheduler over storage in memory."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.clock = ManualClock(START)
        self.starter = Starter()
        self.flows = Flows()
        self.is_enabled = True
        self.supervisor = Supervisor(self.clock)
        self.scheduler = Scheduler(
            SchedulerDependencies(
                jobs=storage.cron,
                starter=self.starter,
                workflows=self.flows,
                is_enabled=lambda: self.is_enabled,
                clock=self.clock,
                supervisor=self.supervisor,
            )
        )

    async def add(self, **fields: object) -> CronJob:
        made = CronJob(
            id="cron-1",
            owner=OWNER,
            name="news",
            agent="moot",
            prompt="What is new?",
            schedule=EVERY,
            next_at=self.clock.now() + 60,
        )
        job, _ = await self.storage.cron.save(replace(made, **fields))
        self.scheduler.wake()
        return job

    async def advance(self, seconds: float, *, step: float = 1.0) -> None:
        """Let time pass. The scheduler gets to do what it does between two timers."""
        while seconds > 0:
            await self.clock.advance(min(step, seconds))
            await self.settle()
            seconds -= step

    async def settle(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    async def end_runs(self) -> None:
        for run in self.starter.runs:
            await self.storage.store.unqueue(run.id, RunEnd(outcome=Outcome.COMPLETED), now=self.clock.now())

    async def firings(self) -> list[tuple[float, str, SkipReason | None]]:
        found = await self.storage.cron.list_firings(SenderSet(is_everyone=True), limit=100)
        return [(each.firing.due_at - START, each.firing.run_id, each.firing.skipped) for each in reversed(found)]


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World(await open_memory_storage(SystemClock()))
    made.scheduler.start()
    try:
        yield made
    finally:
        await made.supervisor.stop()


async def test_a_job_fires_at_its_time_and_again_after_its_interval() -> None:
    async with world() as here:
        await here.add()
        await here.advance(59.5)
        assert here.starter.runs == []
        await here.advance(0.5)
        (run,) = here.starter.runs
        assert (run.key.sender, run.root, run.instruction) == ("cron:cron-1.arun-1:user", OWNER, "What is new?")
        await here.end_runs()
        await here.advance(60)
        assert [run.id for run in here.starter.runs] == ["arun-1", "arun-2"]
        assert await here.firings() == [(60, "arun-1", None), (120, "arun-2", None)]


async def test_a_firing_is_skipped_while_a_run_has_not_ended() -> None:
    async with world() as here:
        await here.add(conversation_mode=JobIsolation.MAIN)
        await here.advance(180)
        assert await here.firings() == [
            (60, "arun-1", None),
            (120, "", SkipReason.RUNNING),
            (180, "", SkipReason.RUNNING),
        ]
        await here.end_runs()
        await here.advance(60)
        assert {run.key.sender for run in here.starter.runs} == {"cron:cron-1:user"}
        assert len(here.starter.runs) == 2


async def test_a_scheduled_workflow_runs_once_for_a_firing_and_not_beside_itself() -> None:
    async with world() as here:
        await here.add(prompt="", workflow=FLOW, taint=frozenset({"web"}), cwd="/work")
        await here.advance(120)
        (run,) = here.flows.runs
        assert (run.name, run.owner, run.origin, run.cwd) == ("demo", "user", OWNER, "/work")
        assert (run.taint, run.start_key) == (frozenset({"web"}), f"cron-1/{START + 60}")
        assert await here.firings() == [(60, run.id, None), (120, "", SkipReason.RUNNING)]
        await here.storage.workflows.end(run.id, WorkflowStatus.COMPLETED, now=START + 130)
        here.flows.refuses = True
        await here.advance(60)
        assert (await here.firings())[-1] == (180, "", SkipReason.REFUSED)
        assert [each.id for each in await here.storage.workflows.list_runs(EVERYONE, limit=9)] == [run.id]


async def test_missed_firings_are_made_up_for_once_or_skipped() -> None:
    async with world() as here:
        # As after a time when no daemon was running: they were due 10 and 5 minutes ago.
        await here.add(next_at=START - 600)
        await here.add(id="cron-2", name="late", missed=MissedRule.SKIP, next_at=START - 300)
        # Just late, which is not missed.
        await here.add(id="cron-3", name="busy", missed=MissedRule.SKIP, next_at=START - 59)
        await here.settle()
        assert await here.firings() == [(-600, "arun-1", None), (-300, "", SkipReason.MISSED), (-59, "arun-2", None)]
        jobs = {job.name: job.next_at for job in await here.storage.cron.list_jobs()}
        # The phase is kept.
        assert jobs == {"news": START + 60, "late": START + 60, "busy": START + 1}


async def test_a_one_time_job_is_done_and_what_is_off_or_paused_does_not_fire() -> None:
    async with world() as here:
        once = Schedule(kind=ScheduleKind.AT, text="1970-01-12T13:47:00Z")
        await here.add(schedule=once)
        await here.add(id="cron-2", name="paused", is_paused=True, next_at=None)
        here.is_enabled = False
        here.scheduler.wake()
        await here.advance(100)
        assert here.starter.runs == []
        here.is_enabled = True
        here.scheduler.wake()
        await here.settle()
        assert [run.id for run in here.starter.runs] == ["arun-1"]
        assert {job.name: job.status for job in await here.storage.cron.list_jobs()} == {
            "news": "done",
            "paused": "paused",
        }


async def test_a_clock_that_was_set_forward_is_noticed() -> None:
    async with world() as here:
        await here.add(next_at=START + 36_000)
        await here.advance(30)
        # As if the computer had slept for ten hours.
        here.clock._start += 36_000
        await here.advance(60)
        assert len(here.starter.runs) == 1


async def test_jobs_continue_at_once_after_the_clock_was_set_back() -> None:
    async with world() as here:
        once = Schedule(kind=ScheduleKind.AT, text="1970-01-12T18:46:40Z")
        await here.add()
        await here.add(id="cron-2", name="daily", schedule=replace(EVERY, kind=ScheduleKind.CRON, text="0 4 * * *"))
        await here.add(id="cron-3", name="once", schedule=once, next_at=START + 18_000)
        await here.advance(60)
        await here.end_runs()
        # By less than a minute: instants that have fired do not fire again.
        here.clock._start -= 30
        await here.advance(60)
        assert [due_at for due_at, *_ in await here.firings() if due_at > 60] == []
        here.clock._start -= 36_000
        # It is noticed within a minute.
        await here.advance(61)
        times = {job.name: (job.next_at or 0) - START for job in await here.storage.cron.list_jobs()}
        assert times == {"news": -35_820, "daily": -35_200, "once": 18_000}
        await here.advance(60)
        assert [due_at for due_at, *_ in await here.firings() if due_at < 0] == [-35_820]


async def test_ten_thousand_jobs_are_one_timer() -> None:
    async with world() as here:
        for number in range(200):
            await here.add(id=f"cron-{number}", name=f"job {number}", next_at=START + 3_600 + number)
        await here.advance(10)
        assert sum(not timer.is_cancelled for _, _, timer in here.clock._timers) == 1
        await here.advance(3_600 + 5, step=5)
        assert len(here.starter.runs) == 16
