"""Builds what runs workflows: the executor, the saved files and the tools. Called by daemon/app.py."""

from collections.abc import Callable

from msgspec import Struct

from moot.automation.saved_workflows import SavedWorkflows
from moot.automation.workflow_executor import WorkflowDependencies, WorkflowExecutor
from moot.automation.workflow_tools import build_tools
from moot.daemon.paths import Paths
from moot.multiagent.runtime import Runtime, RuntimeDependencies
from moot.tools.files.off_limits import OffLimits


class WorkflowParts(Struct, frozen=True, kw_only=True):
    """What handlers need of workflows."""

    executor: WorkflowExecutor
    saved: SavedWorkflows


def build_workflows(
    d: RuntimeDependencies, runtime: Runtime, *, paths: Paths, off_limits: Callable[[], OffLimits]
) -> WorkflowParts:
    """Return what runs workflows; its tools are registered."""

    def list_agents() -> set[str]:
        d.registry.refresh_if_changed()
        return {agent.name for agent in d.registry.active()}

    executor = WorkflowExecutor(
        WorkflowDependencies(
            workflows=d.storage.workflows,
            teammates=runtime.teammates,
            runs=runtime.runs,
            requests=runtime.requests,
            agents=list_agents,
            config=lambda: d.config.current.workflow,
            supervisor=d.supervisor,
            bus=d.bus,
            clock=d.clock,
            rng=d.rng,
        )
    )
    saved = SavedWorkflows(paths.workflows)
    d.tools.register(*build_tools(executor=executor, workflows=d.storage.workflows, saved=saved, off_limits=off_limits))
    return WorkflowParts(executor=executor, saved=saved)
