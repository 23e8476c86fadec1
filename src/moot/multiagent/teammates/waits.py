"""Which runs wait for which, and whether that is for a person, which stops the clocks above. Works with live_runs."""

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
    # Open while the clock of whoever waits stands still.
    pause: ExitStack | None = field(default=None)


class Waits:
    def __init__(self, at_work: Callable[[str], RunView | None]) -> None:
        self._at_work = at_work
        self._by_awaited: dict[str, list[_Wait]] = {}
        self._by_waiting: dict[str, list[_Wait]] = {}
        # The runs that stop others right now, by those they stop.
        self._stoppers: dict[str, str] = {}

    @contextmanager
    def waiting(self, context: RunContext, run_ids: Sequence[str], clock: Deadline) -> Iterator[None]:
        """While a run waits for others; `clock` is the wait's own and stands when the run's does."""
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

    def waited_for_by(self, run_id: str) -> list[str]:
        """The runs that this one waits for."""
        return list(dict.fromkeys(each for wait in self._by_waiting.get(run_id, ()) for each in wait.run_ids))

    @contextmanager
    def stopping(self, run_id: str, stopper: str) -> Iterator[None]:
        """While a run stops another one, and waits until that has ended."""
        self._stoppers[run_id] = stopper
        try:
            yield
        finally:
            del self._stoppers[run_id]

    def first_waiter(self, run_id: str) -> str:
        """The run that has waited longest for this one, or stops it; empty where none does."""
        waits = self._by_awaited.get(run_id)
        return waits[0].context.run_id if waits else self._stoppers.get(run_id, "")

    def leads(self, run_id: str, to: Collection[str]) -> bool:
        """Whether one of these is waited for by the run, or by one that it waits for."""
        seen, left = {run_id}, [run_id]
        while left:
            awaited = {each for wait in self._by_waiting.get(left.pop(), ()) for each in wait.run_ids}
            if not awaited.isdisjoint(to):
                return True
            left += awaited - seen
            seen |= awaited
        return False

    def update(self, run_id: str) -> None:
        """What holds a run up has changed, or it has ended."""
        for wait in list(self._by_awaited.get(run_id, ())):
            self._pause_or_go_on(wait)
            self.update(wait.context.run_id)

    def _pause_or_go_on(self, wait: _Wait) -> None:
        held = self._waits_for_human(wait)
        if held and wait.pause is None:
            wait.pause = ExitStack()
            wait.pause.enter_context(wait.context.waiting())
            wait.pause.enter_context(wait.clock.paused())
        elif not held and wait.pause is not None:
            pause, wait.pause = wait.pause, None
            pause.close()

    def _waits_for_human(self, wait: _Wait) -> bool:
        """Whether all that still go on, of those waited for, wait for a human themselves."""
        going_on = [run for run in map(self._at_work, wait.run_ids) if run is not None]
        return bool(going_on) and all(map(self._is_held, going_on))

    def _is_held(self, run: RunView) -> bool:
        if run.block.condition in _HUMAN:
            return True
        waits = self._by_waiting.get(run.id, ())
        return run.block.condition is Condition.WAITING and any(map(self._waits_for_human, waits))


def _take_out(waits: dict[str, list[_Wait]], run_id: str, wait: _Wait) -> None:
    waits[run_id].remove(wait)
    if not waits[run_id]:
        del waits[run_id]
