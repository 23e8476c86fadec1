"""An asyncio event loop in virtual time. It does no I/O: every wait is a timer, and time jumps to the next one.

Works with world.py, which runs a daemon in it and stops it between any two steps, as a crash would.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(Exception):
    """Nothing is ready and no timer is set, but the awaited work has not ended."""


class _VirtualSelector(selectors.BaseSelector):
    """Where a real loop would sleep, this moves its clock."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock(self._loop.describe_tasks())
        self._loop.advance(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise NotImplementedError("a simulation does no I/O")

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise NotImplementedError("a simulation does no I/O")

    def get_map(self) -> Any:
        return {}


class _NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets of tasks are in the same order in every process."""

    def __init__(self, work: Coroutine[Any, Any, Any], *, number: int, **options: Any) -> None:
        self.number = number
        super().__init__(work, **options)

    def __hash__(self) -> int:
        return self.number


class _NumberedFuture(asyncio.Future[Any]):
    def __init__(self, *, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in the order asyncio promises; only time is virtual. Nothing depends on memory addresses."""

    def __init__(self, now: float = 0.0) -> None:
        super().__init__()
        self._now = now
        self._selector = _VirtualSelector(self)
        # One step of rounding error must not keep a timer that is due from being seen as due.
        self._clock_resolution = 1e-9
        self.steps = 0
        self._last_step: int | None = None
        self._count = 0
        self.set_task_factory(_create_task)

    def next_number(self) -> int:
        self._count += 1
        return self._count

    def create_future(self) -> "asyncio.Future[Any]":
        return _NumberedFuture(number=self.next_number(), loop=self)

    def list_tasks(self) -> list["asyncio.Task[Any]"]:
        """The unfinished tasks in the order in which they were created."""
        return sorted(asyncio.all_tasks(self), key=hash)

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self.steps += 1
        self._now += max(0.0, seconds)
        if self._last_step is not None and self.steps >= self._last_step:
            self.stop()

    def run_steps(self, task: "asyncio.Task[Any]", most: int | None) -> bool:
        """Run so many steps, or until the task is done; whether it is."""
        if task.done():
            return True
        self._last_step = None if most is None else self.steps + most
        task.add_done_callback(self._stop_on_done)
        try:
            self.run_forever()
        finally:
            self._last_step = None
            task.remove_done_callback(self._stop_on_done)
        return task.done()

    def _stop_on_done(self, _task: "asyncio.Task[Any]") -> None:
        self.stop()

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        """No thread: the operating system would decide when it is done."""
        future: asyncio.Future[T] = self.create_future()

        def run() -> None:
            if not future.done():
                try:
                    future.set_result(func(*args))
                except Exception as error:  # noqa: BLE001 - it is handed to who waits
                    future.set_exception(error)

        self.call_soon(run)
        return future

    def describe_tasks(self) -> str:
        """What every unfinished task waits at, for the report of a deadlock."""
        places = []
        for task in self.list_tasks():
            frames = task.get_stack(limit=1)
            place = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "?"
            places.append(f"{task.get_name()} at {place}")
        return "; ".join(places)

    def discard(self) -> None:
        """Cancel what is left and close the loop. What keeps going in spite of that is dropped."""
        tasks = self.list_tasks()
        for task in tasks:
            task.cancel()
        if tasks:
            left = self.create_task(_wait_for(tasks))
            self.run_steps(left, _MOST_CANCELLING_STEPS)
            for task in self.list_tasks():
                # Nobody waits for it; it needs no report.
                task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.close()

    def _process_events(self, event_list: list[Any]) -> None:
        """There is no I/O whose events could be processed."""

    def _write_to_self(self) -> None:
        """No other thread ever wakes this loop."""


_MOST_CANCELLING_STEPS = 200


def _create_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
    assert isinstance(loop, VirtualLoop)
    return _NumberedTask(work, number=loop.next_number(), loop=loop, **options)


async def _wait_for(tasks: "list[asyncio.Task[Any]]") -> None:
    await asyncio.wait(tasks)


def run_virtual(main: Coroutine[Any, Any, T]) -> tuple[T, VirtualLoop]:
    """Run to the end in a loop of its own. Whatever the work leaves behind is cancelled."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    try:
        result = loop.run_until_complete(main)
        return result, loop
    finally:
        asyncio.set_event_loop(None)
        loop.discard()
