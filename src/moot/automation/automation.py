"""Automation: everything that starts runs by itself, built over the Runtime. Used by daemon/app.py."""

from collections.abc import Callable

from moot.automation.background import BackgroundTasks
from moot.automation.bg_tools import build_bg_tools
from moot.automation.cron_jobs import CronJobDependencies, CronJobs
from moot.automation.cron_tools import build_cron_tools
from moot.automation.scheduler import Scheduler, SchedulerDependencies
from moot.domain.agent import ROOT
from moot.multiagent.runtime import Runtime


class Automation:
    def __init__(self, runtime: Runtime, *, find_local_zone: Callable[[], str]) -> None:
        d = runtime.dependencies

        def is_enabled() -> bool:
            return d.config.current.cron.enabled

        def may_direct(agent: str) -> bool:
            return agent == ROOT or runtime.team.is_coordinator(agent)

        self.scheduler = Scheduler(
            SchedulerDependencies(
                jobs=d.storage.cron,
                starter=runtime.teammates,
                is_enabled=is_enabled,
                clock=d.clock,
                supervisor=d.supervisor,
            )
        )
        self.jobs = CronJobs(
            CronJobDependencies(
                store=d.storage.cron,
                scheduler=self.scheduler,
                requests=runtime.requests,
                is_enabled=is_enabled,
                find_local_zone=find_local_zone,
                redact=d.redactor.mask_secrets,
                clock=d.clock,
                rng=d.rng,
            )
        )
        tasks = BackgroundTasks(teammates=runtime.teammates, store=d.storage.store)
        d.tools.register(
            *build_cron_tools(self.jobs, runtime.teammates, may_direct),
            *build_bg_tools(tasks, runtime.requests.resolve_agent, may_direct),
        )

    def start(self) -> None:
        """Start what is due. Call it once the runs of an earlier daemon are recovered."""
        self.scheduler.start()
