"""Random delays in the daemon, its store and the client: `./dev test tests/journeys --jitter 1`.

A test that asserts what has usually happened by now passes on an idle machine and fails on a busy one. The delays are
short and there are many of them, so that such an assertion fails here. The number is the seed of the delays; threads
run as they like, so that a seed does not repeat a failure exactly.
"""

import asyncio
import os
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import uvloop

from moot import failpoint
from moot.store import readers
from tests.fork_server import JITTER_VARIABLE

# One in so many callbacks of a loop is late, and every second passage of a failpoint or read of the store.
_CALLBACKS = 60
_POINTS = 2
_LONGEST_SECONDS = 0.02

_sleep = time.sleep


class _Delays:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def sometimes(self, one_in: int) -> None:
        if self._random.randrange(one_in) == 0:
            _sleep(self._random.random() * _LONGEST_SECONDS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--jitter", type=int, metavar="SEED", help="delay daemon, store and client at random")


def pytest_configure(config: pytest.Config) -> None:
    seed = config.getoption("--jitter")
    if seed is not None:
        os.environ[JITTER_VARIABLE] = str(seed)
        install(seed)


def install(seed: int) -> None:
    delays = _Delays(seed)
    _delay_points(delays)
    _delay_reads(delays)
    _delay_threads(delays)
    _delay_loops(delays)


def _delay_points(delays: _Delays) -> None:
    """The failpoints are where a commit, an event or a call is about to be, or has just been."""

    reached = failpoint._kill_at

    def reached_late(point: str) -> None:
        delays.sometimes(_POINTS)
        reached(point)

    vars(failpoint).update(_name=failpoint._name or "none", _kill_at=reached_late)


def _delay_reads(delays: _Delays) -> None:
    read = readers._read

    def read_late(*arguments: Any) -> Any:
        delays.sometimes(_POINTS)
        return read(*arguments)

    vars(readers)["_read"] = read_late


def _delay_threads(delays: _Delays) -> None:
    to_thread = asyncio.to_thread

    async def to_late_thread(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        def late() -> Any:
            delays.sometimes(_POINTS)
            return function(*arguments, **named)

        return await to_thread(late)

    vars(asyncio)["to_thread"] = to_late_thread


def _delay_loops(delays: _Delays) -> None:
    class LateDaemonLoop(uvloop.Loop):
        def call_soon(self, *arguments: Any, **named: Any) -> Any:  # type: ignore[override]
            delays.sometimes(_CALLBACKS)
            return super().call_soon(*arguments, **named)

    class LateLoop(asyncio.SelectorEventLoop):
        def call_soon(self, *arguments: Any, **named: Any) -> Any:  # type: ignore[override]
            delays.sometimes(_CALLBACKS)
            return super().call_soon(*arguments, **named)

    vars(uvloop)["new_event_loop"] = LateDaemonLoop
    asyncio.DefaultEventLoopPolicy._loop_factory = LateLoop  # type: ignore[attr-defined]
