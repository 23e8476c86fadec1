"""Reads what a run of an assistant sent to the person. Used by turns.py, and where an ended run is shown again."""

from msgspec.structs import replace

from moot.domain.ports.store import Store
from moot.domain.run import Run, RunEnd
from moot.domain.user_message import find_user_messages
from moot.engine.history import History
from moot.engine.turn import Progress


def add_messages(end: RunEnd, progress: Progress | None, history: History, run_id: str) -> RunEnd:
    """Return the end of a run with the messages that it has sent."""
    if progress is None or not progress.has_messaged:
        return end
    return replace(end, messages=tuple(find_user_messages(history.list_messages(run_id)).values()))


async def with_messages(store: Store, run: Run) -> Run:
    """Return an ended run with the messages that its calls have sent. A run with a text of its own has sent none."""
    if run.end is None or run.end.content or not run.user_seq:
        return run
    entries = await store.list_entries(run.key, first=run.user_seq)
    sent = find_user_messages(entry.message for entry in entries if entry.run_id == run.id)
    return replace(run, end=replace(run.end, messages=tuple(sent.values())))
