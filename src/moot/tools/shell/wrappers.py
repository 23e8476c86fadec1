"""Commands that run other commands: what is left when they are taken off. Pure."""

import re
import shlex
from collections.abc import Sequence
from itertools import dropwhile

from moot.tools.shell.words import UNKNOWN

# Options of each that take a value of their own, which must not be mistaken for the command.
_WRAPPERS: dict[str, tuple[str, ...]] = {
    "builtin": (),
    "busybox": (),
    "caffeinate": ("-t",),
    "catchsegv": (),
    "chrt": ("-T", "-P", "-D"),
    "command": (),
    "coproc": (),
    "dbus-run-session": (),
    "env": ("-u", "--unset", "-C", "--chdir"),
    "exec": ("-a",),
    "fakeroot": (),
    "flock": ("-w", "--timeout", "-E"),
    "ionice": ("-c", "-n", "-p"),
    "nice": ("-n",),
    "nohup": (),
    "rlwrap": (),
    "setarch": (),
    "setsid": (),
    "stdbuf": ("-i", "-o", "-e"),
    "strace": ("-e", "-o", "-p", "-s"),
    "taskset": (),
    "time": ("-f", "-o"),
    "timeout": ("-s", "--signal", "-k", "--kill-after"),
    "tini": (),
    "toybox": (),
    "unbuffer": (),
    "xargs": (
        "-I",
        "-i",
        "-n",
        "-P",
        "-d",
        "-L",
        "-a",
        "-E",
        "-s",
        "--max-args",
        "--max-procs",
        "--delimiter",
        "--arg-file",
    ),
    "xvfb-run": ("-n", "-s"),
    "parallel": ("-j", "-a", "--jobs", "-n", "-N"),
    "watch": ("-n", "--interval"),
}
# How many words of its own stand before the command.
_OWN = {"timeout": 1, "taskset": 1, "chrt": 1, "flock": 1}
_RUNNERS = ("uv", "poetry", "pipenv", "pdm", "hatch", "rye", "pixi", "conda")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SPLITTING = re.compile(r"(?:-S|--split-string=?)(.*)$", re.DOTALL)


def unwrap(words: Sequence[str]) -> list[str]:
    """The innermost command of a line of wrappers; one word UNKNOWN for what xargs will add."""
    rest = list(words)
    for _ in range(16):
        name = rest[0].rpartition("/")[2] if rest else ""
        if name in _RUNNERS and rest[1:2] == ["run"]:
            rest = list(dropwhile(lambda word: word.startswith("-"), rest[2:])) or ["true"]
            continue
        if name not in _WRAPPERS:
            return rest
        if name == "command" and rest[1:2] in (["-v"], ["-V"]):
            return ["type", *rest[2:]]
        inner = _inner(name, rest[1:])
        if not inner:
            return rest
        rest = inner
    return [UNKNOWN]


def assignments(words: Sequence[str]) -> list[str]:
    """The variables that env sets in a line of wrappers."""
    return [word for word in words if _ASSIGNMENT.match(word)] if "env" in [w.rpartition("/")[2] for w in words] else []


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [UNKNOWN]


def _inner(name: str, words: list[str]) -> list[str]:
    index, taking = 0, _WRAPPERS[name]
    marker = "{}"
    while index < len(words):
        word = words[index]
        if name == "env" and (split := _SPLITTING.match(word)):
            rest = words[index + 1 :]
            return [*_split(split[1]), *rest] if split[1] else [*_split(rest[0] if rest else ""), *rest[1:]]
        if word in taking:
            marker = words[index + 1] if word == "-I" and index + 1 < len(words) else marker
            index += 2
        elif word == "--":
            index += 1
            break
        elif word.startswith("-") and len(word) > 1 or name == "env" and _ASSIGNMENT.match(word):
            index += 1
        else:
            break
    inner = words[index + _OWN.get(name, 0) :]
    if name not in ("xargs", "parallel") or not inner:
        return inner
    given = [word.replace(marker, UNKNOWN) for word in inner]
    return given if given != inner else [*inner, UNKNOWN]
