"""MCP over stdio: starts the server as a child process in the sandbox and ends its process group."""

import asyncio
import functools
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from moot.domain.errors import Unavailable
from moot.domain.ports.clock import Clock
from moot.tools.files.private_places import homes
from moot.tools.files.project_folder import is_beneath
from moot.tools.mcp.message_limits import half_of_the_time, has_too_many_values
from moot.tools.sandbox.environment import PATH, find_program
from moot.tools.sandbox.plan import Command as Confined
from moot.tools.sandbox.sandbox import Sandbox
from moot.tools.sandbox.starting import start_whole

MAX_LINE = 8 * 1024 * 1024
# The only variables of the daemon's environment that a server inherits, beside its own.
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
_POLITE_SECONDS = 1.0
_WATCH_SECONDS = 0.2
_REAP_SECONDS = 2.0
_TAIL = 2000


class Command(Struct, frozen=True, kw_only=True):
    """The program to start. `on_output` receives the end of its stderr; `on_end` is called when its output ends.

    `sandbox` confines it, with the folders it may read; without one it runs like the daemon.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    on_output: Callable[[str], None]
    on_end: Callable[[], None]
    clock: Clock
    sandbox: Callable[[Sequence[str]], Sandbox] | None = None


@asynccontextmanager
async def stdio_transport(command: Command) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the two streams that the SDK uses."""
    import anyio  # noqa: PLC0415  comes with the extra

    process, clean_up = await _spawn(command)
    incoming_in, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, outgoing_out = anyio.create_memory_object_stream[Any](0)
    try:
        async with incoming_in, incoming, outgoing, outgoing_out, anyio.create_task_group() as group:
            group.start_soon(_read_stdout, process, incoming_in, command)
            group.start_soon(_write_stdin, process, outgoing_out)
            group.start_soon(_read_stderr, process, command)
            group.start_soon(_watch, process, incoming_in, command)
            try:
                yield incoming, outgoing
            finally:
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end_process(process, command.clock)
        clean_up()


async def _spawn(command: Command) -> tuple[asyncio.subprocess.Process, Callable[[], None]]:
    """Start the child; return it and a function to call after its end."""
    scrubbed = {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(command.env)
    program = await asyncio.to_thread(_find_program, command.argv[0], scrubbed.get("PATH"))
    if not program:
        raise Unavailable(
            f"there is no program {command.argv[0]!r}", fix="Install it, or give its whole path."
        ).mark_untainted()
    if command.sandbox is not None:
        return await _start_confined(command, program)
    watched = await asyncio.to_thread(_death_signal_prefix)
    process = await _start_process(
        [*watched, program, *command.argv[1:]], command.clock, env=scrubbed, cwd=command.cwd or None
    )
    await asyncio.to_thread(_prefer_for_oom_kill, process.pid)
    return process, lambda: None


def _prefer_for_oom_kill(pid: int) -> None:
    """As in the sandbox: have the kernel choose it before the daemon when memory runs out."""
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")


def _find_program(name: str, path: str | None) -> str:
    program = shutil.which(name, path=path)
    return os.path.abspath(program) if program else ""


async def _start_process(argv: Sequence[str], clock: Clock, **options: Any) -> asyncio.subprocess.Process:
    starting = asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=MAX_LINE,
        **options,
    )
    try:
        return await start_whole(starting, _kill_group, clock)
    except (OSError, ValueError) as error:
        raise Unavailable(f"{argv[0]!r} cannot be started: {error}", fix="Check command, args and cwd.") from error


async def _start_confined(command: Command, program: str) -> tuple[asyncio.subprocess.Process, Callable[[], None]]:
    assert command.sandbox is not None
    started: list[asyncio.subprocess.Process] = []

    async def spawn(argv: list[str], kept: list[int], environment: dict[str, str]) -> int:
        started.append(await _start_process(argv, command.clock, env=environment, pass_fds=kept))
        return started[0].pid

    # Folders are lent by their real names alone: a link on the way to the program would lead nowhere inside.
    program = os.path.join(
        await asyncio.to_thread(os.path.realpath, os.path.dirname(program)), program.rpartition("/")[2]
    )
    path = os.pathsep.join(dict.fromkeys([os.path.dirname(program), *PATH]))
    inside = Confined(
        argv=(program, *command.argv[1:]),
        cwd=command.cwd,
        environment={"PATH": path, **command.env},
        # The installation that it is a part of.
        search_path=os.path.dirname(program),
    )
    try:
        folders = await asyncio.to_thread(_program_folders, program)
        clean_up = await command.sandbox(folders).launch(inside, spawn)
    except BaseException:
        for process in started:
            await _end_process(process, command.clock)
        raise
    return started[0], clean_up


def _program_folders(program: str) -> list[str]:
    """What a program needs to see of itself: where it lies, by its name and after links, and its Python environment."""
    folders = [os.path.dirname(program), os.path.dirname(os.path.realpath(program))]
    around = os.path.dirname(folders[0])
    if os.path.exists(os.path.join(around, "pyvenv.cfg")):
        folders.append(around)
    # One that lies in the home itself would show all of it.
    return [folder for folder in folders if not any(is_beneath(home, folder) for home in homes())]


@functools.cache
def _death_signal_prefix() -> tuple[str, ...]:
    """A prefix that has the kernel kill the server when the daemon dies, even by kill -9; empty where there is none."""
    found = find_program("setpriv")
    if found is None:
        return ()
    prefix = (found, "--pdeathsig", "KILL", "--")
    with suppress(OSError, subprocess.SubprocessError):
        if subprocess.run([*prefix, "true"], capture_output=True, timeout=5, check=False).returncode == 0:
            return prefix
    return ()


async def _read_stdout(process: asyncio.subprocess.Process, incoming: Any, command: Command) -> None:
    import anyio  # noqa: PLC0415  comes with the extra
    from mcp.shared.message import SessionMessage  # noqa: PLC0415  an extra, and slow to import
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415

    assert process.stdout is not None
    try:
        while line := await process.stdout.readline():
            if has_too_many_values(line):
                command.on_output("it sent a message with too many values")
                break
            message = None
            async with half_of_the_time(command.clock):
                # Something printed to stdout by mistake is left out; a request that it was to answer will time out.
                with suppress(ValueError):
                    message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            if message is not None:
                await incoming.send(message)
    except ValueError:
        command.on_output(f"it sent a line longer than {MAX_LINE // 1024 // 1024} MiB")
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    finally:
        incoming.close()
        command.on_end()


async def _watch(process: asyncio.subprocess.Process, incoming: Any, command: Command) -> None:
    """Notice its end also when a child of it still holds the pipe open, and so keeps it from being read to its end."""
    # asyncio's own wait() waits for the pipes as well, which is just what must not be waited for.
    while process.returncode is None:
        await command.clock.sleep(_WATCH_SECONDS)
    # What it said last may still be on its way.
    await command.clock.sleep(_WATCH_SECONDS)
    incoming.close()
    command.on_end()


async def _write_stdin(process: asyncio.subprocess.Process, outgoing: Any) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        async for message in outgoing:
            process.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()


async def _read_stderr(process: asyncio.subprocess.Process, command: Command) -> None:
    """Keep the end of what it writes to stderr: that is where a server says why it cannot start."""
    assert process.stderr is not None
    tail = b""
    with suppress(OSError):
        while piece := await process.stderr.read(4096):
            tail = (tail + piece)[-_TAIL:]
            command.on_output(tail.decode(errors="replace"))


async def _end_process(process: asyncio.subprocess.Process, clock: Clock) -> None:
    """Ask it to go, then end everything in its group, also what outlived it there."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        with suppress(TimeoutError):
            async with clock.timeout(_POLITE_SECONDS):
                await process.wait()
        _kill_group(process)
        with suppress(TimeoutError):
            async with clock.timeout(_REAP_SECONDS):
                await process.wait()
    finally:
        # Also if the wait was cancelled.
        _kill_group(process)
        # A descendant that left the group may still hold the pipes; they are closed on our side all the same.
        process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001


def _kill_group(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
