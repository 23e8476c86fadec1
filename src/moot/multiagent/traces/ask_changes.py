"""Orders what became of the approvals and grants of a run. Used by timeline.py and ledger.py. Pure.

The changes of one call are in the order in which they happened, whatever the clock says. Calls of one step are made at
the same time and do not depend on each other; their changes are merged by time.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from moot.domain.ask import AskAttempt, AskState
from moot.domain.trace import RecordedRun


class AskChange(NamedTuple):
    """An attempt was opened, decided, or ended without a decision. `after_seq` is the message that made the call."""

    after_seq: int
    at: float
    state: AskState
    attempt: AskAttempt


def list_changes(recorded: RecordedRun) -> list[AskChange]:
    """Return the changes in causal order. Those of calls that are not among the entries come first."""
    made_by = {call.id: entry.seq for entry in recorded.entries for call in entry.message.tool_calls}
    by_call: dict[str, list[AskAttempt]] = defaultdict(list)
    for attempt in recorded.attempts:
        by_call[attempt.call_id].append(attempt)
    ordered = [
        (change.after_seq, latest, change)
        for call_id, attempts in by_call.items()
        for latest, change in _list_of_call(attempts, made_by.get(call_id, 0))
    ]
    ordered.sort(key=lambda item: item[:2])
    return [change for _, _, change in ordered]


def _list_of_call(attempts: Sequence[AskAttempt], after_seq: int) -> Iterator[tuple[float, AskChange]]:
    """Yield the changes, each with the latest time up to it."""
    latest = 0.0
    for attempt in attempts:
        for state, at in attempt.list_changes():
            latest = max(latest, at)
            yield latest, AskChange(after_seq, at, state, attempt)
