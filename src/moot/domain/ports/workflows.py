"""The Workflows port: runs of workflows, attempts at their steps, and the reports they owe. Implemented in store/."""

from collections.abc import Sequence
from typing import Protocol

from moot.domain.senders import SenderSet
from moot.domain.workflow import StepAttempt, WorkflowReport, WorkflowRun, WorkflowStatus


class Workflows(Protocol):
    """A change is on disk when the method returns.

    A run of a workflow belongs to the daemon that started it. Another one can write it only if that daemon is no longer
    alive; otherwise `Fenced` is raised and nothing changes.
    """

    async def create(self, run: WorkflowRun, reports: Sequence[WorkflowReport]) -> WorkflowRun:
        """Store a run with the reports it owes. The same start returns the run that was stored before."""
        ...

    async def get(self, run_id: str) -> WorkflowRun | None: ...

    async def list_runs(self, senders: SenderSet, *, limit: int, name: str = "") -> list[WorkflowRun]:
        """Return the runs of these senders, newest first; of one workflow, if it is named. Their texts are cut."""
        ...

    async def start_attempt(self, run_id: str, attempt: StepAttempt) -> StepAttempt:
        """Store that an attempt is made by this run; return the one that was stored first.

        Raise Conflict if the workflow has ended or was cancelled.
        """
        ...

    async def list_attempts(self, run_id: str) -> list[StepAttempt]:
        """Return all attempts with their runs, in the order they were stored."""
        ...

    async def cancel(self, run_id: str, *, now: float) -> WorkflowRun | None:
        """Store that no more steps are to be started; None if the run has ended or does not exist."""
        ...

    async def end(self, run_id: str, status: WorkflowStatus, *, error: str = "", now: float) -> WorkflowRun:
        """Store how a run ended; a cancelled one ends as cancelled. A second end changes nothing. Returns the run."""
        ...

    async def recover(self) -> list[WorkflowRun]:
        """Take over the unfinished runs that no other living daemon works on; return them, oldest first."""
        ...

    async def list_owed(self, run_id: str = "") -> list[tuple[str, WorkflowReport]]:
        """Return the reports that were not delivered, with the ids of their runs: of one run, or of all."""
        ...
