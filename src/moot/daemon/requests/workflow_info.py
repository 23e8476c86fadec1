"""Workflows and their runs as messages of the protocol. Used by workflows.py. Pure."""

from moot.automation.saved_workflows import SavedWorkflow
from moot.domain.agent import ROOT
from moot.domain.schedule import ScheduleKind
from moot.domain.workflow import Workflow, WorkflowRun, WorkflowStep
from moot.domain.workflow_view import StepView, WorkflowView
from moot.wire import moot_pb2 as pb

_SHOWN_PROMPT = 500
# The length of one result, and of all results of a run.
_SHOWN_RESULT = 4_000
_SHOWN_RESULTS = 200_000


def workflow_info(workflow: Workflow, text: SavedWorkflow, *, is_listed: bool = False) -> pb.WorkflowInfo:
    """Return a workflow with its steps; in a list without its text."""
    return pb.WorkflowInfo(
        # A saved workflow is found by the name of its file.
        name=text.name if text.path else workflow.name,
        description=workflow.description,
        steps=[_step_info(step, is_listed=is_listed) for step in workflow.steps],
        schedule=_show_schedule(workflow),
        timezone=workflow.zone,
        deliver_to=workflow.deliver_to,
        max_parallel=workflow.max_parallel,
        source="" if is_listed else text.source,
        path=text.path,
        taint=",".join(sorted(text.taint)),
    )


def _show_schedule(workflow: Workflow) -> str:
    if workflow.schedule is None:
        return ""
    kind, text = workflow.schedule
    return text if kind is ScheduleKind.CRON else f"{kind} {text}"


def _step_info(step: WorkflowStep, *, is_listed: bool = False) -> pb.WorkflowStepInfo:
    return pb.WorkflowStepInfo(
        id=step.id,
        agent=step.agent or ROOT,
        depends_on=step.depends_on,
        when=step.when.text if step.when is not None else "",
        prompt="" if is_listed else step.prompt[:_SHOWN_PROMPT],
    )


def run_info(run: WorkflowRun) -> pb.WorkflowRunInfo:
    """Return a run without its steps."""
    first, _, _ = run.start_key.partition("/")
    return pb.WorkflowRunInfo(
        run_id=run.id,
        name=run.name,
        sender=run.owner,
        status=str(run.status),
        error=run.error,
        created_at=run.created_at,
        ended_at=run.ended_at,
        taint=",".join(sorted(run.taint)),
        job_id=first if first.startswith("cron-") else "",
    )


def view_info(view: WorkflowView) -> pb.WorkflowRunInfo:
    """Return a run with the states of its steps and the beginnings of their results."""
    info = run_info(view.run)
    most = min(_SHOWN_RESULT, _SHOWN_RESULTS // max(1, len(view.steps)))
    info.steps.extend(_state_info(step, most) for step in view.steps)
    return info


def _state_info(view: StepView, most: int) -> pb.WorkflowStepInfo:
    info = _step_info(view.step, is_listed=True)
    info.state = str(view.state)
    info.attempts = view.attempts
    info.run_id = view.run_id
    info.started_at, info.ended_at = view.started_at, view.ended_at
    info.result, info.error = view.result[:most], view.error[:most]
    return info
