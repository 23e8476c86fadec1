"""Traces of turns: what happens is written down where it is kept nowhere else, without secrets or personal data."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from moot.domain.ports import Clock
from moot.domain.trace import PAYLOAD_LENGTH, TraceKind, TraceNote


class Shelf(Protocol):
    """Where notes are kept."""

    def add(self, note: TraceNote) -> None: ...


class Traces:
    def __init__(self, *, shelf: Shelf, redact: Callable[[str], str], clock: Clock) -> None:
        self._shelf = shelf
        self._redact = redact
        self._clock = clock

    def note(self, run_id: str, kind: TraceKind, agent: str, /, **payload: object) -> None:
        """Write a fact into the trace of a run. It is on disk before the run's end is told; the caller goes on."""
        text = self._redact(msgspec.json.encode(payload, enc_hook=str).decode())
        self._shelf.add(
            TraceNote(
                run_id=run_id,
                at=self._clock.now(),
                kind=kind,
                agent=agent,
                payload=text[:PAYLOAD_LENGTH],
                truncated=len(text) > PAYLOAD_LENGTH,
            )
        )
