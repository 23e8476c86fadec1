"""Traces of turns: what happens is written down where it is kept nowhere else, without secrets or personal data."""

from collections.abc import Callable
from typing import Protocol

from moot.domain.ask import Ask
from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.events import AskClosed, AskOpened, EventBody, ModelRetrying
from moot.domain.ports import Clock
from moot.domain.run import RunRequest
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

    def __call__(self, item: EventBody | MootError) -> None:
        match item:
            case AskOpened(ask) | AskClosed(ask):
                # What a teammate asks is told here too; it belongs into its own trace.
                if ask.run_id == self._run_id and not ask.is_question:
                    self._note_approval(ask)
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

    def _note_approval(self, ask: Ask) -> None:
        self._note(
            self._run_id,
            TraceKind.POLICY_DECISION,
            self._agent,
            about=str(ask.kind),
            tool=ask.tool,
            state=str(ask.state),
            attempt=ask.attempt,
            ask=ask.id,
            reason=ask.reason,
            call=ask.line,
        )
