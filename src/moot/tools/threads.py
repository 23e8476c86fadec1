"""Thread pool for blocking work of tools, separate from the daemon's own."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

# A run makes at most eight calls at once, so a few runs on slow disks leave threads for others.
_THREADS = 32
_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tools")

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    scope = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_pool, partial(scope.run, work, *args, **kwargs))
