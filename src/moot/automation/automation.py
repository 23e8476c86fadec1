"""Automation: schedules, workflows and background tasks, built over the Runtime. Used by daemon/app.py."""

from collections.abc import Callable
from pathlib import Path

from moot.automation.background import BackgroundTasks
from moot.automation.bg_tools import build_bg_tools
from moot.automation.cron_jobs import CronJobDependencies, CronJobs
from moot.automation.cron_tools import build_cron_tools
from moot.automation.owners import AgentChooser
from moot.automation.saved_workflows import SavedWorkflows
from moot.automation.scheduler import Scheduler, SchedulerDependencies
from moot.automation.workflow_executor import WorkflowDependencies, WorkflowExecutor
from moot.automation.workflow_library import WorkflowLibrary
from moot.automation.workflow_tools import build_workflow_tools
from moot.domain.agent import ROOT
from moot.multiagent.runtime import Runtime
from moot.tools.files.off_limits import OffLimits


class Automation:
    """`workflows` is the folder of saved workflows; `off_limits` are the files that no workflow is read from."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        find_local_zone: Callable[[], str],
        workflows: Path,
        off_limits: Callable[[], OffLimits],
    ) -> None:
        d = runtime.dependencies

        def is_enabled() -> bool:
            return d.config.current.cron.enabled

        def may_direct(agent: str) -> bool:
            return agent == ROOT or runtime.team.is_coordinator(agent)

        self.workflows = build_executor(runtime)
        self.scheduler = Scheduler(
            SchedulerDependencies(
                jobs=d.storage.cron,
                starter=runtime.teammates,
                workflows=self.workflows,
                is_enabled=is_enabled,
                clock=d.clock,
                supervisor=d.supervisor,
            )
        )
        self.jobs = CronJobs(
            CronJobDependencies(
                store=d.storage.cron,
                entries=d.storage.store,
                scheduler=self.scheduler,
                workflows=self.workflows,
                requests=runtime.requests,
                is_enabled=is_enabled,
                find_local_zone=find_local_zone,
                redact=d.redactor.mask_secrets,
                clock=d.clock,
                rng=d.rng,
            )
        )
        self.library = WorkflowLibrary(executor=self.workflows, saved=SavedWorkflows(workflows), jobs=self.jobs)
        tasks = BackgroundTasks(teammates=runtime.teammates, store=d.storage.store, causes=runtime.peers.causes)
        chooser = AgentChooser(
            may_direct=may_direct, find_live=runtime.teammates.find_live, find_step=runtime.find_step
        )
        d.tools.register(
            *build_cron_tools(self.jobs, runtime.teammates, chooser, runtime.peers.causes),
            *build_bg_tools(tasks, runtime.requests.resolve_agent, chooser),
            *build_workflow_tools(
                executor=self.workflows,
                workflows=d.storage.workflows,
                library=self.library,
                chooser=chooser,
                causes=runtime.peers.causes,
                off_limits=off_limits,
            ),
        )

    async def start(self) -> None:
        """Start what is due. Call it once the runs of an earlier daemon are recovered."""
        await self.workflows.recover()
        self.scheduler.start()

    def close(self) -> None:
        """Start no more steps of workflows because the daemon stops."""
        self.workflows.close()


def build_executor(runtime: Runtime) -> WorkflowExecutor:
    d = runtime.dependencies

    def list_agents() -> set[str]:
        d.registry.refresh_if_changed()
        return {agent.name for agent in d.registry.active()}

    return WorkflowExecutor(
        WorkflowDependencies(
            workflows=d.storage.workflows,
            store=d.storage.store,
            teammates=runtime.teammates,
            runs=runtime.runs,
            requests=runtime.requests,
            agents=list_agents,
            config=lambda: d.config.current.workflow,
            redact=d.redactor.mask_secrets,
            supervisor=d.supervisor,
            bus=d.bus,
            clock=d.clock,
            rng=d.rng,
        )
    )
