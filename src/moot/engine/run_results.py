"""What the result of an ended run is: `RunEnd.answer`, with the messages that a run of an assistant has sent.

The messages are stored once, as calls in the history. A run that is read from the store gets them here, wherever its
result is shown: to a person, to another run, or to a step of a workflow.
"""

from collections.abc import Iterable
from typing import Protocol

from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.message import Entry
from moot.domain.run import Outcome, Run, RunEnd
from moot.domain.user_message import find_user_messages
from moot.engine.history import History
from moot.engine.turn import RunProgress

_UNANSWERED = "It is kept; the budget of the turn it belongs to is used up."


class Entries(Protocol):
    async def list_entries(self, key: ConversationKey, *, first: int = 1) -> list[Entry]: ...


def add_messages(end: RunEnd, progress: RunProgress | None, history: History, run_id: str) -> RunEnd:
    """Return the end of a run with the messages that it has sent."""
    if progress is None or not progress.has_messaged:
        return end
    return replace(end, messages=tuple(find_user_messages(history.list_messages(run_id)).values()))


def complete_if_delivered(end: RunEnd) -> RunEnd:
    """Return `completed` for a report that could not be answered because the budget is used up; it is stored."""
    if end.steps or end.outcome not in (Outcome.LIMIT, Outcome.TIMEOUT):
        return end
    return replace(end, outcome=Outcome.COMPLETED, limit="", error=_UNANSWERED)


async def load_result(store: Entries, run: Run) -> Run:
    """Return an ended run with the messages that its calls have sent. A run with a text of its own has sent none."""
    if run.end is None or run.end.answer or not run.user_seq:
        return run
    entries = await store.list_entries(run.key, first=run.user_seq)
    sent = find_user_messages(entry.message for entry in entries if entry.run_id == run.id)
    return replace(run, end=replace(run.end, messages=tuple(sent.values())))


async def load_results(store: Entries, runs: Iterable[Run]) -> list[Run]:
    return [await load_result(store, run) for run in runs]
