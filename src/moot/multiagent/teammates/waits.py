"""Waits: which run waits for which. Pauses the clocks of runs that wait only for a person. Works with live_runs."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from msgspec import Struct, field

from moot.domain.ports.tool import RunContext
from moot.domain.run_view import Condition, RunView
from moot.engine.deadline import Deadline

_HUMAN = (Condition.BLOCKED, Condition.ASKING)


class _Wait(Struct, eq=False):
    context: RunContext
    run_ids: tuple[str, ...]
    clock: Deadline
    # Set while the clocks of the waiting run and of the wait are paused.
    pause: ExitStack | None = field(default=None)


class Waits:
    def __init__(self, at_work: Callable[[str], RunView | None]) -> None:
        self._at_work = at_work
        self._by_awaited: dict[str, list[_Wait]] = {}
        self._by_waiting: dict[str, list[_Wait]] = {}
        # By a run that is being stopped: the run that stops it.
        self._stoppers: dict[str, str] = {}

    @contextmanager
    def waiting(self, context: RunContext, run_ids: Sequence[str], clock: Deadline) -> Iterator[None]:
        """Register a wait for the duration of the block. `clock`, that of the wait, pauses together with the run's."""
        wait = _Wait(context, tuple(run_ids), clock)
        self._by_waiting.setdefault(context.run_id, []).append(wait)
        for run_id in wait.run_ids:
            self._by_awaited.setdefault(run_id, []).append(wait)
        try:
            with context.attending():
                self._pause_or_go_on(wait)
                yield
        finally:
            if wait.pause is not None:
                wait.pause.close()
            _take_out(self._by_waiting, context.run_id, wait)
            for run_id in wait.run_ids:
                _take_out(self._by_awaited, run_id, wait)

    def list_awaited(self, run_id: str) -> list[str]:
        """Return the ids of the runs that this run waits for."""
        return list(dict.fromkeys(each for wait in self._by_waiting.get(run_id, ()) for each in wait.run_ids))

    @contextmanager
    def stopping(self, run_id: str, stopper: str) -> Iterator[None]:
        """Register, for the duration of the block, that `stopper` stops a run and waits for its end."""
        self._stoppers[run_id] = stopper
        try:
            yield
        finally:
            del self._stoppers[run_id]

    def first_waiter(self, run_id: str) -> str:
        """Return the id of the run that has waited longest for this one, or else stops it; empty if there is none."""
        waits = self._by_awaited.get(run_id)
        return waits[0].context.run_id if waits else self._stoppers.get(run_id, "")

    def is_waiting_for(self, run_id: str, to: Collection[str]) -> bool:
        """Return whether a run waits, directly or through other runs, for one of `to`."""
        known, left = {run_id}, [run_id]
        while left:
            awaited = {each for wait in self._by_waiting.get(left.pop(), ()) for each in wait.run_ids}
            if not awaited.isdisjoint(to):
                return True
            left += awaited - known
            known |= awaited
        return False

    def update(self, run_id: str) -> None:
        """Pause or continue the waits for a run, and those above them, after its block changed or it ended."""
        for wait in list(self._by_awaited.get(run_id, ())):
            self._pause_or_go_on(wait)
            self.update(wait.context.run_id)

    def _pause_or_go_on(self, wait: _Wait) -> None:
        held = self._waits_for_human(wait)
        if held and wait.pause is None:
            wait.pause = ExitStack()
            wait.pause.enter_context(wait.context.waiting())
            wait.pause.enter_context(wait.clock.pause())
        elif not held and wait.pause is not None:
            pause, wait.pause = wait.pause, None
            pause.close()

    def _waits_for_human(self, wait: _Wait) -> bool:
        """Return whether all live runs among the awaited ones wait for a person."""
        is_any_held = False
        for run_id in wait.run_ids:
            run = self._at_work(run_id)
            if run is not None:
                # Most often the first one at work decides; there may be a hundred.
                if not self._is_held(run):
                    return False
                is_any_held = True
        return is_any_held

    def _is_held(self, run: RunView) -> bool:
        if run.block.condition in _HUMAN:
            return True
        waits = self._by_waiting.get(run.id, ())
        return run.block.condition is Condition.WAITING and any(map(self._waits_for_human, waits))


def _take_out(waits: dict[str, list[_Wait]], run_id: str, wait: _Wait) -> None:
    waits[run_id].remove(wait)
    if not waits[run_id]:
        del waits[run_id]
