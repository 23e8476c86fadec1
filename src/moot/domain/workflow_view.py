"""A run of a workflow as it is shown: the state of each step, derived from the attempts at it. Pure.

Used by automation/ for tools and requests, and to go on with a workflow after a restart.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from moot.domain.run import Run, RunStatus
from moot.domain.workflow import (
    Progress,
    StepAttempt,
    StepResult,
    StepState,
    Workflow,
    WorkflowRun,
    WorkflowStatus,
    WorkflowStep,
    describe_failure,
    has_another_attempt,
    read_result,
)

_ENDED = (StepState.COMPLETED, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED)


class StepView(Struct, frozen=True, kw_only=True):
    """A step with its state, the attempts so far, and its result or error."""

    step: WorkflowStep
    state: StepState
    attempts: int = 0
    run_id: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0
    result: str = ""
    error: str = ""


class WorkflowView(Struct, frozen=True, kw_only=True):
    """A run of a workflow with all its steps."""

    run: WorkflowRun
    steps: tuple[StepView, ...]

    @property
    def completed(self) -> int:
        return sum(each.state is StepState.COMPLETED for each in self.steps)

    @property
    def ended(self) -> int:
        return sum(each.state in _ENDED for each in self.steps)


class Replayed(Struct, frozen=True, kw_only=True):
    """What the attempts of a workflow amount to: its progress, and the last attempt at each step."""

    progress: Progress
    last: Mapping[str, StepAttempt]
    # The steps that were started and have no result: they run, wait for another attempt, or their run was not stored.
    unfinished: tuple[str, ...]


def replay(
    workflow: Workflow, attempts: Sequence[StepAttempt], taints: Mapping[str, frozenset[str]] | None = None
) -> Replayed:
    """Return the progress of a workflow. `taints` are those of the runs, by run id."""
    last = {attempt.step: attempt for attempt in sorted(attempts, key=lambda each: each.attempt)}
    progress = Progress(workflow)
    unfinished: list[str] = []
    for step in workflow.steps:
        attempt = last.get(step.id)
        if attempt is None:
            continue
        run = attempt.run
        if run is None or run.end is None or has_another_attempt(step, attempt.attempt, run):
            unfinished.append(step.id)
        else:
            progress.finish(step.id, read_result(run, (taints or {}).get(run.id, frozenset())))
    progress.mark_started(last)
    return Replayed(progress=progress, last=last, unfinished=tuple(unfinished))


def make_view(
    run: WorkflowRun, workflow: Workflow, attempts: Sequence[StepAttempt], waiting: frozenset[str] = frozenset()
) -> WorkflowView:
    """Return how a run is shown. `waiting` are the ids of the runs that wait for a person."""
    replayed = replay(workflow, attempts)
    results = replayed.progress.results
    views = [
        _view_step(step, results.get(step.id), replayed.last.get(step.id), run, waiting) for step in workflow.steps
    ]
    return WorkflowView(run=run, steps=tuple(views))


def _view_step(
    step: WorkflowStep,
    result: StepResult | None,
    attempt: StepAttempt | None,
    workflow: WorkflowRun,
    waiting: frozenset[str],
) -> StepView:
    run = attempt.run if attempt is not None else None
    if result is None and run is None and attempt is not None:
        result = _find_start_failure(step, workflow)
    return StepView(
        step=step,
        state=result.state if result is not None else _find_state(attempt, run, workflow, waiting),
        attempts=attempt.attempt if attempt is not None else 0,
        run_id=attempt.run_id if attempt is not None else "",
        started_at=run.started_at if run is not None else 0.0,
        ended_at=run.ended_at if run is not None else 0.0,
        result=result.text if result is not None else "",
        error=result.error if result is not None else _find_error(run),
    )


def _find_start_failure(step: WorkflowStep, workflow: WorkflowRun) -> StepResult | None:
    """Return the result of the step that a workflow failed with; its run could not be started, or was removed."""
    prefix = describe_failure(step.id, "")
    if not workflow.error.startswith(prefix):
        return None
    return StepResult(state=StepState.FAILED, error=workflow.error.removeprefix(prefix))


def _find_error(run: Run | None) -> str:
    return run.end.error if run is not None and run.end is not None else ""


def _find_state(
    attempt: StepAttempt | None, run: Run | None, workflow: WorkflowRun, waiting: frozenset[str]
) -> StepState:
    """Return the state of a step without a result."""
    if workflow.status is not WorkflowStatus.RUNNING:
        # It was never started, or its run was removed after its time.
        is_completed = attempt is not None and workflow.status is WorkflowStatus.COMPLETED
        return StepState.COMPLETED if is_completed else StepState.CANCELLED
    if attempt is None:
        return StepState.PENDING
    if run is None or run.end is None:
        is_begun = run is not None and run.status is RunStatus.RUNNING
        if attempt.run_id in waiting:
            return StepState.WAITING
        return StepState.RUNNING if is_begun else StepState.PENDING
    return StepState.RETRYING
