"""Ports for traces: notes on runs and the ledger of what blocked them. Implemented in store/ and multiagent/traces/."""

from typing import Protocol

from moot.domain.trace import TraceKind


class TraceNotes(Protocol):
    """Where facts for traces are written down, by whoever sees them happen."""

    def note(self, run_id: str, kind: TraceKind, agent: str, /, **payload: object) -> None:
        """Write it down. Costs the caller next to nothing, never fails, and is on disk before the run's end is told."""
        ...
