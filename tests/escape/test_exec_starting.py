"""A command that is broken off while it is being started: nothing of it is left."""

import asyncio
import os
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import uvloop

from moot.tools.sandbox import sandbox as starting
from moot.tools.sandbox.sandbox import Command
from moot.tools.sandbox.tape import Tape
from tests.daemon_process import eventually
from tests.escape.exec_kit import Bench

TRIES = 200


def running(mark: str) -> Iterator[int]:
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and mark.encode() in Path("/proc", name, "cmdline").read_bytes():
                yield int(name)
        except OSError:
            continue


def test_a_command_that_is_stopped_while_it_starts_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    spawn = starting._spawn
    # A child that waits for its parent is there for less than a millisecond, some milliseconds after the beginning.
    moments = cycle(number / 4000 for number in range(40))

    async def broken_off(*given: Any) -> None:
        task = asyncio.current_task()
        assert task is not None

        def halt() -> None:
            # The event loop is held up: there is a process by now, it has a child, and nobody has been told of it.
            time.sleep(next(moments))
            task.cancel()

        asyncio.get_running_loop().call_soon(halt)
        await spawn(*given)

    monkeypatch.setattr(starting, "_spawn", broken_off)

    async def scenario() -> None:
        sandbox = bench.sandbox()
        command = Command(argv=sandbox.shell(f"sleep 60 # {mark}"), cwd=str(bench.work))

        async def run() -> None:
            await sandbox.start(command, tape=Tape(1000))

        for _ in range(TRIES):
            task = asyncio.get_running_loop().create_task(run())
            await asyncio.wait({task}, timeout=30)
            assert task.cancelled()
        await eventually(lambda: not list(running(mark)), seconds=10)

    # The daemon's own event loop: what another does when it is told to stop is not what happens there.
    uvloop.run(scenario())
