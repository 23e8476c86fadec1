"""Ports for records about runs: notes for traces, and model requests. Implemented in store/ and multiagent/traces/."""

from typing import Protocol

from moot.domain.step_record import StepRecord, StoredStep
from moot.domain.trace import TraceKind


class TraceNotes(Protocol):
    """Where facts for traces are written down, by whoever sees them happen."""

    def note(self, run_id: str, kind: TraceKind, agent: str, /, **payload: object) -> None:
        """Write it down. Costs the caller next to nothing, never fails, and is on disk before the run's end is told."""
        ...


class StepStore(Protocol):
    def add(self, record: StepRecord) -> None:
        """Write a record soon, before what is handed over later."""
        ...

    async def numbers(self, run_id: str) -> list[int]:
        """The steps of a run that have a record, in order."""
        ...

    async def find(self, run_id: str, step: int) -> StoredStep | None: ...
