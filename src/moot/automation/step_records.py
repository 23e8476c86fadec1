"""StepRecords: reads the attempts at the steps of a workflow, with results and taint. Used by workflow_executor.py."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from moot.automation.workflow_start import read_workflow
from moot.domain.ports.store import Store
from moot.domain.ports.workflows import Workflows
from moot.domain.run import Run
from moot.domain.run_view import RunView
from moot.domain.workflow import Progress, StepAttempt, WorkflowRun
from moot.domain.workflow_view import replay
from moot.engine.run_results import load_result
from moot.multiagent.teammates.teammates import Teammates


class StepRecords(Struct, frozen=True, kw_only=True):
    workflows: Workflows
    store: Store
    teammates: Teammates

    async def list_attempts(self, run_id: str) -> list[StepAttempt]:
        """Return the attempts at the steps of a workflow, with the results of their runs."""
        found = await self.workflows.list_attempts(run_id)
        return [
            each if each.run is None else replace(each, run=await load_result(self.store, each.run)) for each in found
        ]

    async def load_taints(self, attempts: Sequence[StepAttempt]) -> dict[str, frozenset[str]]:
        """Return the taint of the runs that have ended, by run id."""
        ended = [each.run for each in attempts if each.run is not None and each.run.end is not None]
        return {run.id: await self.find_taint(run) for run in ended}

    async def find_taint(self, run: Run) -> frozenset[str]:
        return (await self.teammates.texts.join([RunView(run)], lambda _: "")).taint

    async def load_progress(self, run: WorkflowRun) -> Progress:
        """Return the results of all steps that have ended."""
        attempts = await self.list_attempts(run.id)
        workflow = await read_workflow(run.source)
        return replay(workflow, attempts, await self.load_taints(attempts)).progress

    async def find_shown_taint(self, run: WorkflowRun) -> frozenset[str]:
        """Return the taint of what a view of the run shows, also of steps that run, wait or are tried again."""
        runs = [each.run for each in await self.workflows.list_attempts(run.id) if each.run is not None]
        seen = [self.teammates.find_live(each.id) or RunView(each) for each in runs]
        return run.taint | (await self.teammates.texts.join(seen, lambda _: "")).taint
