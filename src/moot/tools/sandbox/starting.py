"""Starts a process so that a cancellation half way leaves nothing running."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

SECONDS = 10.0


async def start_whole(starting: Awaitable[T], undo: Callable[[T], None]) -> T:
    """What was started. Cancelled meanwhile, this waits until there is something to undo, and undoes it.

    An event loop that is told to stop while it starts a process ends that one alone, and knows nothing of the child
    it may have by then: bubblewrap's would wait for its parent for ever.
    """
    broken_off = False
    ready: list[T] = []
    settled = asyncio.Event()

    async def started() -> T:
        try:
            ready.append(await starting)
            # Here and not by who waits: told to stop twice, they wait no longer, and it has to end all the same.
            if broken_off:
                undo(ready[0])
        finally:
            settled.set()
        return ready[0]

    try:
        return await asyncio.shield(started())
    except asyncio.CancelledError:
        broken_off = True
        if ready:
            undo(ready[0])
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                await settled.wait()
        raise
