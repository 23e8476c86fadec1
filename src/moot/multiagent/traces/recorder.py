"""Records facts that are stored for traces only: model retries, read from the bus, and what other parts note.

multiagent/traces/timeline.py inserts them between the messages of the run. Secrets and personal data are removed.
"""

from collections.abc import Callable

from moot.domain.events import Event, ModelRetrying
from moot.domain.ports.clock import Clock
from moot.domain.ports.traces import TraceNoteStore
from moot.domain.trace import TraceKind, TraceNote, encode_payload

TRACED = (ModelRetrying,)


class Traces:
    def __init__(self, *, store: TraceNoteStore, redact: Callable[[str], str], clock: Clock) -> None:
        self._store = store
        self._redact = redact
        self._clock = clock

    def note(self, run_id: str, kind: TraceKind, agent: str, /, **payload: object) -> None:
        """Store a fact for the trace of a run, without waiting. It is on disk before the run's end is published."""
        text, truncated = encode_payload(payload, self._redact)
        note = TraceNote(run_id=run_id, at=self._clock.now(), kind=kind, agent=agent, payload=text, truncated=truncated)
        self._store.add(note)

    def read(self, event: Event) -> None:
        """Record an event of one of the TRACED kinds."""
        if isinstance(event.body, ModelRetrying):
            source, body = event.source, event.body
            retry = {"attempt": body.attempt, "delay_seconds": body.delay_seconds, "reason": body.reason}
            self.note(source.run_id, TraceKind.MODEL_RETRY, source.speaker, **retry)
