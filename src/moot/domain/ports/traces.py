"""Ports for records about runs: traces, model requests, retention. Implemented in store/."""

from typing import Protocol

from moot.domain.config import TraceConfig
from moot.domain.deletion import ExpiredData
from moot.domain.step_record import StepRecord, StoredStep
from moot.domain.trace import Health, RecordedRun, TraceKind, TraceNote


class TraceNotes(Protocol):
    """Where facts for traces are recorded."""

    def note(self, run_id: str, kind: TraceKind, agent: str, /, **payload: object) -> None:
        """Record a fact. Cheap for the caller, never fails, and on disk before the run's end is published."""
        ...


class StepStore(Protocol):
    def add(self, record: StepRecord) -> None:
        """Write a record soon, before later writes."""
        ...

    async def list_numbers(self, run_id: str) -> list[int]:
        """Return the numbers of the steps of a run that have a record, in order."""
        ...

    async def find(self, run_id: str, step: int) -> StoredStep | None: ...


class TraceNoteStore(Protocol):
    def add(self, note: TraceNote) -> None:
        """Write a note soon, before later writes. Never fails; a note that cannot be written is lost."""
        ...


class TraceStore(TraceNoteStore, Protocol):
    async def list_recent(self, *, limit: int, failed: bool) -> list[RecordedRun]:
        """Return turns, newest first, each with the runs it spawned; or only the failed runs."""
        ...

    async def find(self, written: str) -> RecordedRun:
        """Return one run in full; a unique prefix of its id is enough."""
        ...

    async def acknowledge(self, *, now: float) -> None:
        """Stop reporting failures up to now."""
        ...

    async def load_health(self, *, since: float) -> Health: ...


class Retention(Protocol):
    async def expire(self, config: TraceConfig, *, now: float, batch: int) -> ExpiredData:
        """Delete some of what is too old or too much, oldest first; return what was deleted."""
        ...
