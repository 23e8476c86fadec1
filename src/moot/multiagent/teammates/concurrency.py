"""How many teammates work at once: the others stand in line, and one that waits for somebody gives up its place."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from moot.domain.agent_run import Block, Condition
from moot.domain.events import RunQueued
from moot.engine.bus import Bus
from moot.multiagent.teammates.run_factory import source_of_run
from moot.multiagent.teammates.spawn_request import Live


class Places:
    def __init__(self, *, most: Callable[[], int], start: Callable[[Live], None], bus: Bus) -> None:
        self._most = most
        self._start = start
        self._bus = bus
        self._line: deque[Live] = deque()
        self._taken: set[str] = set()
        # Nobody begins before all who were there before are known.
        self._is_open = False

    def stand_in_line(self, live: Live) -> None:
        self._line.append(live)
        if not live.taken_up:
            live.run = replace(live.run, block=Block(condition=Condition.QUEUED))
        if self._is_open and len(self._taken) >= self._most():
            self._publish(live, len(self._line))

    def fill(self) -> None:
        """Start those in line, as far as there are places."""
        started = False
        while self._line and self._is_open and len(self._taken) < self._most():
            live = self._line.popleft()
            self._taken.add(live.run.id)
            self._start(live)
            started = True
        if started:
            self._announce()

    def _announce(self) -> None:
        for position, live in enumerate(self._line, 1):
            self._publish(live, position)

    def _publish(self, live: Live, position: int) -> None:
        self._bus.publish(source_of_run(live.run), RunQueued(position))

    def left_line(self, live: Live) -> bool:
        """Take one out of the line. False when it is not there."""
        if live not in self._line:
            return False
        self._line.remove(live)
        self._announce()
        return True

    def give_up(self, run_id: str) -> None:
        self._taken.discard(run_id)
        self.fill()

    def take_again(self, run_id: str) -> None:
        """Whoever waited goes on at once; until another is done there is one more at work than there are places."""
        self._taken.add(run_id)

    def open(self) -> None:
        self._is_open = True
        self.fill()

    def close(self) -> None:
        self._is_open = False
        self._line.clear()
