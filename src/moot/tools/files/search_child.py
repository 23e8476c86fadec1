"""Starts ripgrep with limits, so that it reads nothing outside the working directory. Used by `ripgrep`.

It runs alone (`python -I -S`) and imports nothing of the package, and little besides: every search starts it. A search
reads ignore files by name, and a command may have made links of them: which files are left out would then tell what
stands in a file elsewhere.

Arguments: the limits of memory and of CPU seconds, how many ignore files above the working directory follow, these, and
the command.
"""

import ctypes
import os
import resource
import stat
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVS = 38
_READ_FILE = 1 << 2
# What a program needs to start. All of it can be read in the sandbox too.
_SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/nix/store", "/gnu/store")

_libc = ctypes.CDLL(None, use_errno=True)


class Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("place", ctypes.c_int32))


def confine(program: str, ignore_files: list[str]) -> None:
    """Allow reading files beneath the working directory and what a program needs. Without Landlock, change nothing."""
    handled = ctypes.c_uint64(_READ_FILE)
    rules = int(_libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(8), ctypes.c_uint32(0)))
    if rules < 0:
        return
    for path in (".", program, *_SYSTEM):
        _allow(rules, path, os.O_PATH | os.O_CLOEXEC)
    for path in ignore_files:
        _allow(rules, path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc.syscall(_RESTRICT_SELF, rules, ctypes.c_uint32(0))
    os.close(rules)


def _allow(rules: int, path: str, flags: int) -> None:
    try:
        place = os.open(path, flags)
    except OSError:
        return
    mode = os.fstat(place).st_mode
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        rule = Beneath(_READ_FILE, place)
        _libc.syscall(_ADD_RULE, rules, 1, ctypes.byref(rule), ctypes.c_uint32(0))
    os.close(place)


def prefer_for_oom_kill() -> None:
    """Have the kernel choose this process before all others when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        return


def main() -> None:
    memory, seconds, count = map(int, sys.argv[1:4])
    ignore_files, command = sys.argv[4 : 4 + count], sys.argv[4 + count :]
    prefer_for_oom_kill()
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    confine(command[0], ignore_files)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
