"""Shows a run the messages that were sent to steer it, before its next request. Works with loop.py and lanes.py."""

import asyncio
from typing import Any

from moot.domain.events import MessageSteered
from moot.domain.message import user
from moot.engine.turn import RunProgress, Turn
from moot.failpoint import reach


async def show_steered(turn: Turn, progress: RunProgress) -> None:
    """Add the messages to the history of the run. One transaction stores them and takes them from the queue."""
    steering, entries = turn.steering, turn.history.entries
    if entries and entries[-1].run_id != turn.request.id:
        # A message that is run again: what steers the run is told from a turn of its own by the entries before it.
        return
    requests = steering.take() if steering is not None else []
    if steering is None or not requests:
        return
    first = turn.history.last_seq + 1
    shown = [
        MessageSteered(request.content, first + index, request.id, turn.request.id)
        for index, request in enumerate(requests)
    ]

    def settle(write: "asyncio.Future[Any]") -> None:
        # Called also if the run is stopped meanwhile: the messages are either shown or queued.
        if write.cancelled() or write.exception() is not None:
            steering.put_back(requests)
            return
        for each in shown:
            turn.emit(each)
            steering.finish(each)

    reach("steer.taken")
    messages = [user(request.content, taint=request.taint) for request in requests]
    write = progress.recorder.write(messages, progress.spent, steered=[request.id for request in requests])
    write.add_done_callback(settle)
    await progress.recorder.settle()
    reach("steer.recorded")
