"""Handlers for scheduled jobs: save, list, pause, resume, remove, run, and their firings.

A principal sees and changes the jobs of its own senders only.
"""

import asyncio

from moot.automation.cron_jobs import CronJobs, JobDraft
from moot.automation.cron_tools import find_live
from moot.automation.firing_status import describe_firing, find_waiting
from moot.daemon.principal import Principal
from moot.daemon.requests.pages import PAGE_BYTES
from moot.daemon.requests.reply import Reply
from moot.domain.agent import ROOT
from moot.domain.conversation import ConversationKey
from moot.domain.cron_job import CronJob, FiringRecord
from moot.domain.errors import BadRequest, NotFound, TooLarge
from moot.domain.near_names import suggest_name
from moot.domain.senders import SenderSet
from moot.domain.text import clean
from moot.engine.request_factory import RequestFactory
from moot.multiagent.teammates.teammates import Teammates
from moot.wire import moot_pb2 as pb

_FIX = "`moot cron` lists them."
_ACTIONS = ("pause", "resume", "remove", "run")
_FIRINGS, _MOST_FIRINGS = 20, 500
# The length of texts in a list.
_LISTED_TEXT = 500
_SLICE = 100


class CronRequests:
    def __init__(self, *, jobs: CronJobs, teammates: Teammates, requests: RequestFactory) -> None:
        self._jobs = jobs
        self._teammates = teammates
        self._requests = requests

    async def save_cron_job(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.save_cron_job
        if request.cwd:
            principal.require_owner("choose the working directory")
        if request.search_path:
            principal.require_owner("choose where programs are found")
        agent = request.agent or ROOT
        draft = JobDraft(
            name=clean(request.name),
            schedule_type=request.schedule_type,
            schedule=request.schedule,
            prompt=clean(request.prompt),
            workflow=clean(request.workflow),
            file=request.file,
            agent=agent,
            zone=request.timezone,
            conversation_mode=request.session_mode,
            missed=request.missed,
            deliver_to=tuple(request.deliver_to),
            timeout=request.timeout,
            cwd=self._requests.directory(request.cwd),
            search_path=request.search_path,
        )
        job, is_new = await self._jobs.add(ConversationKey(agent, principal.sender(request.sender)), draft)
        reply.send(pb.ServerMessage(cron_jobs=pb.CronJobList(jobs=[job_info(job)], created=is_new)))

    async def list_cron_jobs(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.list_cron_jobs
        if request.job:
            found = [await self._find(request.job, request.agent, request.sender, principal)]
        else:
            found = await self._list_jobs(request.agent, request.sender, principal)
        last = await self._jobs.list_last_firings(agent=request.agent, sender=request.sender)
        infos: list[pb.CronJobInfo] = []
        size = 0
        for job in found:
            info = job_info(job, shown=0 if request.job else _LISTED_TEXT)
            if job.id in last:
                info.last.CopyFrom(self._firing_info(last[job.id]))
            if size > PAGE_BYTES:
                info.prompt = info.last.result = ""
            size += info.ByteSize()
            if size > 2 * PAGE_BYTES:
                raise TooLarge(f"{len(found)} jobs are too many for one list", fix="Name an agent or a sender.")
            infos.append(info)
            if len(infos) % _SLICE == 0:
                # Others have their turn meanwhile.
                await asyncio.sleep(0)
        reply.send(pb.ServerMessage(cron_jobs=pb.CronJobList(jobs=infos, disabled=not self._jobs.is_enabled)))

    async def change_cron_job(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request, run_id = message.change_cron_job, ""
        if request.action not in _ACTIONS:
            raise BadRequest(f"{request.action!r} is not an action", fix=f"Actions are: {', '.join(_ACTIONS)}.")
        job = await self._find(request.job, request.agent, request.sender, principal)
        match request.action:
            case "pause":
                job = await self._jobs.pause(job)
            case "resume":
                job = await self._jobs.resume(job)
            case "remove":
                await self._jobs.remove(job)
            case "run":
                run_id = await self._jobs.fire_now(job)
        reply.send(pb.ServerMessage(cron_jobs=pb.CronJobList(jobs=[job_info(job)], run_id=run_id)))

    async def list_firings(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.list_firings
        limit = min(request.limit or _FIRINGS, _MOST_FIRINGS)
        job_id = ""
        if request.job:
            job_id = (await self._find(request.job, request.agent, request.sender, principal)).id
        senders = principal.owned
        if request.sender:
            senders = SenderSet(names=(request.sender,) if principal.owns(request.sender) else ())
        found = await self._jobs.list_firings(senders, job_id=job_id, agent=request.agent, limit=limit)
        infos = [self._firing_info(record) for record in found]
        reply.send(pb.ServerMessage(firings=pb.FiringList(firings=infos)))

    async def _list_jobs(self, agent: str, sender: str, principal: Principal) -> list[CronJob]:
        found = await self._jobs.list_everywhere(agent=agent, sender=sender)
        return [job for job in found if principal.owns(job.owner.sender)]

    async def _find(self, reference: str, agent: str, sender: str, principal: Principal) -> CronJob:
        """Return the principal's job with this name or id, or with an id that begins so."""
        theirs = await self._list_jobs(agent, sender, principal)
        for matches in (
            [job for job in theirs if reference in (job.id, job.name)],
            [job for job in theirs if job.id.startswith(reference)],
        ):
            if len(matches) > 1:
                named = ", ".join(f"{job.id} ({job.owner})" for job in matches[:5])
                raise BadRequest(f"{reference!r} could be any of {named}", fix="Give the id, or more of it.")
            if matches:
                # A list has only the beginning of its workflow.
                return await self._jobs.find(matches[0].owner, matches[0].id)
        near = suggest_name(reference, [job.name for job in theirs])
        raise NotFound(f"there is no job {reference!r}", fix=f"{near}{_FIX}")

    def _firing_info(self, record: FiringRecord) -> pb.FiringInfo:
        firing, run = record.firing, record.run
        live = find_live(self._jobs, self._teammates, record)
        info = pb.FiringInfo(
            job_id=firing.job_id,
            name=record.job.name,
            due_at=firing.due_at,
            fired_at=firing.fired_at,
            status=describe_firing(record, live),
            run_id=firing.run_id,
            skipped=firing.skipped or "",
            manual=firing.is_manual,
            result=record.result[:_LISTED_TEXT],
        )
        if (waiting := find_waiting(live)) is not None:
            info.waiting_for = waiting.block.reason
        if record.workflow is not None:
            info.started_at, info.ended_at = record.workflow.created_at, record.workflow.ended_at
            info.error = record.workflow.error
        if run is not None:
            info.started_at, info.ended_at = run.started_at, run.ended_at
            if run.end is not None:
                info.error = run.end.error
                info.tokens, info.cost = run.end.usage.total, run.end.cost
        return info


def job_info(job: CronJob, *, shown: int = 0) -> pb.CronJobInfo:
    """Return the info of a job, with its prompt cut to `shown` characters unless that is 0."""
    return pb.CronJobInfo(
        job_id=job.id,
        agent=job.owner.agent,
        sender=job.owner.sender,
        name=job.name,
        runs_as=job.agent,
        prompt=job.prompt[:shown] if shown else job.prompt,
        workflow="" if shown else job.workflow,
        is_workflow=bool(job.workflow),
        schedule_type=job.schedule.kind,
        schedule=job.schedule.text,
        timezone=job.schedule.zone,
        session_mode=job.conversation_mode,
        missed=job.missed,
        deliver_to=job.delivery,
        timeout_seconds=job.timeout or 0.0,
        cwd=job.cwd,
        taint=",".join(sorted(job.taint)),
        created_at=job.created_at,
        updated_at=job.updated_at,
        status=job.status,
        next_at=job.next_at or 0.0,
    )
