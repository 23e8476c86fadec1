"""WorkflowLibrary: saves workflows under names, and schedules those whose text says when they run.

Used by workflow_tools and daemon/requests/workflows.py. Works with saved_workflows.py and cron_jobs.py.
"""

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from moot.automation.cron_jobs import CronJobs, JobDraft
from moot.automation.saved_workflows import SavedWorkflow, SavedWorkflows
from moot.automation.workflow_executor import WorkflowExecutor
from moot.domain.conversation import ConversationKey
from moot.domain.cron_job import CronJob, check_same_kind
from moot.domain.errors import NotFound
from moot.domain.schedule import ScheduleKind
from moot.domain.workflow import Workflow
from moot.domain.workflow_file import check_name, read_taint
from moot.tools.threads import run_in_thread


class SaveOrder(Struct, frozen=True, kw_only=True):
    """A workflow that is to be saved. `owner` is the conversation that gets the reports of scheduled runs."""

    owner: ConversationKey
    source: str
    # Empty is the name in the text.
    name: str = ""
    file: str = ""
    cwd: str = ""
    search_path: str = ""
    taint: frozenset[str] = frozenset()


class WorkflowLibrary(Struct, frozen=True, kw_only=True):
    executor: WorkflowExecutor
    saved: SavedWorkflows
    jobs: CronJobs

    async def check(self, order: SaveOrder) -> tuple[str, CronJob | None]:
        """Return the name, and the job that runs it by itself. Raise an error if it cannot be saved."""
        workflow = await self.executor.parse(order.source, file=order.file)
        name = check_name(order.name or workflow.name)
        known = await self._find_job(order.owner, name)
        if workflow.schedule is not None:
            if known is not None:
                check_same_kind(known, is_workflow=True)
            job = await self.jobs.check(order.owner, _make_draft(order, name, workflow, workflow.schedule))
            is_paused = known is not None and known.is_paused
            return name, replace(job, is_paused=True, next_at=None) if is_paused else job
        if known is None or not known.workflow:
            return name, None
        source = self.executor.redact(order.source)
        return name, replace(known, workflow=source, taint=order.taint | read_taint(source))

    async def save(self, order: SaveOrder) -> tuple[Path, CronJob | None]:
        """Write a workflow; one of the same name is replaced. Return its file, and the job that runs it by itself.

        A text that does not say when it runs leaves the schedule of the one it replaces, and a paused one stays paused.
        """
        name, job = await self.check(order)
        source = self.executor.redact(order.source)
        path = await run_in_thread(self.saved.save, order.owner.sender, name, source, order.taint)
        return path, (await self.jobs.save(job))[0] if job is not None else None

    async def load(self, sender: str, name: str) -> SavedWorkflow:
        return await run_in_thread(self.saved.load, sender, name)

    async def _find_job(self, owner: ConversationKey, name: str) -> CronJob | None:
        try:
            return await self.jobs.find(owner, name)
        except NotFound:
            return None


def _make_draft(order: SaveOrder, name: str, workflow: Workflow, schedule: tuple[ScheduleKind, str]) -> JobDraft:
    kind, text = schedule
    return JobDraft(
        name=name,
        schedule_type=kind,
        schedule=text,
        zone=workflow.zone,
        agent=order.owner.agent,
        workflow=order.source,
        file=order.file,
        cwd=order.cwd,
        search_path=order.search_path,
        taint=order.taint,
    )
