"""Records facts for traces that nothing else keeps: decisions about calls and model retries, read from the bus.

multiagent/timeline.py puts them between the messages of the run; secrets and personal data are removed first.
"""

from collections.abc import Callable
from typing import Protocol

from moot.domain.approval import Approval
from moot.domain.events import ApprovalClosed, ApprovalOpened, Event, ModelRetrying
from moot.domain.ports import Clock
from moot.domain.senders import is_grant
from moot.domain.trace import TraceKind, TraceNote, fitted


class Shelf(Protocol):
    """Where notes are kept."""

    def add(self, note: TraceNote) -> None: ...


class Traces:
    def __init__(self, *, shelf: Shelf, redact: Callable[[str], str], clock: Clock) -> None:
        self._shelf = shelf
        self._redact = redact
        self._clock = clock
        # Approvals that are open: what closes one names only its id.
        self._open: dict[str, Approval] = {}

    def note(self, run_id: str, kind: TraceKind, agent: str, /, **payload: object) -> None:
        """Write a fact into the trace of a run. It is on disk before the run's end is told; the caller goes on."""
        text, truncated = fitted(payload, self._redact)
        note = TraceNote(run_id=run_id, at=self._clock.now(), kind=kind, agent=agent, payload=text, truncated=truncated)
        self._shelf.add(note)

    def read(self, event: Event) -> None:
        """Note an event that `is_traced` lets through."""
        match event.body:
            case ApprovalOpened(approval):
                self._open[approval.id] = approval
                self._note_decision(event, approval, "pending")
            case ApprovalClosed(ask_id, state) if ask_id in self._open:
                self._note_decision(event, self._open.pop(ask_id), state)
            case ModelRetrying(attempt, delay, reason):
                source = event.source
                retry = {"attempt": attempt, "delay_seconds": delay, "reason": reason}
                self.note(source.run_id, TraceKind.MODEL_RETRY, source.speaker, **retry)
            case _:
                return

    def _note_decision(self, event: Event, approval: Approval, state: str) -> None:
        self.note(
            event.source.run_id,
            TraceKind.POLICY_DECISION,
            event.source.speaker,
            about="grant" if is_grant(approval.id) else "approval",
            tool=approval.tool,
            state=str(state),
            attempt=approval.attempt,
            ask=approval.id,
            reason=approval.reason,
            call=approval.line,
        )


def is_traced(event: Event) -> bool:
    return isinstance(event.body, ApprovalOpened | ApprovalClosed | ModelRetrying)
