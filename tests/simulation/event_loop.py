"""An asyncio event loop in virtual time. It does no I/O: every wait is a timer, and time jumps to the next one.

Works with world.py, which runs a daemon in it and stops it between any two steps, as a crash would.
"""

import asyncio
from asyncio.events import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")

_MOST_CANCELLING_STEPS = 200
# One step of rounding error must not keep a timer that is due from being seen as due.
_RESOLUTION = 1e-9


class Deadlock(Exception):
    """Nothing is ready and no timer is set, but the awaited work has not ended."""


class _NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets of tasks are in the same order in every process.

    asyncio asks for the hash of a task when that is created, so that the numbers are in the order of creation.
    """

    number = 0

    def __hash__(self) -> int:
        self.number = self.number or self.get_loop().next_number()  # type: ignore[attr-defined]
        return self.number


class _NumberedFuture(asyncio.Future[Any]):
    number = 0

    def __hash__(self) -> int:
        self.number = self.number or self.get_loop().next_number()  # type: ignore[attr-defined]
        return self.number


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in the order asyncio promises; only time is virtual. Nothing depends on memory addresses.

    It does what the loop of asyncio does without what is for threads, I/O and debugging: most of the time that a seed
    takes is spent in the loop.
    """

    # What the loop of asyncio keeps.
    _ready: deque[Handle]
    _scheduled: list[TimerHandle]
    _stopping: bool
    _check_closed: Callable[[], None]

    def __init__(self, now: float = 0.0) -> None:
        super().__init__()
        self._now = now
        self.steps = 0
        self._last_step: int | None = None
        self._count = 0
        self.set_task_factory(_create_task)

    def next_number(self) -> int:
        self._count += 1
        return self._count

    def create_future(self) -> "asyncio.Future[Any]":
        return _NumberedFuture(loop=self)

    def list_tasks(self) -> list["asyncio.Task[Any]"]:
        """The unfinished tasks in the order in which they were created."""
        return sorted(asyncio.all_tasks(self), key=hash)

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self.steps += 1
        if seconds > 0.0:
            self._now += seconds
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

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        self._check_closed()
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        self._check_closed()
        timer = TimerHandle(when, callback, args, self, context)
        heappush(self._scheduled, timer)
        return timer

    def _timer_handle_cancelled(self, _handle: TimerHandle) -> None:
        """It is dropped when its time has come."""

    def _run_once(self) -> None:
        """Call what is ready; if nothing is, move the clock to the next timer first."""
        ready, scheduled = self._ready, self._scheduled
        while scheduled and scheduled[0].cancelled():
            heappop(scheduled)
        if ready or self._stopping:
            self.advance(0.0)
        elif scheduled:
            self.advance(scheduled[0].when() - self._now)
        else:
            raise Deadlock(self.describe_tasks())
        due = self._now + _RESOLUTION
        while scheduled and scheduled[0].when() < due:
            ready.append(heappop(scheduled))
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _write_to_self(self) -> None:
        """No other thread ever wakes this loop."""


def _create_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
    assert isinstance(loop, VirtualLoop)
    return _NumberedTask(work, loop=loop, **options)


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
