"""The CronStore port: scheduled jobs and their firings. Implemented in store/cron_jobs.py and store/memory/."""

from collections.abc import Mapping
from typing import Protocol

from moot.domain.conversation import ConversationKey
from moot.domain.cron_job import CronJob, Firing, FiringRecord
from moot.domain.run import Run
from moot.domain.senders import SenderSet
from moot.domain.workflow import WorkflowLaunch


class CronStore(Protocol):
    """Jobs by owner, which are isolated from each other. A change is on disk when the method returns."""

    async def save(self, job: CronJob) -> tuple[CronJob, bool]:
        """Write a job. One of the same owner and name is replaced and keeps its id; return whether it is new.

        Raise Conflict if only one of the two has a workflow.

        The conversation of the owner is created if need be, unless results are not told there. A job of a
        sender whose token was revoked is stored as paused, and `resume` raises Conflict for it.
        """
        ...

    async def get(self, job_id: str) -> CronJob | None: ...
    async def find(self, owner: ConversationKey, name: str) -> CronJob | None: ...
    async def list_jobs(self, *, agent: str = "", sender: str = "") -> list[CronJob]:
        """Return the jobs of all owners, or of an agent or a sender, by name. Texts of workflows are cut."""
        ...

    async def pause(self, job_id: str, *, now: float) -> CronJob | None: ...
    async def resume(self, job_id: str, *, next_at: float | None, now: float) -> CronJob | None: ...
    async def remove(self, job_id: str) -> bool:
        """Delete a job and its firings. Its runs stay."""
        ...

    async def find_next_due(self) -> float | None:
        """Return when the next job fires; None if none will."""
        ...

    async def find_last_fired(self) -> float:
        """Return the time of the last firing of any job; 0 if there is none."""
        ...

    async def move(self, times: Mapping[str, tuple[float, float]]) -> None:
        """Set when jobs fire next, by id: from the first time to the second, unless that has been changed."""
        ...

    async def list_due(self, now: float, *, limit: int) -> list[CronJob]: ...

    async def fire(
        self, job: CronJob, firing: Firing, work: Run | WorkflowLaunch | None, *, next_at: float | None
    ) -> Firing | None:
        """Record a firing, store its run or workflow run and set when the job fires next, in one transaction.

        A firing of the schedule is not recorded, and None returned, if the job is not due at that instant any more, or
        has been changed since `job` was read. If a run of the job has not ended, a firing of the schedule is recorded
        as skipped, and Conflict is raised for a manual one.
        """
        ...

    async def list_last_firings(self, *, agent: str = "", sender: str = "") -> list[FiringRecord]:
        """Return the newest firing of each job, in no order."""
        ...

    async def list_firings(
        self, senders: SenderSet, *, job_id: str = "", agent: str = "", limit: int
    ) -> list[FiringRecord]:
        """Return the newest firings of the senders' jobs, newest first: of one job, or of all jobs of an agent."""
        ...
