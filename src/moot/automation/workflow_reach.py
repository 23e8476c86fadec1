"""WorkflowReach: which runs of workflows an agent sees. Used by workflow_tools.py."""

from moot.automation.owners import AgentChooser
from moot.automation.workflow_start import find_person_key
from moot.domain.conversation import ConversationKey
from moot.domain.errors import NotFound
from moot.domain.ports.tool import RunContext
from moot.domain.ports.workflows import Workflows
from moot.domain.senders import SenderSet
from moot.domain.workflow import WorkflowRun

_LOOKED_THROUGH = 1_000


class WorkflowReach:
    """Which workflow runs an agent sees: those its conversation started; one that directs others, all of the sender."""

    def __init__(self, workflows: Workflows, chooser: AgentChooser) -> None:
        self._workflows = workflows
        self._chooser = chooser

    async def require(self, run_id: str, context: RunContext) -> WorkflowRun:
        run = await self._workflows.get(run_id)
        if run is None or not self._includes(run, find_person_key(context.asks_in)):
            raise NotFound(f"there is no workflow run {run_id!r}", fix="See workflow_list.")
        return run

    async def list_runs(self, context: RunContext, limit: int) -> list[WorkflowRun]:
        owner = find_person_key(context.asks_in)
        senders = SenderSet(names=(owner.sender,))
        found = await self._workflows.list_runs(senders, limit=_LOOKED_THROUGH)
        return [run for run in found if self._includes(run, owner)][:limit]

    def _includes(self, run: WorkflowRun, owner: ConversationKey) -> bool:
        return run.owner == owner.sender and (run.origin == owner or self._chooser.may_direct(owner.agent))
