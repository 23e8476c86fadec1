"""Starts `python -m moot …` in processes forked from one that has imported it. Used by daemon_process and terminal.

An interpreter that imports the daemon takes the better part of a second of a core, and the suite starts hundreds. What
is started here is a process like any other, with its own session, environment and standard streams, and can be killed.
Variables that the interpreter itself reads are those of the server: with others, a command is started anew.
"""

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from fcntl import ioctl
from functools import cache, partial
from pathlib import Path
from runpy import run_module
from termios import TIOCSCTTY
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODULES = ("moot", "tests.chaos.serve")
# Not part of every start, and expensive or dependent on the environment.
NOT_IMPORTED = ("moot.__main__", "moot.models.local_server", "moot.tools.sandbox.inside")
INTERPRETER_VARIABLES = ("PYTHON", "LC_", "LANG")
LARGEST_REQUEST = 200_000
# Has the started process delayed at random; see tests/jitter.py.
JITTER_VARIABLE = "TESTS_JITTER"


# ---- the side of the tests ----------------------------------------------------------------------


def can_fork(command: Sequence[str], environment: Mapping[str, str] | None = None) -> bool:
    """Whether the server can run a command: `python -m moot …`, with the interpreter and the settings of the tests."""
    chosen = os.environ if environment is None else environment
    return [*command[:2]] == [sys.executable, "-m"] and command[2] in MODULES and _settings(chosen) == _settings()


def _settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    named = {name: value for name, value in environment.items() if name.startswith(INTERPRETER_VARIABLES)}
    # What is imported already is compiled already.
    named.pop("PYTHONDONTWRITEBYTECODE", None)
    return named


class ForkedPopen(subprocess.Popen[str]):
    """A Popen whose process is a child of the server. What came of it comes through a pipe."""

    _waitpid_lock: threading.Lock

    def __init__(self, command: Sequence[str], *, controlling_terminal: bool = False, **named: Any) -> None:
        self._controlling_terminal = controlling_terminal
        super().__init__(command, text=True, **named)

    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        # In the order of the standard library, which is the same from 3.11 to 3.13.
        cwd, env, new_session = rest[4], rest[5], rest[20]
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = rest[9:15]
        request = {
            "module": args[2],
            "arguments": [*args[3:]],
            "environment": dict(os.environ if env is None else env),
            "folder": os.fspath(cwd or os.getcwd()),
            "new_session": bool(new_session),
            "controlling_terminal": self._controlling_terminal,
        }
        self._exit_pipe, exit_writer = os.pipe()
        streams = [default if given == -1 else given for default, given in enumerate((p2cread, c2pwrite, errwrite))]
        try:
            self.pid = _server().start(request, [*streams, exit_writer])
        finally:
            os.close(exit_writer)
            for theirs, ours in ((p2cread, p2cwrite), (c2pwrite, c2pread), (errwrite, errread)):
                # Without our end it is a descriptor of the caller's.
                if ours != -1:
                    os.close(theirs)
            if (devnull := getattr(self, "_devnull", None)) is not None:
                os.close(devnull)
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """What os.waitpid says: (0, 0) while it lives and nobody waits."""
        if wait_flags & os.WNOHANG and not select.select([self._exit_pipe], [], [], 0)[0]:
            return 0, 0
        status = os.read(self._exit_pipe, 64)
        assert status, "the fork server is gone"
        return self.pid, int(status)

    def _internal_poll(self, *_arguments: Any, **_named: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode

    def _handle_exitstatus(self, sts: int, *_arguments: Any) -> None:
        self.returncode = os.waitstatus_to_exitcode(sts)
        os.close(self._exit_pipe)


def start(command: Sequence[str], *, env: Mapping[str, str], **named: Any) -> "subprocess.Popen[str]":
    """A command in a process of its own, forked where that can be."""
    if can_fork(command, env):
        return ForkedPopen(command, env=env, **named)
    return subprocess.Popen(command, env=env, text=True, **named)


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    timeout: float,
    input: str | None = None,
    check: bool = False,
    **named: Any,
) -> "subprocess.CompletedProcess[str]":
    """What subprocess.run does with the output captured, in a process that is forked where that can be."""
    pipe = subprocess.PIPE
    given = {"stdin": pipe} if input is not None else {}
    with start(command, env=env, stdout=pipe, stderr=pipe, **given, **named) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class _Server:
    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

        atexit.register(self._close)

    def start(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        """Start a process; its id."""
        data = json.dumps(request).encode()
        assert len(data) < LARGEST_REQUEST, "the command and its environment are too long"
        # Tests start commands in several threads.
        with self._turn:
            socket.send_fds(self._socket, [data], descriptors)
            answer = self._socket.recv(64)
        assert answer, "the fork server is gone"
        return int(answer)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _server() -> _Server:
    """One for this process, from its first use to its end."""
    return _Server()


# ---- the side of the server ---------------------------------------------------------------------


def main(descriptor: int) -> None:
    _import_everything()
    _fill_caches()
    gc.collect()
    gc.freeze()
    child = _serve(socket.socket(fileno=descriptor))
    if child is not None:
        _run_and_leave(child)


def _import_everything() -> None:
    package = importlib.import_module("moot")
    for module in pkgutil.walk_packages(package.__path__, "moot."):
        if module.name not in NOT_IMPORTED and not module.name.startswith("moot.tools.mcp"):
            importlib.import_module(module.name)
    for name in ("aiohttp.web", "msgspec", "prompt_toolkit", "tomlkit", "tree_sitter_bash", "uvloop"):
        importlib.import_module(name)


def _fill_caches() -> None:
    """Do once what is the same in every daemon: an empty store, and the agents that come with Moot."""
    shortcuts = importlib.import_module("tests.store_shortcuts")
    shortcuts.copy_new_stores()
    shortcuts.empty_store()
    importlib.import_module("moot.agents.registry").Registry(ROOT / "no such folder")


def _serve(requests: socket.socket) -> Callable[[], object] | None:
    """Fork for every request; what a child has to do, or nothing once nobody asks any more."""
    wakeup, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    signal.set_wakeup_fd(woken)
    exit_pipes: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests.fileno(), wakeup], [], [])
        if wakeup in ready:
            os.read(wakeup, 4096)
            _report_ends(exit_pipes)
        if requests.fileno() not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(requests, LARGEST_REQUEST, 4)
        if not data:
            return None
        *streams, exit_pipe = descriptors
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for inherited in (requests.detach(), wakeup, woken, exit_pipe, *exit_pipes.values()):
                os.close(inherited)
            return _prepare(json.loads(data), streams)
        exit_pipes[pid] = exit_pipe
        for stream in streams:
            os.close(stream)
        requests.send(str(pid).encode())


def _report_ends(exit_pipes: dict[int, int]) -> None:
    while exit_pipes:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        pipe = exit_pipes.pop(pid)
        try:
            os.write(pipe, str(status).encode())
        except BrokenPipeError:
            # Nobody waits for it any more.
            pass
        finally:
            os.close(pipe)


# ---- the side of the started process ------------------------------------------------------------


def _prepare(request: Mapping[str, Any], streams: Sequence[int]) -> Callable[[], object]:
    """Make this process what an interpreter would be that was started for the request."""
    if request["new_session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    if request["controlling_terminal"]:
        ioctl(0, TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["folder"])
    _open_streams()
    _set_failpoint()
    if seed := os.environ.get(JITTER_VARIABLE):
        importlib.import_module("tests.jitter").install(int(seed) + os.getpid())
    sys.path[0] = request["folder"]
    sys.argv = [request["module"], *request["arguments"]]
    return partial(run_module, request["module"], run_name="__main__", alter_sys=True)


def _run_and_leave(child: Callable[[], object]) -> None:
    """Run what was started, and end as an interpreter does, except that it does not take its modules apart.

    That would write to every page of theirs, which are shared with the server until then: fifty milliseconds.
    """
    code = 0
    try:
        child()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if code and leaving.code is not code:
            print(leaving.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 - an interpreter prints it and fails
        traceback.print_exc()
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        code = 1
    vars(threading)["_shutdown"]()
    vars(atexit)["_run_exitfuncs"]()
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except OSError:
            # What Python ends with when nobody reads its output any more.
            code = 120
    os._exit(code & 0xFF)


def _open_streams() -> None:
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    given = io.BufferedReader(io.FileIO(0, closefd=False))
    vars(sys)["stdin"] = io.TextIOWrapper(given, encoding=sys.stdin.encoding, errors=sys.stdin.errors)
    vars(sys)["__stdin__"] = sys.stdin
    for number, name, before in ((1, "stdout", sys.stdout), (2, "stderr", sys.stderr)):
        opened = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(number, "w", closefd=False)),
            encoding=before.encoding,
            errors=before.errors,
            line_buffering=number == 2 or os.isatty(number),
            write_through=is_unbuffered,
        )
        vars(sys).update({name: opened, f"__{name}__": opened})


def _set_failpoint() -> None:
    failpoint = importlib.import_module("moot.failpoint")
    name, fatal_pass = failpoint._setting(os.environ.get("MOOT_FAIL_AT", ""))
    vars(failpoint).update(_name=name, _fatal_pass=fatal_pass)


if __name__ == "__main__":
    main(int(sys.argv[1]))
