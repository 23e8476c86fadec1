"""The Workflows port on SQLite. The SQL is in workflow_rows.py."""

from collections.abc import Sequence

from moot.domain.senders import SenderSet
from moot.domain.workflow import StepAttempt, WorkflowReport, WorkflowRun, WorkflowStatus
from moot.store import workflow_rows
from moot.store.sqlite import SqliteStore


class SqliteWorkflows:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def create(self, run: WorkflowRun, reports: Sequence[WorkflowReport]) -> WorkflowRun:
        return await self._store.write(lambda db: workflow_rows.create(db, run, reports, self._store.node), "workflow")

    async def get(self, run_id: str) -> WorkflowRun | None:
        return await self._store.read(lambda db: workflow_rows.get(db, run_id))

    async def list_runs(self, senders: SenderSet, *, limit: int, name: str = "") -> list[WorkflowRun]:
        return await self._store.read(lambda db: workflow_rows.list_runs(db, senders, limit, name))

    async def start_attempt(self, run_id: str, attempt: StepAttempt) -> StepAttempt:
        return await self._store.write(
            lambda db: workflow_rows.start_attempt(db, run_id, attempt, self._store.node), "workflow"
        )

    async def list_attempts(self, run_id: str) -> list[StepAttempt]:
        return await self._store.read(lambda db: workflow_rows.list_attempts(db, run_id))

    async def cancel(self, run_id: str, *, now: float) -> WorkflowRun | None:
        return await self._store.write(lambda db: workflow_rows.cancel(db, run_id, now, self._store.node), "workflow")

    async def end(self, run_id: str, status: WorkflowStatus, *, error: str = "", now: float) -> WorkflowRun:
        return await self._store.write(
            lambda db: workflow_rows.end(db, run_id, status, error, now, self._store.node), "workflow"
        )

    async def recover(self) -> list[WorkflowRun]:
        # A start without workflows takes no write.
        if not await self._store.read(workflow_rows.has_unfinished):
            return []
        return await self._store.write(lambda db: workflow_rows.recover(db, self._store.node), "workflow")

    async def list_owed(self, run_id: str = "") -> list[tuple[str, WorkflowReport]]:
        return await self._store.read(lambda db: workflow_rows.list_owed(db, run_id))
