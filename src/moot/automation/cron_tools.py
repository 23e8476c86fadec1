"""The tools cron_add, cron_list, cron_pause, cron_resume, cron_remove and cron_history. They work with CronJobs.

An agent sees and changes only the jobs of the conversation it works for.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from moot.automation.cron_jobs import CronJobs, JobDraft
from moot.automation.firing_status import describe_firing
from moot.automation.owners import AgentChooser, find_owner
from moot.domain.agent import ROOT
from moot.domain.cron_job import MOST_FIRINGS, CronJob, FiringRecord, JobDelivery, JobIsolation, MissedRule
from moot.domain.errors import BadRequest
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.run_view import RunView
from moot.domain.schedule import ScheduleKind, format_instant
from moot.domain.senders import SenderSet
from moot.domain.text import clean
from moot.multiagent.peers.mail_causes import MailCauses
from moot.multiagent.teammates.teammates import Teammates

FindLive = Callable[[FiringRecord], list[RunView]]

GROUP = "schedules"
_DEFAULT_ENTRIES = 20
_SHOWN_PROMPT = 500
_MOST_LISTED = 500
_SHOWN_RESULT = 2_000
_ID = {"type": "string", "description": "The id or name of the job."}


def build_cron_tools(jobs: CronJobs, teammates: Teammates, chooser: AgentChooser, causes: MailCauses) -> list[Tool]:
    return [
        CronAdd(jobs, chooser, causes),
        CronList(jobs, teammates),
        CronPause(jobs),
        CronResume(jobs),
        CronRemove(jobs),
        CronHistory(jobs, teammates),
    ]


class CronAdd:
    spec = ToolSpec(
        name="cron_add",
        safety=Safety.MODERATE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description=(
            "Schedule a prompt: an agent works on it at the given times, and the result is reported in this "
            "conversation. A job of the same name is replaced, unless it runs a workflow."
        ),
        parameters={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "A name for the job."},
                "schedule_type": {
                    "type": "string",
                    "enum": list(ScheduleKind),
                    "description": "cron: a crontab expression. every: an interval. at: once.",
                },
                "schedule": {
                    "type": "string",
                    "description": 'cron: "0 8 * * MON-FRI". every: 1h30m. at: 2027-01-31T08:00:00+01:00.',
                },
                "prompt": {
                    "type": "string",
                    "description": "The whole task. The agent knows nothing of this conversation.",
                },
                "session_mode": {
                    "type": "string",
                    "enum": list(JobIsolation),
                    "description": "isolated: each run has a new conversation (default). main: all runs share one.",
                },
                "deliver_to": {
                    "type": "array",
                    "items": {"type": "string", "enum": list(JobDelivery)},
                    "description": "conversation: tell the result here (default). owner: tell it in the person's "
                    "conversation with moot. none: keep it in the history only.",
                },
                "timeout": {"type": "string", "description": "How long a run may work, such as 10m."},
                "timezone": {"type": "string", "description": "IANA name; left out, the zone of this computer."},
                "missed": {
                    "type": "string",
                    "enum": list(MissedRule),
                    "description": "After a time when it could not run: once late (default), or skip.",
                },
                "agent": {"type": "string", "description": "The agent that does it; left out, you."},
            },
            "required": ["name", "schedule_type", "schedule", "prompt"],
        },
        fine=frozenset({"session_mode", "deliver_to", "timeout", "timezone", "missed", "agent"}),
    )

    def __init__(self, jobs: CronJobs, chooser: AgentChooser, causes: MailCauses) -> None:
        self._jobs = jobs
        self._chooser = chooser
        self._causes = causes

    def line(self, arguments: dict[str, Any]) -> str:
        when = f"{arguments.get('schedule_type', '')} {arguments.get('schedule', '')}"
        return f"schedule {arguments.get('name', '')} ({when}): {arguments.get('prompt', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        owner, deliver_to = find_owner(context), tuple(map(str, arguments.get("deliver_to") or ()))
        delivers = JobDelivery.NOWHERE not in deliver_to
        agent = self._chooser.choose(context, str(arguments.get("agent") or ""), delivers=delivers)
        if JobDelivery.OWNER in deliver_to:
            self._chooser.check_told(context, ROOT)
        draft = JobDraft(
            name=clean(str(arguments["name"])),
            schedule_type=str(arguments["schedule_type"]),
            schedule=str(arguments["schedule"]),
            prompt=clean(str(arguments["prompt"])),
            agent=agent,
            zone=str(arguments.get("timezone") or ""),
            conversation_mode=str(arguments.get("session_mode") or ""),
            missed=str(arguments.get("missed") or ""),
            deliver_to=deliver_to,
            timeout=str(arguments.get("timeout") or ""),
            cwd=context.cwd,
            search_path=context.search_path,
            taint=context.taint,
            cause=await self._causes.trace(context),
        )
        job, is_new = await self._jobs.add(owner, draft)
        next_at = format_instant(job.next_at, job.schedule.zone) if job.next_at is not None else "never"
        return _to_json(
            {
                "status": "created" if is_new else "updated",
                "name": job.name,
                "id": job.id,
                "message": f"It runs next at {next_at} ({job.schedule.zone}).",
            }
        )


class CronList:
    spec = ToolSpec(
        name="cron_list",
        safety=Safety.SAFE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="List the scheduled jobs of this conversation, with their state and next time.",
        parameters={"type": "object", "properties": {}},
    )

    def __init__(self, jobs: CronJobs, teammates: Teammates) -> None:
        self._jobs = jobs
        self._teammates = teammates

    def line(self, arguments: dict[str, Any]) -> str:
        del arguments
        return "list the scheduled jobs"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        owner = find_owner(context)
        found = await self._jobs.list_jobs(owner)
        last = await self._jobs.list_last_firings(agent=owner.agent, sender=owner.sender)
        # How a run ended, or that it waits, tells what it has read.
        runs = [RunView(run) for record in last.values() for run in record.ended_runs]
        # What is not shown can be found by name.
        shown = found[:_MOST_LISTED]
        data = [_dump_job(job, last.get(job.id), partial(find_live, self._jobs, self._teammates)) for job in shown]
        text = await self._teammates.texts.join(runs, lambda _: _to_json({"jobs": data, "count": len(found)}))
        return ToolResult(
            content=text.content,
            taint=text.taint.union(*(job.taint for job in found)),
        )


class _ChangeJob:
    """A tool that acts on one job."""

    def __init__(self, jobs: CronJobs) -> None:
        self._jobs = jobs

    async def _find(self, arguments: dict[str, Any], context: RunContext) -> CronJob:
        return await self._jobs.find(find_owner(context), str(arguments["id"]).strip())


class CronPause(_ChangeJob):
    spec = ToolSpec(
        name="cron_pause",
        safety=Safety.MODERATE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="Pause a scheduled job. A run that has begun continues.",
        parameters={"type": "object", "properties": {"id": _ID}, "required": ["id"]},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        return f"pause the job {arguments.get('id', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        job = await self._jobs.pause(await self._find(arguments, context))
        return _tell(job, status="paused")


class CronResume(_ChangeJob):
    spec = ToolSpec(
        name="cron_resume",
        safety=Safety.MODERATE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="Resume a paused job. Runs that were due while it was paused are skipped.",
        parameters={"type": "object", "properties": {"id": _ID}, "required": ["id"]},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        return f"resume the job {arguments.get('id', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        job = await self._jobs.resume(await self._find(arguments, context))
        next_run = format_instant(job.next_at, job.schedule.zone) if job.next_at is not None else None
        return _tell(job, status="resumed", next_run=next_run)


class CronRemove(_ChangeJob):
    spec = ToolSpec(
        name="cron_remove",
        safety=Safety.DANGEROUS,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="Remove a scheduled job with its history. A run that has begun continues.",
        parameters={"type": "object", "properties": {"id": _ID}, "required": ["id"]},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        return f"remove the job {arguments.get('id', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        job = await self._find(arguments, context)
        await self._jobs.remove(job)
        return _tell(job, status="removed")


class CronHistory:
    spec = ToolSpec(
        name="cron_history",
        safety=Safety.SAFE,
        group=GROUP,
        deferred=True,
        repeatable=True,
        description="Show the latest runs of scheduled jobs and their results, newest first.",
        parameters={
            "type": "object",
            "properties": {
                "job_id": {"type": "string", "description": "Only of this job, by id or name."},
                "limit": {"type": "integer", "description": f"How many at most; {_DEFAULT_ENTRIES} unless said."},
            },
        },
    )

    def __init__(self, jobs: CronJobs, teammates: Teammates) -> None:
        self._jobs = jobs
        self._teammates = teammates

    def line(self, arguments: dict[str, Any]) -> str:
        return f"history of the scheduled jobs {arguments.get('job_id') or ''}".strip()

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        owner, limit = find_owner(context), int(arguments.get("limit") or _DEFAULT_ENTRIES)
        if not 1 <= limit <= MOST_FIRINGS:
            raise BadRequest(f"the limit {limit} is out of range", fix=f"Give between 1 and {MOST_FIRINGS}.")
        job_id = str(arguments.get("job_id") or "").strip()
        if job_id:
            job_id = (await self._jobs.find(owner, job_id)).id
        found = await self._jobs.list_firings(
            SenderSet(names=(owner.sender,)), job_id=job_id, agent=owner.agent, limit=limit
        )
        runs = [RunView(run) for record in found for run in record.ended_runs]
        text = await self._teammates.texts.join(
            runs, lambda _: _render_history(found, partial(find_live, self._jobs, self._teammates))
        )
        return ToolResult(content=text.content, taint=text.taint.union(*(record.job.taint for record in found)))


def _tell(job: CronJob, **facts: str | None) -> ToolResult:
    return ToolResult(content=_to_json({**facts, "id": job.id, "name": job.name}), taint=job.taint)


def find_live(jobs: CronJobs, teammates: Teammates, record: FiringRecord) -> list[RunView]:
    """Return the runs of a firing that are active here: its run, or those of its workflow's steps."""
    views = (teammates.find_live(run_id) for run_id in jobs.list_active_runs(record))
    return [view for view in views if view is not None]


def _render_history(found: Sequence[FiringRecord], find: FindLive) -> str:
    return _to_json({"entries": [_dump_firing(record, find) for record in found], "count": len(found)})


def _dump_job(job: CronJob, last: FiringRecord | None, find: FindLive) -> dict[str, Any]:
    data = {
        "id": job.id,
        "name": job.name,
        "schedule_type": job.schedule.kind,
        "schedule": job.schedule.text,
        "timezone": job.schedule.zone,
        "prompt": _cut(job.prompt, _SHOWN_PROMPT) or None,
        "workflow": True if job.workflow else None,
        "agent": job.agent,
        "session_mode": job.conversation_mode,
        "deliver_to": [job.delivery],
        "missed": job.missed,
        "timeout": f"{job.timeout:g}s" if job.timeout is not None else None,
        "enabled": not job.is_paused,
        "status": job.status,
        "next_run": format_instant(job.next_at, job.schedule.zone) if job.next_at is not None else None,
    }
    if last is not None:
        data["last_run"] = format_instant(last.firing.fired_at, job.schedule.zone)
        data["last_status"] = describe_firing(last, find(last))
    return {name: value for name, value in data.items() if value is not None}


def _dump_firing(record: FiringRecord, find: FindLive) -> dict[str, Any]:
    firing, job, run = record.firing, record.job, record.run
    zone = job.schedule.zone
    data: dict[str, Any] = {
        "job_id": job.id,
        "job_name": job.name,
        "due_at": format_instant(firing.due_at, zone),
        "status": describe_firing(record, find(record)),
        "run_id": firing.run_id or None,
        "reason": firing.skipped,
        "result": _cut(record.result, _SHOWN_RESULT) or None,
    }
    if record.workflow is not None:
        # workflow_status has the results of all steps.
        data["started_at"] = format_instant(record.workflow.created_at, zone)
        data["completed_at"] = format_instant(record.workflow.ended_at, zone) if record.workflow.ended_at else None
        data["error"] = record.workflow.error or None
    if run is not None:
        data["started_at"] = format_instant(run.started_at, zone) if run.started_at else None
        data["completed_at"] = format_instant(run.ended_at, zone) if run.ended_at else None
        if run.end is not None:
            data["error"] = run.end.error or None
            data["tokens_used"] = run.end.usage.total
    return {name: value for name, value in data.items() if value is not None}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} characters more)"


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
