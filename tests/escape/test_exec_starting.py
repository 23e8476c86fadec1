"""A process that is broken off while it is being started, by a cancellation or by the daemon's end: nothing is left."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import uvloop

from moot.daemon.clock import SystemClock
from moot.tools.mcp import stdio
from moot.tools.sandbox import orphans
from moot.tools.sandbox import sandbox as starting
from moot.tools.sandbox.output_buffer import OutputBuffer
from moot.tools.sandbox.plan import Command
from tests.daemon_process import Home, eventually
from tests.daemon_thread import daemon_thread
from tests.escape.exec_kit import Bench, marked

TRIES = 20
ROOT = Path(__file__).resolve().parents[2]

# A starter as the daemon is one: it starts a command when it is told to.
STARTER = """
import asyncio, sys
from pathlib import Path
import uvloop
from tests.escape.exec_kit import Bench

async def main():
    bench = Bench(Path(sys.argv[1]))
    await bench.say("true")
    print("ready", flush=True)
    sys.stdin.readline()
    print("begun", flush=True)
    await bench.say(sys.argv[2])

uvloop.run(main())
"""

# bubblewrap halts where it has asked to die with its parent and has not told its child to go on: it waits for a
# descriptor there, which is how that moment can be had for as long as a test needs it.
HALTED = """
import json, os, subprocess, sys

bwrap, mark = sys.argv[1:]
block, _ = os.pipe()
options, told = os.memfd_create("options", 0), os.memfd_create("told", 0)
words = ["--unshare-user", "--unshare-pid", "--die-with-parent", "--ro-bind", "/", "/"]
words += ["--userns-block-fd", str(block), "--info-fd", str(told)]
os.write(options, "\\0".join(words).encode())
os.lseek(options, 0, os.SEEK_SET)
argv = [bwrap, "--args", str(options), "--", sys.executable, "-I", "-S", "/.moot/inside.py", "0"]
plan = json.dumps({"starter": os.getpid()})
child = subprocess.Popen([*argv, plan, mark], pass_fds=[block, options, told], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


def broken_off(spawn: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The same, told to stop when there is a process by now, it may have a child, and nobody has been told of it."""
    # A child that waits for its parent is there for less than a millisecond, some milliseconds after the beginning.
    moments = cycle(number / 4000 for number in range(40))

    async def stopped(*given: Any, **named: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None

        def halt() -> None:
            # The event loop is held up meanwhile.
            time.sleep(next(moments))
            task.cancel()

        asyncio.get_running_loop().call_soon(halt)
        return await spawn(*given, **named)

    return stopped


async def try_often(run: Callable[[], Awaitable[None]], mark: str) -> None:
    async def once() -> None:
        await run()

    for _ in range(TRIES):
        task = asyncio.get_running_loop().create_task(once())
        await asyncio.wait({task}, timeout=30)
        assert task.cancelled()
    await eventually(lambda: not marked(mark))


def test_a_command_that_is_stopped_while_it_starts_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    monkeypatch.setattr(starting, "_spawn", broken_off(starting._spawn))
    sandbox = bench.sandbox()
    command = Command(argv=sandbox.shell(f"sleep 60 # {mark}"), cwd=str(bench.work))

    async def run() -> None:
        await sandbox.start(command, output=OutputBuffer(1000))

    # The daemon's own event loop: what another does when it is told to stop is not what happens there.
    uvloop.run(try_often(run, mark))


def test_an_mcp_server_that_is_stopped_while_it_starts_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    monkeypatch.setattr(stdio, "_start_process", broken_off(stdio._start_process))
    sandbox = bench.sandbox()
    command = stdio.Command(
        argv=("sh", "-c", f"sleep 60 # {mark}"),
        env={},
        cwd=str(bench.work),
        on_output=lambda _: None,
        on_end=lambda: None,
        sandbox=lambda _: sandbox,
        clock=SystemClock(),
    )

    async def run() -> None:
        async with stdio.stdio_transport(command):
            pass

    uvloop.run(try_often(run, mark))


def killed(root: Path, command: str, *, after: float) -> None:
    """Have a starter begin a command, and kill it so many seconds later."""
    words = [sys.executable, "-c", STARTER, str(root), command]
    starter = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert starter.stdin is not None
    assert starter.stdout is not None
    with starter.stdin, starter.stdout:
        assert starter.stdout.readline() == b"ready\n"
        starter.stdin.write(b"\n")
        starter.stdin.flush()
        assert starter.stdout.readline() == b"begun\n"
        time.sleep(after)
        starter.kill()
        starter.wait(30)


async def test_a_daemon_that_is_killed_at_any_moment_of_a_start_leaves_nothing_that_runs(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-{tmp_path.name}"

    def over() -> bool:
        orphans.sweep()
        return not marked(mark)

    for number in range(8):
        await asyncio.to_thread(killed, tmp_path / str(number), f"sleep 60 # {mark}", after=number / 350)
        assert await eventually(over)


@contextmanager
def orphan(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str], int]]:
    """A mark, a starter that lives, and the process which it started and which waits to tell its child to go on."""
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    bwrap = Bench(tmp_path / "bench").sandbox().describe().path
    if not bwrap:
        pytest.skip("no bubblewrap here")
    starter = subprocess.Popen([sys.executable, "-c", HALTED, bwrap, mark], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    with starter.stdout:
        outer = int(starter.stdout.readline())
        try:
            yield mark, starter, outer
        finally:
            starter.kill()
            starter.wait(30)
            orphans.sweep()


def halted(mark: str) -> bool:
    """Whether the outer process is there and its child as well; the starter carries the mark too."""
    return len(marked(mark)) == 3


async def test_an_orphan_is_ended_and_what_has_its_starter_is_not(tmp_path: Path) -> None:
    with orphan(tmp_path) as (mark, starter, outer):
        assert await eventually(lambda: halted(mark))
        orphans.sweep()
        assert halted(mark)
        inner = next(pid for pid in marked(mark) if pid not in (starter.pid, outer))
        starter.kill()
        starter.wait(30)
        # The kernel ends the outer one; the inner one would stay, did not some daemon that starts just now end it.
        assert await eventually(lambda: set(marked(mark)) <= {inner})
        orphans.sweep()
        assert marked(mark) == []


async def test_a_daemon_ends_at_its_start_what_one_that_was_killed_left(tmp_path: Path) -> None:
    with orphan(tmp_path) as (mark, starter, _):
        assert await eventually(lambda: halted(mark))
        starter.kill()
        starter.wait(30)
        assert await eventually(lambda: len(marked(mark)) <= 1)
        with daemon_thread(Home(tmp_path / "home").furnish()):
            assert await eventually(lambda: marked(mark) == [])
