"""The real daemon in a thread of the test process: the same socket, store and log as `moot serve`, without its start.

A daemon process takes nearly a second of a core to start, this one less than a tenth. `daemon_thread` has the interface
of `tests.daemon_process.running`; what needs a process (kill -9, signals, exit codes, variables) stays there.
"""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import uvloop

from moot.daemon.app import Daemon, describe_addresses, serve_until
from moot.daemon.clock import ManualClock, SystemClock
from moot.daemon.log import open_log_file
from moot.daemon.paths import Paths
from moot.domain.ports.clock import Clock
from moot.redaction.redactor import LogRedaction, Redactor
from tests.daemon_process import PATIENCE, Home, LiveDaemon, eventually
from tests.talking import Speech

# How long runs in flight may go on when a test is over.
_DRAIN_SECONDS = 0.2

_logs_to: ContextVar[object] = ContextVar("logs_to")


class DaemonThread(LiveDaemon):
    """A daemon that lives in a thread of its own, ready when this returns from `start`."""

    def __init__(self, home: Home, clock: Clock | None = None) -> None:
        super().__init__(home, "")
        self._clock = clock or SystemClock()
        self.paths = Paths.find(home.environment())
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name=f"daemon of {home.path.name}", daemon=True)

    @classmethod
    def start(cls, home: Home, clock: Clock | None = None) -> "DaemonThread":
        daemon = cls(home, clock)
        daemon._thread.start()
        if not daemon._ready.wait(PATIENCE):
            daemon.stop()
            raise AssertionError("the daemon did not become ready")
        if daemon._failure is not None:
            raise daemon._failure
        return daemon

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None
        return self._loop

    def advance(self, seconds: float) -> None:
        """Let this time pass for the daemon, which has a ManualClock."""
        assert isinstance(self._clock, ManualClock)
        asyncio.run_coroutine_threadsafe(self._clock.advance(seconds), self.loop).result(PATIENCE)

    async def wait_for_event(self, speech: Speech, kind: str) -> None:
        """Wait for an event from a daemon with a ManualClock, which sends some of them a moment later."""

        def arrived() -> bool:
            self.advance(0.005)
            return bool(speech.of(kind))

        await eventually(arrived)

    def terminate(self) -> None:
        """What SIGTERM asks for: let the runs in flight finish, then stop."""
        self._call(self._stop.set if self._stop is not None else None)

    def stop(self) -> None:
        """Stop it in the ordinary way, and at once if it is still busy."""
        self.terminate()
        self._thread.join(_DRAIN_SECONDS)
        self._call(self._task.cancel if self._task is not None else None)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the daemon did not stop"
        if self._failure is not None:
            raise self._failure

    def _call(self, function: object) -> None:
        if self._loop is not None and callable(function) and self._thread.is_alive():
            try:
                self._loop.call_soon_threadsafe(function)
            except RuntimeError:
                # The loop has been closed since.
                return

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except asyncio.CancelledError:
            # By `stop`.
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the test
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._task, self._stop = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
        redactor = Redactor()
        with _logging_to(open_log_file(self.paths, LogRedaction(redactor))):
            await serve_until(self._stop, self.paths, redactor, self._on_ready, self._clock)

    def _on_ready(self, daemon: Daemon) -> None:
        self.ready_line = describe_addresses(daemon)
        self._ready.set()


@contextmanager
def daemon_thread(home: Home, clock: Clock | None = None) -> Iterator[DaemonThread]:
    """A daemon for one test, in this process. Whatever it logged as failed inside fails the test.

    With a ManualClock its time stands still, and `advance` moves it.
    """
    daemon = DaemonThread.start(home, clock)
    try:
        yield daemon
    finally:
        daemon.stop()
    failures = home.failures()
    assert not failures, "\n".join(failures)


class _OnlyOf(logging.Filter):
    """Lets through what a daemon logs: in its own tasks, or in a thread without a loop that is not the test's."""

    def __init__(self, daemon: object) -> None:
        super().__init__()
        self._daemon = daemon

    def filter(self, record: logging.LogRecord) -> bool:
        is_foreign = record.thread == threading.main_thread().ident or asyncio._get_running_loop() is not None
        return _logs_to.get(None if is_foreign else self._daemon) is self._daemon


@contextmanager
def _logging_to(handler: logging.Handler) -> Iterator[None]:
    """Send what the daemon of this context logs to a handler; several daemons may share this process."""
    # The redaction changes the record, so whose it is is decided first.
    handler.filters.insert(0, _OnlyOf(handler))
    token = _logs_to.set(handler)
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
        _logs_to.reset(token)
