"""Supervisor: owns every background task. Tasks fail independently and are stopped together."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from moot.domain.ports.clock import Clock

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Supervisor:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Tasks in the order they were started.
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def start(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._end)
        return task

    def start_awaited(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task whose exception the caller looks at and reports."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("task %s failed", task.get_name(), exc_info=error)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def own(self, name: str, work: Awaitable[T]) -> asyncio.Future[T]:
        """Return `work` if it is already a future; otherwise start it as a task."""
        return work if isinstance(work, asyncio.Future) else self.start(name, _await(work))

    async def stop(self, *, grace: float = 5.0) -> None:
        """Cancel all tasks, newest first, and wait for them for at most `grace` seconds."""
        tasks = list(self._tasks)
        for task in reversed(tasks):
            task.cancel()
        if tasks:
            with suppress(TimeoutError):
                async with self._clock.timeout(grace):
                    await asyncio.wait(tasks)

    async def repeat(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call `work` every `seconds`; a failure is logged and does not end the repetition."""
        while True:
            await self._clock.sleep(seconds)
            try:
                await work()
            except Exception:
                logger.exception("periodic work failed")

    def __len__(self) -> int:
        return len(self._tasks)


async def _await(work: Awaitable[T]) -> T:
    return await work


def _do_nothing() -> None:
    return


async def catch(work: Callable[[], Coroutine[Any, Any, T]], on_end: Callable[[], None] = _do_nothing) -> T | Exception:
    """Return the result of `work`, or its exception as a value. Called only here: a task may be cancelled before.

    `on_end` wakes whoever waits for the task a round of the event loop earlier than a callback of it.
    """
    try:
        return await work()
    except Exception as error:  # noqa: BLE001 — handed on as a value, never dropped
        return error
    finally:
        on_end()
