"""Ports for records about runs: traces, model requests, the ledger, retention. Implemented in store/."""

from collections.abc import Awaitable
from typing import Protocol

from moot.domain.config import TraceConfig
from moot.domain.ledger import LedgerEntry
from moot.domain.step_record import StepRecord, StoredStep
from moot.domain.trace import Health, RecordedRun, TraceKind, TraceNote


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


class TraceNoteStore(Protocol):
    def add(self, note: TraceNote) -> None:
        """Write a note soon, before what is handed over later. Never fails; a note that cannot be written is lost."""
        ...


class TraceStore(TraceNoteStore, Protocol):
    async def recent(self, *, limit: int, failed: bool) -> list[RecordedRun]:
        """The newest turns first, each with those it set to work; of all runs only those that failed, if wanted."""
        ...

    async def find(self, written: str) -> RecordedRun:
        """One run in full; the beginning of its id will do where no other begins so."""
        ...

    async def acknowledge(self, *, now: float) -> None:
        """Report nothing any more that went wrong until now."""
        ...

    async def health(self, *, since: float) -> Health: ...


class Ledger(Protocol):
    """The journal of what blocked teammates. A write is handed over when it is called, and can be awaited."""

    def record_block(self, run_id: str, payload: dict[str, object], *, now: float) -> Awaitable[None]:
        """Write what a run is blocked by, unless the last entry says just that."""
        ...

    def record_unblock(self, run_id: str, *, now: float) -> Awaitable[None]:
        """Write that a run is not blocked any more, if the last entry says it is."""
        ...

    async def entries(self, run_id: str) -> list[LedgerEntry]: ...


class Retention(Protocol):
    async def expire(self, config: TraceConfig, *, now: float, batch: int) -> int:
        """Let go of some of what is too old or too much, the oldest first; how many runs that was."""
        ...
