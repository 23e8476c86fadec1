"""Values and functions to start a workflow: its launch, its text, and the runs of its steps."""

from collections.abc import Collection
from random import Random

from msgspec import Struct

from moot.domain.agent import ROOT
from moot.domain.conversation import ConversationKey
from moot.domain.ids import make_id
from moot.domain.run import NO_MAIL_CAUSE, Limits, MailCause, Run, RunKind, RunRequest, RunStatus, Spawn
from moot.domain.senders import RUN_SENDERS, WORKFLOW_SENDER, owner_of
from moot.domain.workflow import Workflow, WorkflowLaunch, WorkflowReport, WorkflowRun, WorkflowStep
from moot.domain.workflow_file import parse_workflow
from moot.tools.threads import run_in_thread

# A longer text is read in a thread: it may take more than a few milliseconds.
_SHORT = 4_096


class WorkflowStart(Struct, frozen=True, kw_only=True):
    """What starts a workflow: its text, whose it is, and where it works. `file` is named in messages."""

    source: str
    owner: str
    file: str = ""
    # The conversation that is asked and gets the report; None if nobody is told.
    origin: ConversationKey | None = None
    # The agent whose conversation with the owner gets the report instead.
    report_to: str = ""
    start_key: str = ""
    cwd: str = ""
    search_path: str = ""
    taint: frozenset[str] = frozenset()
    # The cause of the run that starts it.
    cause: MailCause = NO_MAIL_CAUSE


async def read_workflow(source: str, *, file: str = "", agents: Collection[str] | None = None) -> Workflow:
    """Return the workflow of a text. Raise BadWorkflow with all its mistakes."""
    if len(source) <= _SHORT:
        return parse_workflow(source, file=file, agents=agents)
    return await run_in_thread(parse_workflow, source, file=file, agents=agents)


def find_person_key(key: ConversationKey) -> ConversationKey:
    """Return the conversation with a person that a conversation belongs to."""
    return ConversationKey(key.agent, owner_of(key.sender)) if key.sender.startswith(RUN_SENDERS) else key


def make_launch(start: WorkflowStart, workflow: Workflow, *, now: float, rng: Random) -> WorkflowLaunch:
    """Return the run that a start makes, with the reports it owes."""
    run = _make_run(start, workflow, now=now, rng=rng)
    return WorkflowLaunch(run=run, reports=tuple(_list_reports(run, workflow, start.report_to)), workflow=workflow)


def _make_run(start: WorkflowStart, workflow: Workflow, *, now: float, rng: Random) -> WorkflowRun:
    return WorkflowRun(
        id=make_id("wf", now=now, rng=rng),
        name=workflow.name,
        source=start.source,
        owner=start.owner,
        created_at=now,
        origin=start.origin,
        start_key=start.start_key,
        cwd=start.cwd,
        search_path=start.search_path,
        taint=start.taint,
        cause=start.cause,
    )


def list_agents(workflow: Workflow) -> set[str]:
    """Return the agents that work for a workflow, or are told its results."""
    text = {*workflow.deliver_to, *(agent for step in workflow.steps for agent in step.deliver_to)}
    return text | {step.agent or ROOT for step in workflow.steps}


def _list_reports(run: WorkflowRun, workflow: Workflow, report_to: str) -> list[WorkflowReport]:
    """Return the reports that a run owes: of the whole to where it was started, and what `deliver_to` says."""
    targets = [run.origin] if run.origin is not None else []
    if report_to:
        targets = [ConversationKey(report_to, run.owner)]
    targets += [ConversationKey(agent, run.owner) for agent in workflow.deliver_to]
    wanted = [(key, "") for key in targets]
    for step in workflow.steps:
        wanted += [(ConversationKey(agent, run.owner), step.id) for agent in step.deliver_to]
    found = list(dict.fromkeys(wanted))
    return [WorkflowReport(id=f"{run.id}@{number}", key=key, step=step) for number, (key, step) in enumerate(found, 1)]


def make_step_run(  # noqa: PLR0913 - what one attempt at a step consists of
    workflow: WorkflowRun,
    step: WorkflowStep,
    content: str,
    *,
    run_id: str,
    attempt: int,
    taint: frozenset[str],
    now: float,
) -> Run:
    """Return the run of an attempt at a step, in a conversation of its own. It asks where the workflow was started."""
    agent = step.agent or ROOT
    place = f"{workflow.id}.{step.id}" + (f".{attempt}" if attempt > 1 else "")
    return Run(
        request=RunRequest(
            id=run_id,
            key=ConversationKey(agent, f"{WORKFLOW_SENDER}{place}:{workflow.owner}"),
            speaker=agent,
            content=content,
            cwd=workflow.cwd,
            search_path=workflow.search_path,
            limits=Limits(seconds=step.timeout),
            root=workflow.origin,
            taint=taint,
            cause=workflow.cause,
        ),
        status=RunStatus.QUEUED,
        created_at=now,
        spawn=Spawn(kind=RunKind.BACKGROUND, reason=f"step {step.id} of workflow {workflow.name}"),
    )
