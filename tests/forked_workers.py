"""Runs the collected tests in several processes, forked from the one that collected them: `--workers 3`.

Collecting takes longer than most tests, so it is done once. A worker takes a few tests of one module at a time, from a
pipe that all of them read, until there are no more; what came of each is sent to the process that reports.
"""

import atexit
import os
import pickle
import selectors
import socket
import struct
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from _pytest.capture import CaptureManager
from _pytest.reports import TestReport

# Tests of one module share a daemon, so that few of them are better done by one process. A module whose fixture takes
# longer than its tests names another number, as TOGETHER.
_TOGETHER = 40
# The tests of this folder share the parsed sources, which take seconds.
_SHARING = "architecture"
_NUMBER = struct.Struct("!I")
_SILENT = ("terminalreporter", "terminalprogress", "lfplugin", "nfplugin", "stepwiseplugin", "junitxml")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, metavar="N", help="run the tests in N processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.option
    is_refused = session.testsfailed and not option.continue_on_collection_errors
    if option.workers < 2 or option.collectonly or is_refused:
        return None
    _Workers(session, option.workers).run()
    return True


def _temporary_folders(config: pytest.Config) -> pytest.TempPathFactory:
    return vars(config)["_tmp_path_factory"]


def _split(items: Sequence[pytest.Item]) -> list[list[int]]:
    """The tests by their numbers: so many of one module together, and all of the folder that shares."""
    chunks = []
    for place, group in groupby(range(len(items)), key=lambda number: _place(items[number].path)):
        numbers = list(group)
        module = getattr(items[numbers[0]], "module", None)
        size = len(numbers) if place.name == _SHARING else getattr(module, "TOGETHER", _TOGETHER)
        chunks += [numbers[first : first + size] for first in range(0, len(numbers), size)]
    return chunks


def _place(path: Path) -> Path:
    return path.parent if path.parent.name == _SHARING else path


# ---- the process that reports -------------------------------------------------------------------


class _Workers:
    def __init__(self, session: pytest.Session, count: int) -> None:
        self._session = session
        self._config = session.config
        self._chunks = _split(session.items)
        self._reported: set[int] = set()
        self._running: dict[int, int] = {}
        self._selector = selectors.DefaultSelector()
        self._queue, filling = os.pipe()
        # A pipe takes sixteen thousand of them.
        os.write(filling, b"".join(map(_NUMBER.pack, range(len(self._chunks)))))
        os.close(filling)
        self._pids = [self._start(number) for number in range(count)]

    def run(self) -> None:
        try:
            while self._selector.get_map():
                for key, _ in self._selector.select():
                    self._receive(key.data)
        finally:
            # Nothing more is begun, and who still works finishes.
            while os.read(self._queue, 65536):
                pass
            os.close(self._queue)
            for pid in self._pids:
                os.waitpid(pid, 0)
        if not self._session.shouldfail and not self._session.shouldstop:
            self._report_missing()

    def _start(self, number: int) -> int:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = _temporary_folders(self._config).getbasetemp() / f"worker-{number}"
        sys.stdout.flush()
        if (pid := os.fork()) == 0:
            ours.close()
            _run_and_leave(_Worker(self._session, self._chunks, self._queue, theirs, folder))
        theirs.close()
        self._selector.register(ours, selectors.EVENT_READ, _Inbox(pid, ours))
        return pid

    def _receive(self, inbox: "_Inbox") -> None:
        messages = inbox.receive()
        if messages is None:
            self._selector.unregister(inbox.socket)
            inbox.socket.close()
            return
        for number, data in messages:
            self._running[inbox.pid] = number
            if data is not None:
                self._report(number, data)

    def _report(self, number: int, data: Any) -> None:
        self._reported.add(number)
        hook = self._config.hook
        report = self._passed(number, data) if isinstance(data, tuple) else None
        if report is None:
            report = hook.pytest_report_from_serializable(config=self._config, data=data)
        hook.pytest_runtest_logreport(report=report)
        if self._session.shouldfail or self._session.shouldstop:
            while os.read(self._queue, 65536):
                pass

    def _passed(self, number: int, times: tuple[float, float, float]) -> TestReport:
        item = self._session.items[number]
        duration, start, stop = times
        keywords: dict[str, Any] = {}
        return TestReport(item.nodeid, item.location, keywords, "passed", None, "call", (), duration, start, stop)

    def _report_missing(self) -> None:
        """A process that ends before its tests do leaves them without a report."""
        missing = [number for number in range(len(self._session.items)) if number not in self._reported]
        for number in missing:
            item = self._session.items[number]
            said = "the process ended in this test" if number in self._running.values() else "the process ended before"
            report = TestReport(item.nodeid, item.location, {}, "failed", said, "call")
            self._config.hook.pytest_runtest_logreport(report=report)


class _Inbox:
    """What one worker sends: the length of each message and the message."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        self.pid = pid
        self.socket = end
        self._left = b""

    def receive(self) -> list[tuple[int, Any]] | None:
        """Return the messages that have come; None once there will be no more."""
        came = self.socket.recv(1 << 20)
        if not came:
            return None
        self._left += came
        messages = []
        while len(self._left) >= _NUMBER.size:
            end = _NUMBER.size + _NUMBER.unpack_from(self._left)[0]
            if len(self._left) < end:
                break
            messages.append(pickle.loads(self._left[_NUMBER.size : end]))
            self._left = self._left[end:]
        return messages


# ---- the processes that run them ----------------------------------------------------------------


class _Worker:
    def __init__(
        self, session: pytest.Session, chunks: list[list[int]], queue: int, reports: socket.socket, folder: Path
    ) -> None:
        self._session = session
        self._chunks = chunks
        self._queue = queue
        self._reports = reports
        self._folder = folder
        self._current = 0

    def run(self) -> None:
        config = self._session.config
        folder = self._folder
        folder.mkdir(mode=0o700)
        _temporary_folders(config)._basetemp = folder
        plugins = config.pluginmanager
        for name in _SILENT:
            if plugins.has_plugin(name):
                plugins.unregister(name=name)
        # What is captured goes to files, which must not be those of the others.
        capture: CaptureManager = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        plugins.register(self)
        for number, following in self._pairs():
            self._current = number
            self._send(None)
            item = self._session.items[number]
            after = None if following is None else self._session.items[following]
            config.hook.pytest_runtest_protocol(item=item, nextitem=after)

    def _pairs(self) -> Iterator[tuple[int, int | None]]:
        """Each test with the one that follows; until then what both use stays."""
        before: int | None = None
        for number in self._numbers():
            if before is not None:
                yield before, number
            before = number
        if before is not None:
            yield before, None

    def _numbers(self) -> Iterator[int]:
        while taken := os.read(self._queue, _NUMBER.size):
            yield from self._chunks[_NUMBER.unpack(taken)[0]]

    def pytest_runtest_logreport(self, report: TestReport) -> None:
        if report.passed and not hasattr(report, "wasxfail"):
            # Nobody looks at the other phases, or at what was printed.
            if report.when == "call":
                self._send((report.duration, report.start, report.stop))
            return
        self._send(self._session.config.hook.pytest_report_to_serializable(config=self._session.config, report=report))

    def _send(self, data: Any) -> None:
        message = pickle.dumps((self._current, data))
        self._reports.sendall(_NUMBER.pack(len(message)) + message)


def _run_and_leave(worker: _Worker) -> None:
    code = 1
    try:
        worker.run()
        code = 0
    except BaseException:  # noqa: BLE001 - it must not go on as the process that reports
        traceback.print_exc(file=sys.__stderr__)
    finally:
        with suppress(Exception):
            vars(atexit)["_run_exitfuncs"]()
        os._exit(code)
