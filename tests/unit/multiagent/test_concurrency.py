"""The queue of background runs: who is told a new position when one of very many begins."""

from typing import Any, cast

from moot.domain.conversation import ConversationKey
from moot.domain.events import EventBody, EventSource, RunQueued
from moot.domain.run import Run, RunKind, RunRequest, RunStatus, Spawn
from moot.engine.bus import Bus
from moot.multiagent.teammates.concurrency import Concurrency
from moot.multiagent.teammates.live_runs import LiveRun


class Published:
    """Stands for the bus, and keeps what is published."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int]] = []

    def publish(self, source: EventSource, body: EventBody) -> None:
        assert isinstance(body, RunQueued)
        self.found.append((source.run_id, body.position))


def make_run(number: int) -> LiveRun:
    run_id = f"arun-{number}"
    request = RunRequest(id=run_id, key=ConversationKey("ada", f"bg:{run_id}:user"), speaker="ada", content="go")
    return LiveRun(Run(request=request, status=RunStatus.QUEUED, created_at=1.0, spawn=Spawn(kind=RunKind.BACKGROUND)))


def test_of_very_many_in_line_only_the_first_are_told_new_positions() -> None:
    bus = Published()
    queue = Concurrency(most=lambda: 1, bus=cast(Bus, cast(Any, bus)))
    for number in range(1_000):
        queue.enqueue(make_run(number))
    queue.open()
    assert [live.run.id for live in queue.take_ready()] == ["arun-0"]
    assert (bus.found[0], bus.found[-1], len(bus.found)) == (("arun-1", 1), ("arun-100", 100), 100)
