"""The first program inside the sandbox: sets resource limits and Landlock, reports to the daemon, runs the command.

It runs alone (`python -I -S`), imports nothing of the package, and exits if the daemon does not respond. Arguments: the
number of the control descriptor, a JSON object (see `main`), and the command.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import time
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVS, _PARENT_DEATH, _SUBREAPER = 38, 1, 36
# Landlock's rights on files: the first thirteen came with version 1, refer with 2, truncate with 3, ioctl with 5.
_READ = 1 << 0 | 1 << 2 | 1 << 3
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_SCOPES = 0b11
_GRACE = 0.5
_LIMITS = {
    "processes": resource.RLIMIT_NPROC,
    "memory": resource.RLIMIT_DATA,
    "file": resource.RLIMIT_FSIZE,
    "core": resource.RLIMIT_CORE,
}

_libc = ctypes.CDLL(None, use_errno=True)


class Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def landlock_version() -> int:
    version = int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))
    return max(version, 0)


def confine(writable: list[str]) -> int:
    """Allow reading everywhere and writing only in these folders. Return the Landlock version, 0 for none."""
    version = landlock_version()
    if not version:
        return 0
    every = sum(bits for since, bits in _RIGHTS.items() if version >= since)
    # Devices can be opened and controlled: only harmless ones are mounted.
    ruleset = Ruleset(every, 0, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = int(_libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0)))
    if rules < 0:
        return 0
    for folder, rights in [("/", _READ), *((folder, every) for folder in writable)]:
        _allow(rules, folder, rights)
    if _libc.syscall(_RESTRICT_SELF, rules, ctypes.c_uint32(0)) != 0:
        return 0
    os.close(rules)
    return version


def _allow(rules: int, folder: str, rights: int) -> None:
    place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    rule = Beneath(rights, place)
    _libc.syscall(_ADD_RULE, rules, 1, ctypes.byref(rule), ctypes.c_uint32(0))
    os.close(place)


def set_limits(limits: dict[str, int]) -> None:
    # Not 0 for core dumps: with 0 a program that collects them would still be started.
    for name, wanted in {**limits, "core": 1}.items():
        hard = resource.getrlimit(_LIMITS[name])[1]
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(_LIMITS[name], (limit, limit))


def prefer_for_oom_kill() -> None:
    """Make the kernel end this process and its children first when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        # Some kernels lack it; the limits apply nevertheless.
        return


def wait_for_confirmation(control: int, report: dict[str, Any]) -> None:
    """Report what is in force and continue only when the daemon confirms, because it may be gone."""
    os.write(control, json.dumps(report).encode())
    if os.read(control, 1) != b"g":
        os._exit(125)


def guard(command: list[str]) -> int:
    """Without a process namespace: run the command as a child, and kill its remaining descendants."""
    _libc.prctl(_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, lambda *_: _end_all())
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _execute(command)
    while True:
        pid, status = os.wait()
        if pid == child:
            break
    _end(os.getpid())
    return os.waitstatus_to_exitcode(status)


def _end_all() -> None:
    _end(os.getpid())
    os._exit(143)


def _end(root: int) -> None:
    """Kill all descendants, repeatedly until there are none, since they may be forking."""
    until = time.monotonic() + _GRACE
    while (pids := _descendants(root)) and time.monotonic() < until:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                    state, parent = stat.read().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                parents[int(name)] = int(parent)
    found, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        grown = bool(more)
        found |= more
    return sorted(found - {root})


def _execute(command: list[str]) -> None:
    # A descriptor from outside the sandbox would bypass it.
    os.closerange(3, 65_536)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)


def main() -> None:
    """The plan: `writable` folders, `limits` (some of `_LIMITS`), `landlock` or not, `guard` a folder to guard in."""
    control, plan, command = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
    # Before Landlock, after which it cannot be set.
    prefer_for_oom_kill()
    set_limits(plan["limits"])
    _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    version = confine(plan["writable"]) if plan["landlock"] else 0
    if plan["guard"]:
        _libc.prctl(_PARENT_DEATH, signal.SIGTERM)
    wait_for_confirmation(control, {"landlock": version})
    if plan["guard"]:
        os.close(control)
        os.chdir(plan["guard"])
        code = guard(command)
        sys.exit(128 - code if code < 0 else code)
    _execute(command)


if __name__ == "__main__":
    main()
