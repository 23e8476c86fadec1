"""CronJobs: adds, finds, pauses, resumes and removes scheduled jobs. Used by cron_tools and daemon/requests/cron.py."""

from collections.abc import Callable
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from moot.automation.scheduler import Scheduler
from moot.automation.workflow_executor import WorkflowExecutor
from moot.domain.conversation import ConversationKey
from moot.domain.cron_job import (
    CronJob,
    FiringRecord,
    JobIsolation,
    JobStatus,
    check_job_name,
    check_prompt,
    parse_conversation_mode,
    parse_delivery,
    parse_missed_rule,
    parse_timeout,
)
from moot.domain.errors import BadRequest, Conflict, NotFound, Unavailable
from moot.domain.ids import make_id
from moot.domain.near_names import suggest_name
from moot.domain.ports.clock import Clock
from moot.domain.ports.cron import CronStore
from moot.domain.run import NO_MAIL_CAUSE, MailCause
from moot.domain.schedule import Schedule, ScheduleKind, parse_schedule
from moot.domain.senders import SenderSet
from moot.domain.workflow_file import read_taint
from moot.engine.request_factory import RequestFactory
from moot.engine.run_results import Entries, load_result


class JobDraft(Struct, frozen=True, kw_only=True):
    """A job as it was asked for, not checked yet. Empty values mean the default."""

    name: str
    schedule_type: str
    schedule: str
    agent: str
    prompt: str = ""
    # The text of a workflow instead of a prompt, and the name of its file for errors.
    workflow: str = ""
    file: str = ""
    zone: str = ""
    conversation_mode: str = ""
    missed: str = ""
    deliver_to: tuple[str, ...] = ()
    timeout: str = ""
    cwd: str = ""
    search_path: str = ""
    taint: frozenset[str] = frozenset()
    # The cause of the run that asks for it.
    cause: MailCause = NO_MAIL_CAUSE


class CronJobDependencies(Struct, frozen=True, kw_only=True):
    store: CronStore
    # The histories of runs.
    entries: Entries
    scheduler: Scheduler
    workflows: WorkflowExecutor
    requests: RequestFactory
    is_enabled: Callable[[], bool]
    # Returns the IANA name of the time zone of this computer.
    find_local_zone: Callable[[], str]
    redact: Callable[[str], str]
    clock: Clock
    rng: Random


class CronJobs:
    def __init__(self, dependencies: CronJobDependencies) -> None:
        self._d = dependencies
        self._store = dependencies.store

    @property
    def is_enabled(self) -> bool:
        """Whether jobs fire at their times."""
        return self._d.is_enabled()

    async def add(self, owner: ConversationKey, draft: JobDraft) -> tuple[CronJob, bool]:
        """Check and store a job; one of the same name is replaced. Return it, and whether it is new."""
        return await self.save(await self.check(owner, draft))

    async def save(self, job: CronJob) -> tuple[CronJob, bool]:
        """Store a job that was checked."""
        saved, is_new = await self._store.save(job)
        self._d.scheduler.wake()
        return saved, is_new

    async def check(self, owner: ConversationKey, draft: JobDraft) -> CronJob:
        """Return the job of a draft. Raise an error if it cannot be one."""
        self._require_enabled()
        now = self._d.clock.now()
        self._d.requests.resolve_agent(draft.agent)
        schedule = self.parse_schedule(draft.schedule_type, draft.schedule, draft.zone)
        job = CronJob(
            id=make_id("cron", now=now, rng=self._d.rng),
            owner=owner,
            name=check_job_name(draft.name),
            agent=draft.agent,
            prompt="" if draft.workflow else self._d.redact(check_prompt(draft.prompt)),
            workflow=await self._check_workflow(draft),
            schedule=schedule,
            conversation_mode=parse_conversation_mode(draft.conversation_mode),
            missed=parse_missed_rule(draft.missed),
            delivery=parse_delivery(draft.deliver_to),
            timeout=parse_timeout(draft.timeout),
            cwd=draft.cwd,
            search_path=draft.search_path,
            taint=draft.taint | read_taint(draft.workflow),
            cause=draft.cause if schedule.kind is ScheduleKind.AT else NO_MAIL_CAUSE,
            created_at=now,
            updated_at=now,
            next_at=schedule.find_next(now, anchor=now),
        )
        if job.prompt:
            self._d.requests.check_content(job.prompt, "prompt")
        return job

    def parse_schedule(self, kind: str, text: str, zone: str) -> Schedule:
        """Return a schedule, in the zone of this computer unless it has one. Raise BadRequest if it is never due."""
        zone = zone.strip() or self._d.find_local_zone()
        return parse_schedule(kind.strip(), text, zone, now=self._d.clock.now())

    async def _check_workflow(self, draft: JobDraft) -> str:
        """Return the text of the workflow. Raise BadRequest if it has mistakes, or what only a prompt can have."""
        if not draft.workflow:
            return ""
        if draft.prompt:
            raise BadRequest("a job has a prompt or a workflow, not both", fix="Leave one of them out.")
        if draft.timeout or draft.conversation_mode == JobIsolation.MAIN:
            raise BadRequest(
                "a scheduled workflow has no timeout and no session mode",
                fix="Set `timeout` for its steps in the file.",
            )
        source = self._d.redact(draft.workflow)
        await self._d.workflows.parse(source, file=draft.file)
        return source

    async def find(self, owner: ConversationKey, reference: str) -> CronJob:
        """Return a job of an owner by id or name."""
        job = await self._store.get(reference)
        if job is None or job.owner != owner:
            job = await self._store.find(owner, reference)
        if job is None:
            names = [each.name for each in await self.list_jobs(owner)]
            raise NotFound(f"there is no job {reference!r}", fix=f"{suggest_name(reference, names)}See cron_list.")
        return job

    async def list_jobs(self, owner: ConversationKey) -> list[CronJob]:
        return await self.list_everywhere(agent=owner.agent, sender=owner.sender)

    async def list_everywhere(self, *, agent: str = "", sender: str = "") -> list[CronJob]:
        """Return the jobs of all owners, or of an agent or a sender."""
        return await self._store.list_jobs(agent=agent, sender=sender)

    async def list_last_firings(self, *, agent: str = "", sender: str = "") -> dict[str, FiringRecord]:
        """Return the newest firing of each job, by job."""
        found = await self._store.list_last_firings(agent=agent, sender=sender)
        return {record.job.id: record for record in found}

    async def pause(self, job: CronJob) -> CronJob:
        if job.status is JobStatus.DONE:
            raise Conflict(f"{job.name} is done", fix="Add it again with another time.")
        return self._changed(await self._store.pause(job.id, now=self._d.clock.now()), job)

    async def resume(self, job: CronJob) -> CronJob:
        """Let a paused job fire again, from now on: what was due while it was paused is not made up for."""
        self._require_enabled()
        if job.status is JobStatus.DONE:
            raise Conflict(f"{job.name} is done", fix="Add it again with another time.")
        if not job.is_paused:
            return job
        now = self._d.clock.now()
        next_at = job.schedule.find_next(now, anchor=now)
        if next_at is None and job.schedule.kind is ScheduleKind.AT:
            raise Conflict(f"{job.schedule.text} has passed", fix="Add it again with another time.")
        return self._changed(await self._store.resume(job.id, next_at=next_at, now=now), job)

    async def remove(self, job: CronJob) -> None:
        """Delete a job. A run of it that has begun continues."""
        await self._store.remove(job.id)
        self._d.scheduler.wake()

    async def fire_now(self, job: CronJob) -> str:
        """Start a run of a job at once; return its id."""
        self._require_enabled()
        return await self._d.scheduler.fire_now(job)

    def list_active_runs(self, record: FiringRecord) -> list[str]:
        """Return the ids of the runs that may be active for a firing: its run, or those of its workflow's steps."""
        if record.workflow is not None:
            active = self._d.workflows.find_active(record.workflow.id)
            return list(active.running.values()) if active else []
        return [record.firing.run_id] if record.firing.run_id else []

    async def list_firings(
        self, senders: SenderSet, *, job_id: str = "", agent: str = "", limit: int
    ) -> list[FiringRecord]:
        """Return firings with the results of their runs, newest first."""
        found = await self._store.list_firings(senders, job_id=job_id, agent=agent, limit=limit)
        return [
            each if each.run is None else replace(each, run=await load_result(self._d.entries, each.run))
            for each in found
        ]

    def _changed(self, job: CronJob | None, before: CronJob) -> CronJob:
        if job is None:
            raise NotFound(f"there is no job {before.name!r} any more")
        self._d.scheduler.wake()
        return job

    def _require_enabled(self) -> None:
        if not self._d.is_enabled():
            raise Unavailable("schedules are turned off", fix="Set enabled = true in [cron] of config.toml.")
