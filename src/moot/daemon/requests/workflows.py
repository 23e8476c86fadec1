"""Handlers for workflows: start, read, save, list and remove them, and show, list and cancel their runs.

A principal sees and changes the workflows of its own senders only. Works with automation/.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct

from moot.automation.cron_jobs import CronJobs
from moot.automation.saved_workflows import SavedWorkflow
from moot.automation.workflow_executor import WorkflowExecutor
from moot.automation.workflow_library import SaveOrder, WorkflowLibrary
from moot.automation.workflow_start import WorkflowStart
from moot.daemon.principal import Principal
from moot.daemon.requests.cron import job_info
from moot.daemon.requests.reply import Reply
from moot.daemon.requests.workflow_info import run_info, view_info, workflow_info
from moot.domain.agent import ROOT
from moot.domain.approval import digest
from moot.domain.conversation import ConversationKey
from moot.domain.cron_job import CronJob
from moot.domain.errors import BadRequest, MootError, NotFound
from moot.domain.ports.clock import Clock
from moot.domain.ports.workflows import Workflows
from moot.domain.senders import SenderSet
from moot.domain.text import clean
from moot.domain.workflow import WorkflowRun
from moot.domain.workflow_file import read_taint
from moot.engine.request_factory import RequestFactory
from moot.tools.threads import run_in_thread
from moot.wire import moot_pb2 as pb

_RUNS, _MOST_RUNS = 20, 500
_LONGEST_ERROR = 2_000
_LONGEST_WAIT = 3_600.0
# Changes within this time are told at once, so that a workflow of many short steps is not read for each of them.
_GROUP_SECONDS = 0.1
# A run takes the longer to read the more steps it has: it is read less often by as much for each so many of them.
_GROUP_STEPS = 100
_FIX = "`moot workflow history` lists them."


class WorkflowRequestDependencies(Struct, frozen=True, kw_only=True):
    executor: WorkflowExecutor
    library: WorkflowLibrary
    jobs: CronJobs
    workflows: Workflows
    requests: RequestFactory
    clock: Clock


class WorkflowRequests:
    def __init__(self, dependencies: WorkflowRequestDependencies) -> None:
        self._d = dependencies

    async def start_workflow(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.start_workflow
        cwd = self._read_place(request.cwd, request.search_path, principal)
        sender = principal.sender(request.sender)
        text = await self._read_text(request.source, request.name, request.file, sender)
        if request.report_to:
            self._d.requests.resolve_agent(request.report_to)
        run = await self._d.executor.start(
            WorkflowStart(
                source=text.source,
                file=text.name,
                owner=sender,
                origin=ConversationKey(request.report_to, sender) if request.report_to else None,
                start_key=digest(sender, request.client_message_id) if request.client_message_id else "",
                cwd=cwd,
                search_path=request.search_path,
                taint=text.taint,
            )
        )
        await self._show(run, reply)

    async def get_workflow(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.get_workflow
        sender = principal.sender(request.sender)
        text = await self._read_text(request.source, request.name, request.file, sender)
        workflow = await self._d.executor.parse(text.source, file=text.name)
        if request.before_saving and workflow.schedule is not None:
            self._d.jobs.parse_schedule(*workflow.schedule, workflow.zone)
        info = workflow_info(workflow, text)
        if request.name:
            _add_job(info, await self._list_jobs(sender))
        reply.send(pb.ServerMessage(workflow=info))

    async def save_workflow(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.save_workflow
        cwd = self._read_place(request.cwd, request.search_path, principal)
        sender, agent = principal.sender(request.sender), request.agent or ROOT
        self._d.requests.resolve_agent(agent)
        order = SaveOrder(
            owner=ConversationKey(agent, sender),
            source=clean(request.source),
            name=request.name,
            file=request.file,
            cwd=cwd,
            search_path=request.search_path,
        )
        path, job = await self._d.library.save(order)
        saved = await self._d.library.load(sender, path.name)
        info = workflow_info(await self._d.executor.parse(saved.source, file=saved.name), saved)
        if job is not None:
            info.job.CopyFrom(job_info(job))
        reply.send(pb.ServerMessage(workflow=info))

    async def list_workflows(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        sender = principal.sender(message.list_workflows.sender)
        infos: list[pb.WorkflowInfo] = []
        jobs = await self._list_jobs(sender)
        for name in await run_in_thread(self._d.library.saved.list_names, sender):
            try:
                saved = await self._d.library.load(sender, name)
            except MootError:
                # It was removed meanwhile, or is not a text.
                continue
            try:
                info = workflow_info(await self._d.executor.parse(saved.source, file=saved.name), saved, is_listed=True)
            except MootError as error:
                info = pb.WorkflowInfo(name=saved.name, path=saved.path, error=error.message[:_LONGEST_ERROR])
            _add_job(info, jobs)
            for run in await self._d.workflows.list_runs(SenderSet(names=(sender,)), limit=1, name=info.name):
                info.last.CopyFrom(run_info(run))
            infos.append(info)
        reply.send(pb.ServerMessage(workflows=pb.WorkflowList(workflows=infos)))

    async def remove_workflow(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.remove_workflow
        sender = principal.sender(request.sender)
        removed = await run_in_thread(self._d.library.saved.remove, sender, request.name)
        info = pb.WorkflowInfo(name=removed.name, path=removed.path, source=removed.source)
        _add_job(info, await self._list_jobs(sender))
        reply.send(pb.ServerMessage(workflow=info))

    async def get_workflow_run(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.get_workflow_run
        run = await self._find(request.run_id, request.sender, principal)
        deadline = self._d.clock.monotonic() + min(max(0.0, request.seconds), _LONGEST_WAIT)
        changed = asyncio.Event()
        leave = self._d.executor.watchers.watch(run.id, changed.set)
        reply.on_close(changed.set)
        try:
            if request.seen:
                with suppress(TimeoutError):
                    async with self._d.clock.timeout(deadline - self._d.clock.monotonic()):
                        await self._pause(run.id)
            while True:
                changed.clear()
                info = await self._view(run)
                left = deadline - self._d.clock.monotonic()
                is_news = info.version != request.seen or bool(info.ended_at)
                if is_news or left <= 0 or reply.closed.is_set():
                    reply.send(pb.ServerMessage(workflow_run=info))
                    return
                with suppress(TimeoutError):
                    async with self._d.clock.timeout(left):
                        await changed.wait()
                        await self._d.clock.sleep(_GROUP_SECONDS)
                        await self._pause(run.id)
        finally:
            leave()

    async def _pause(self, run_id: str) -> None:
        """Wait before a run with many steps is read once more, until it has ended."""
        pauses = 0
        while active := self._d.executor.find_active(run_id):
            if pauses >= len(active.progress.workflow.steps) // _GROUP_STEPS:
                return
            await self._d.clock.sleep(_GROUP_SECONDS)
            pauses += 1

    async def list_workflow_runs(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.list_workflow_runs
        senders = self._choose_senders(request.sender, principal)
        limit = min(request.limit or _RUNS, _MOST_RUNS)
        found = await self._d.workflows.list_runs(senders, limit=limit, name=request.name)
        runs = [run_info(run) for run in found]
        reply.send(pb.ServerMessage(workflow_runs=pb.WorkflowRunList(runs=runs)))

    async def cancel_workflow(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.cancel_workflow
        run = await self._find(request.run_id, request.sender, principal)
        await self._show(await self._d.executor.cancel(run.id, principal.owned), reply)

    # ---- find ---------------------------------------------------------------------------------

    def _read_place(self, cwd: str, search_path: str, principal: Principal) -> str:
        if cwd:
            principal.require_owner("choose the working directory")
        if search_path:
            principal.require_owner("choose where programs are found")
        return self._d.requests.directory(cwd)

    async def _read_text(self, source: str, name: str, file: str, sender: str) -> SavedWorkflow:
        if bool(source) == bool(name):
            raise BadRequest("give the text of a workflow or the name of a saved one", fix="Give one of them.")
        if name:
            return await self._d.library.load(sender, name)
        return SavedWorkflow(name=file, path="", source=source, taint=read_taint(source))

    def _choose_senders(self, sender: str, principal: Principal) -> SenderSet:
        return SenderSet(names=(principal.sender(sender),)) if sender else principal.owned

    async def _find(self, reference: str, sender: str, principal: Principal) -> WorkflowRun:
        """Return the principal's run with this id, or with an id that begins so, or the newest of a workflow."""
        senders = self._choose_senders(sender, principal)
        exact = await self._d.workflows.get(reference)
        if exact is not None and senders.includes(exact.owner):
            return exact
        newest = await self._d.workflows.list_runs(senders, limit=1, name=reference) if reference else []
        if newest:
            return newest[0]
        found = await self._d.workflows.list_runs(senders, limit=_MOST_RUNS)
        matches = [run for run in found if reference.startswith("wf-") and run.id.startswith(reference)]
        if len(matches) > 1:
            raise BadRequest(f"{reference!r} could be any of {len(matches)} runs", fix="Give more of the id.")
        if not matches:
            raise NotFound(f"there is no workflow run {reference[:80]!r}", fix=_FIX)
        return matches[0]

    async def _list_jobs(self, sender: str) -> dict[str, CronJob]:
        """Return the jobs that run workflows by themselves, by name."""
        found = await self._d.jobs.list_everywhere(sender=sender)
        return {job.name: job for job in found if job.workflow}

    # ---- answer -------------------------------------------------------------------------------

    async def _show(self, run: WorkflowRun, reply: Reply) -> None:
        reply.send(pb.ServerMessage(workflow_run=await self._view(run)))

    async def _view(self, run: WorkflowRun) -> pb.WorkflowRunInfo:
        info = view_info(await self._d.executor.view(await self._d.workflows.get(run.id) or run))
        states = "\n".join(f"{step.state} {step.attempts} {step.run_id}" for step in info.steps)
        info.version = hashlib.sha256(f"{info.status}\n{states}".encode()).hexdigest()[:16]
        return info


def _add_job(info: pb.WorkflowInfo, jobs: Mapping[str, CronJob]) -> None:
    if info.name in jobs:
        info.job.CopyFrom(job_info(jobs[info.name]))
        info.job.workflow = ""
