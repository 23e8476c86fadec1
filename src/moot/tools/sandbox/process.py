"""A running command: captures its output, enforces its timeout, ends everything it started."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from typing import cast

from msgspec import Struct

from moot.domain.ports.clock import Clock, Timer
from moot.tools.sandbox.explained import HeldBack
from moot.tools.sandbox.output_buffer import OutputBuffer

_KILL_SECONDS = 0.9
_GUARD_SECONDS = 0.7


class Ending(Struct, frozen=True):
    """How a command ended. `reason` is empty if it ended by itself, else timeout, flood or stopped."""

    exit_code: int
    reason: str = ""


async def _no_notes() -> list[str]:
    return []


class Process(asyncio.SubprocessProtocol):
    """The asyncio protocol of the child process; it needs no reader task."""

    def __init__(self, output: OutputBuffer, *, flood: int, guarded: bool, clock: Clock) -> None:
        self.clock = clock
        self.output = output
        # Its restrictions, to explain failures.
        self.held = HeldBack()
        # Returns notes for the caller once it has ended; may take a moment.
        self.notes: Callable[[], Awaitable[list[str]]] = _no_notes
        # Without a process namespace a guard process ends the descendants, so it must not be killed.
        self._guarded = guarded
        self._flood = flood
        self._reason = ""
        self._code = -signal.SIGKILL
        self._transport: asyncio.SubprocessTransport | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: Timer | None = None
        self._end_callbacks: list[Callable[[], None]] = []

    @property
    def pid(self) -> int:
        return self._transport.get_pid() if self._transport is not None else 0

    @property
    def ending(self) -> Ending | None:
        """The exit code; None while it is running."""
        return Ending(self._code, self._reason) if self._over.done() else None

    def when_over(self, callback: Callable[[], None]) -> None:
        if self._over.done():
            callback()
        else:
            self._end_callbacks.append(callback)

    def limit(self, seconds: float) -> None:
        """Start the timeout of the command."""
        self._timer = self.clock.call_later(seconds, lambda: self.kill("timeout"))

    def kill(self, reason: str = "stopped") -> None:
        """End the command and everything it started. Returns immediately; `over` waits."""
        if self._over.done() or self._transport is None:
            return
        self._reason = self._reason or reason
        if self._guarded:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            self.clock.call_later(_GUARD_SECONDS, self._end_group)
        else:
            self._end_group()

    def _end_group(self) -> None:
        if not self._over.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def over(self) -> Ending:
        """Wait for the end. Cancelling this ends the command first."""
        try:
            await asyncio.shield(self._over)
        finally:
            if not self._over.done():
                await self.end()
        ending = self.ending
        assert ending is not None
        return ending

    async def end(self) -> None:
        self.kill()
        try:
            with contextlib.suppress(TimeoutError):
                async with self.clock.timeout(_KILL_SECONDS):
                    await asyncio.shield(self._over)
        finally:
            # Also when this is cancelled, for example at shutdown: a loop with an open pipe cannot be closed.
            if self._transport is not None:
                # A process that still has the pipe gets an error when it writes.
                self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output.add(data)
        if self.output.total > self._flood:
            self.kill("flood")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            code = self._transport.get_returncode()
            self._code = self._code if code is None else code
            self._transport.close()
        if not self._over.done():
            self._over.set_result(None)
        for callback in self._end_callbacks:
            callback()
