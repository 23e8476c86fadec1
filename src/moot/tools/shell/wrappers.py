"""Removes wrapper commands such as env, sudo and xargs, and returns the inner command. Pure."""

import re
import shlex
from collections.abc import Sequence
from itertools import dropwhile

from moot.tools.shell.paths import is_root_like, is_system
from moot.tools.shell.words import UNKNOWN

# Options of each that take a value of their own, which must not be mistaken for the command.
_WRAPPERS: dict[str, tuple[str, ...]] = {
    "builtin": (),
    "busybox": (),
    "caffeinate": ("-t",),
    "catchsegv": (),
    "chronic": (),
    "chrt": ("-T", "-P", "-D"),
    "command": (),
    "coproc": (),
    "cpulimit": ("-l", "-p", "-e", "--limit"),
    "dbus-launch": (),
    "dbus-run-session": (),
    "eatmydata": (),
    "entr": (),
    "env": ("-u", "--unset", "-C", "--chdir"),
    "exec": ("-a",),
    "fakeroot": (),
    "faketime": (),
    "firejail": (),
    "flock": ("-w", "--timeout", "-E"),
    "i386": (),
    "ifne": (),
    "ionice": ("-c", "-n", "-p"),
    "linux32": (),
    "linux64": (),
    "ltrace": ("-e", "-o", "-p", "-s", "-n", "-a", "-u", "-x", "-l"),
    "nice": ("-n",),
    "nohup": (),
    "numactl": ("-N", "-m", "-C"),
    "prlimit": (),
    "rlwrap": (),
    "setarch": (),
    "setsid": (),
    "stdbuf": ("-i", "-o", "-e"),
    "ssh-agent": ("-t", "-a"),
    "strace": ("-e", "-o", "-p", "-s", "-u", "-E", "-a", "-P", "-I", "-b", "-S", "-X", "-O"),
    "taskset": (),
    "time": ("-f", "-o"),
    "timeout": ("-s", "--signal", "-k", "--kill-after"),
    "tini": (),
    "toybox": (),
    "unbuffer": (),
    "valgrind": (),
    "x86_64": (),
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
_OWN = {"timeout": 1, "taskset": 1, "chrt": 1, "flock": 1, "faketime": 1}
# Their own notes can go to a program instead of a file.
_TRACERS = ("strace", "ltrace")
# The program that starts programs; it is given the one it is to start.
_LOADER = re.compile(r"ld(-[\w.-]+)?\.so(\.\d+)*|ld64\.so\.\d")
_LOADER_TAKES = ("--library-path", "--inhibit-rpath", "--argv0", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask")
_RUNNERS = {
    "run": ("uv", "poetry", "pipenv", "pdm", "hatch", "rye", "pixi", "conda", "dotenvx", "doppler", "op"),
    "exec": ("bundle", "rbenv", "pyenv", "asdf", "mise", "direnv", "opam", "stack", "cabal", "yarn", "pnpm"),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SPLITTING = re.compile(r"(?:-[0iv]*S|--split-string=?)(.*)$", re.DOTALL)


def unwrap(words: Sequence[str]) -> list[str]:
    """The innermost command behind wrappers; one word UNKNOWN stands for what xargs adds."""
    rest = list(words)
    for _ in range(16):
        name = rest[0].rpartition("/")[2] if rest else ""
        if len(rest) > 1 and name in _RUNNERS.get(rest[1], ()):
            own = 1 if name == "direnv" else 0
            rest = list(dropwhile(lambda word: word.startswith("-"), rest[2 + own :])) or ["true"]
            continue
        if _LOADER.fullmatch(name) and len(rest) > 1:
            rest = _loader_command(rest[1:])
            continue
        if name not in _WRAPPERS:
            return rest
        if name == "command" and rest[1:2] in (["-v"], ["-V"]):
            return ["type", *rest[2:]]
        inner = _inner_command(name, rest[1:])
        if not inner:
            return rest
        rest = inner
    return [UNKNOWN]


def assignments(words: Sequence[str]) -> list[str]:
    """The variables that env sets."""
    return [word for word in words if _ASSIGNMENT.match(word)] if "env" in [w.rpartition("/")[2] for w in words] else []


def _loader_command(words: list[str]) -> list[str]:
    """The program that the dynamic loader starts; unknown if a library is preloaded."""
    while words and words[0].startswith("--"):
        if words[0].startswith("--preload"):
            return [UNKNOWN]
        words = words[2 if words[0] in _LOADER_TAKES else 1 :]
    return words or ["true"]


def _split(text: str) -> list[str]:
    # env has escapes and variables of its own there.
    if re.search(r"\\[_c]|\$\{", text):
        return [UNKNOWN]
    try:
        return shlex.split(text)
    except ValueError:
        return [UNKNOWN]


def _shell_text(name: str, words: list[str]) -> str:
    """The text that a wrapper passes to a shell, if it does."""
    for index, word in enumerate(words):
        after = words[index + 1] if index + 1 < len(words) else ""
        if name == "flock" and word in ("-c", "--command"):
            return after
        if name in _TRACERS and (option := re.match(r"(?:-o|--output=?)(.*)$", word, re.DOTALL)):
            target = option[1] or after
            if target[:1] in ("|", "!"):
                return target[1:]
    return ""


def _inner_command(name: str, words: list[str]) -> list[str]:
    if text := _shell_text(name, words):
        return ["sh", "-c", text]
    if name == "coproc" and "{" in words[:2]:
        return words[words.index("{") + 1 :]
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
        elif _is_own_word(name, word):
            index += 1
        else:
            break
    return _remaining_command(name, words[:index], words[index + _OWN.get(name, 0) :], marker)


def _is_own_word(name: str, word: str) -> bool:
    """Whether the word belongs to the wrapper: an option, or a variable set by env."""
    if name == "env" and (word == "-" or _ASSIGNMENT.match(word)):
        return True
    return word.startswith("-") and len(word) > 1


def _remaining_command(name: str, own: list[str], inner: list[str], marker: str) -> list[str]:
    if name == "env" and inner and (folder := _env_folder(own)):
        return ["sh", "-c", f"cd {shlex.quote(folder)} && {shlex.join(inner)}"]
    if name == "watch" and inner and "-x" not in own:
        # It hands its words to a shell, joined.
        return ["sh", "-c", " ".join(inner)]
    return _per_item_command(name, inner, marker) if name in ("xargs", "parallel") and inner else inner


def _env_folder(words: list[str]) -> str:
    """The folder that env changes to, if relative names there mean the system."""
    for index, word in enumerate(words):
        option, sets, value = word.partition("=")
        if option in ("-C", "--chdir"):
            folder = value if sets else "".join(words[index + 1 : index + 2])
            return folder if is_root_like(folder) or is_system(folder) else ""
    return ""


def _per_item_command(name: str, inner: list[str], marker: str) -> list[str]:
    """The command run for each item; for parallel the items may be the commands."""
    if name == "parallel" and inner[0] == ":::":
        return ["sh", "-c", "\n".join(inner[1:])]
    given = [word.replace(marker, UNKNOWN) for word in inner]
    return given if given != inner else [*inner, UNKNOWN]
