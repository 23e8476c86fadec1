"""Starts a process so that a cancellation during the start leaves nothing running."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from moot.domain.ports.clock import Clock

T = TypeVar("T")

START_SECONDS = 10.0


async def start_whole(starting: Awaitable[T], undo: Callable[[T], None], clock: Clock) -> T:
    """Start a process. If cancelled meanwhile, wait until it has started and then stop it.

    asyncio forgets the child if it is cancelled while it starts a process, and bubblewrap's child would wait for ever.
    """
    broken_off = False
    ready: list[T] = []
    settled = asyncio.Event()

    async def start() -> T:
        try:
            ready.append(await starting)
            # Here and not in the caller, which stops waiting when it is cancelled twice; the process must end anyway.
            if broken_off:
                undo(ready[0])
        finally:
            settled.set()
        return ready[0]

    try:
        return await asyncio.shield(start())
    except asyncio.CancelledError:
        broken_off = True
        if ready:
            undo(ready[0])
        with suppress(TimeoutError):
            async with clock.timeout(START_SECONDS):
                await settled.wait()
        raise
