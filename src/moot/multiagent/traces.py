"""Traces of turns: what happens is written down where it is kept nowhere else, without secrets or personal data."""

from collections.abc import Callable
from typing import Protocol

from moot.domain.approval import Approval
from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.events import ApprovalClosed, ApprovalOpened, EventBody, ModelRetrying
from moot.domain.ports import Clock
from moot.domain.run import RunRequest
from moot.domain.senders import is_grant
from moot.domain.trace import TraceKind, TraceNote, fitted
from moot.engine.feed import Feed


class Shelf(Protocol):
    """Where notes are kept."""

    def add(self, note: TraceNote) -> None: ...


class Traces:
    def __init__(
        self,
        *,
        shelf: Shelf,
        feed: Callable[[ConversationKey], Feed | None],
        redact: Callable[[str], str],
        clock: Clock,
    ) -> None:
        self._shelf = shelf
        self._feed = feed
        self._redact = redact
        self._clock = clock

    def note(self, run_id: str, kind: TraceKind, agent: str, /, **payload: object) -> None:
        """Write a fact into the trace of a run. It is on disk before the run's end is told; the caller goes on."""
        text, truncated = fitted(payload, self._redact)
        note = TraceNote(run_id=run_id, at=self._clock.now(), kind=kind, agent=agent, payload=text, truncated=truncated)
        self._shelf.add(note)

    def watch(self, request: RunRequest) -> None:
        """Note what a run in flight announces and nothing else keeps: what was decided about its calls, and retries."""
        feed = self._feed(request.key)
        if feed is not None:
            feed.follow(_Watch(self, request))


class _Watch:
    """Follows one run."""

    def __init__(self, traces: Traces, request: RunRequest) -> None:
        self._note = traces.note
        self._run_id = request.id
        self._agent = request.speaker
        self._open: dict[str, Approval] = {}

    def __call__(self, item: EventBody | MootError) -> None:
        match item:
            case ApprovalOpened(approval) if approval.run_id == self._run_id:
                # What a teammate asks is told here too; it belongs into its own trace.
                self._open[approval.id] = approval
                self._decided(approval, "pending")
            case ApprovalClosed(ask_id, state) if ask_id in self._open:
                self._decided(self._open.pop(ask_id), state)
            case ModelRetrying(attempt, delay, reason):
                self._note(
                    self._run_id,
                    TraceKind.MODEL_RETRY,
                    self._agent,
                    attempt=attempt,
                    delay_seconds=delay,
                    reason=reason,
                )
            case _:
                return

    def _decided(self, approval: Approval, state: str) -> None:
        self._note(
            self._run_id,
            TraceKind.POLICY_DECISION,
            self._agent,
            about="grant" if is_grant(approval.id) else "approval",
            tool=approval.tool,
            state=str(state),
            attempt=approval.attempt,
            ask=approval.id,
            reason=approval.reason,
            call=approval.line,
        )
