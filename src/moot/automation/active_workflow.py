"""ActiveWorkflow: a workflow that runs here, its progress and the runs of its steps. Used by workflow_executor.py."""

from moot.domain.workflow import Progress, StepState, WorkflowRun, WorkflowStatus, describe_failure


class ActiveWorkflow:
    """A workflow that runs here: its progress, and the runs of the steps that have not ended."""

    def __init__(self, run: WorkflowRun, progress: Progress) -> None:
        self.run = run
        self.progress = progress
        # The number of the last attempt at each step.
        self.attempts: dict[str, int] = {}
        # The ids of the runs of steps that are started, by step; and the steps that wait for another attempt.
        self.running: dict[str, str] = {}
        self.retrying: set[str] = set()

    @property
    def is_cancelled(self) -> bool:
        return bool(self.run.cancelled_at)

    def can_start(self) -> bool:
        is_room = len(self.running) < self.progress.workflow.max_parallel
        return is_room and not self.is_cancelled and self.progress.has_ready()

    @property
    def is_over(self) -> bool:
        """Whether nothing runs and nothing more is to be started."""
        if self.running:
            return False
        if self.is_cancelled or self.progress.has_failed:
            return True
        return not self.retrying and not self.progress.has_ready()


def judge(active: ActiveWorkflow) -> tuple[WorkflowStatus, str]:
    """Return how a workflow that is over has ended, and why it failed."""
    if active.is_cancelled:
        return WorkflowStatus.CANCELLED, ""
    results = active.progress.results
    failed = [name for name, result in results.items() if result.state in (StepState.FAILED, StepState.CANCELLED)]
    if failed:
        first = failed[0]
        more = f" ({len(failed) - 1} more failed)" if len(failed) > 1 else ""
        return WorkflowStatus.FAILED, describe_failure(first, f"{results[first].error}{more}")[:2_000]
    return WorkflowStatus.COMPLETED, ""
