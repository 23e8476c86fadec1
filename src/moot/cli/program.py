"""How this installation of Moot is called, and the commands in hints written that way."""

import os
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

_NAME = "moot"
# A command in a hint: the word, and the subcommand behind it. Prose about "moot" has no subcommand behind it.
# Nor one behind -m: a program that was started by this one has written it.
_COMMAND = re.compile(r"(?<![\w./'\"-])(?<!-m )moot(?= ([a-z]+|--help))")
# Not one that was written for this installation already.
_INSTALL = re.compile(r"(?<!-m )pip install '(moot\[[a-z,-]+\])'")


def program_name() -> str:
    """Return how the user called this program, for suggested commands."""
    return os.environ.get("MOOT_DEV") or _find_program(sys.argv[0] if sys.argv else "", sys.prefix, sys.executable)


@lru_cache(maxsize=8)
def _find_program(called: str, prefix: str, executable: str) -> str:
    if called.split(os.sep)[-2:] == [_NAME, "__main__.py"]:
        return f"{_shorten(executable)} -m {_NAME}"
    if runner := _find_runner(prefix):
        return runner
    if os.path.basename(called) != _NAME:
        # Not started as a program, but from Python.
        return _NAME
    found = _which(_NAME)
    is_on_path = found is not None and os.path.exists(called) and os.path.samefile(found, called)
    return _NAME if is_on_path else _quote(_relative(called))


def _find_runner(prefix: str) -> str:
    """Return the program that runs Moot in an environment it makes for one call; empty if there is none."""
    parts = prefix.split(os.sep)
    if "uv" in parts and any(part.startswith(("archive-v", "environments-v", "builds-v")) for part in parts):
        return f"uvx {_NAME}"
    if "pipx" in parts and any(part in (".cache", "cache") for part in parts[parts.index("pipx") :]):
        return f"pipx run {_NAME}"
    return ""


def _shorten(executable: str) -> str:
    """Return the name of an interpreter on the PATH, else its path."""
    name = os.path.basename(executable)
    found = _which(name)
    is_on_path = found is not None and os.path.exists(executable) and os.path.samefile(found, executable)
    return name if is_on_path and found == executable else _quote(_relative(executable))


# Every command imports this module, and few show a command: what only that needs is imported then.


def _quote(path: str) -> str:
    import shlex  # noqa: PLC0415

    return shlex.quote(path)


def _which(name: str) -> str | None:
    import shutil  # noqa: PLC0415

    return shutil.which(name)


def _relative(path: str) -> str:
    """Return a path below the current directory relative to it."""
    full, here = os.path.abspath(path), os.path.join(os.getcwd(), "")
    return os.path.join(".", full.removeprefix(here)) if full.startswith(here) else full


class _Known:
    """The subcommands there are; set by main.py."""

    commands: frozenset[str] = frozenset()


def use_commands(names: Iterable[str]) -> None:
    _Known.commands = frozenset(names)


def hint(text: str) -> str:
    """Return a text with each `moot COMMAND` in it as the user has to type it in this installation."""
    program = program_name()
    if program != _NAME:
        before = program.removesuffix(_NAME)

        def name(match: re.Match[str]) -> str:
            is_named = bool(before) and text[: match.start()].endswith(before)
            return program if match[1] in (*_Known.commands, "--help") and not is_named else match[0]

        text = _COMMAND.sub(name, text)
    return _INSTALL.sub(lambda match: install_command(match[1]), text)


# Stands for a space inside a command while a text is wrapped.
JOINT = "\ue000"


def join_commands(text: str) -> str:
    """Return a text in which JOINT replaces the spaces of each command of `hint`, so that no line ends inside one.

    A command ends with its backquote. One that follows a colon or a bracket, or begins a line, ends with the line or
    at a punctuation mark.
    """
    program = program_name()
    if f"{program} " not in text:
        return text
    return _command_pattern(program).sub(lambda match: match[0].replace(" ", JOINT), text)


@lru_cache(maxsize=8)
def _command_pattern(program: str) -> re.Pattern[str]:
    name = re.escape(program)
    in_backquotes = rf"(?<=`){name} [^`\n]+(?=`)"
    bare = rf"(?:(?<=: )|(?<=\()|(?<=^)){name} [a-z-][^`\n]*?(?=[.,;:)](?:\s|$)|\s\(|$)"
    return re.compile(f"{in_backquotes}|{bare}", re.MULTILINE)


def install_command(wanted: str, prefix: str = "", program: str = "") -> str:
    """Return the command that installs Moot with these extras where this one is installed."""
    prefix, program = prefix or sys.prefix, program or program_name()
    parts = prefix.split(os.sep)
    if program.startswith(("uvx ", "pipx run ")):
        runner = "uvx --from" if program.startswith("uvx ") else "pipx run --spec"
        return f"{runner} {_quote(_add_source(wanted))} {_NAME}"
    if "pipx" in parts:
        return f"pipx install --force {_quote(_add_source(wanted))}"
    if "uv" in parts and "tools" in parts:
        return f"uv tool install {_quote(_add_source(wanted))}"
    found = _which("pip")
    if found is not None and os.path.dirname(found) == os.path.join(prefix, "bin"):
        return f"pip install '{wanted}'"
    return _call_pip("install", f"'{wanted}'")


def _add_source(wanted: str) -> str:
    """Return a requirement with the place that Moot was installed from, if that was not a package index.

    What installs Moot anew would look for it in the index otherwise. pip adds extras to what is there.
    """
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415

    told = _read_source()
    url = told.get("url", "")
    if url.startswith("file://"):
        return unquote(urlsplit(url).path) + wanted.removeprefix(_NAME)
    if vcs := told.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs.get('requested_revision') or vcs['commit_id']}"
    return f"{wanted} @ {url}" if url else wanted


def _read_source() -> dict[str, Any]:
    """Return what the installer recorded about where Moot came from (direct_url.json); empty for a package index."""
    import importlib.metadata  # noqa: PLC0415
    import json  # noqa: PLC0415

    try:
        told = importlib.metadata.distribution(_NAME).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return {}
    return json.loads(told) if told else {}


def removal_command(prefix: str = "") -> str:
    """Return the command that removes this installation of Moot."""
    prefix = prefix or sys.prefix
    parts = prefix.split(os.sep)
    runner = _find_runner(prefix)
    if os.environ.get("MOOT_DEV") or runner.startswith("pipx"):
        return f"rm -r {_quote(prefix)}"
    if runner:
        return f"uv cache clean {_NAME}"
    if "pipx" in parts:
        return f"pipx uninstall {_NAME}"
    if "uv" in parts and "tools" in parts:
        return f"uv tool uninstall {_NAME}"
    return _call_pip("uninstall", _NAME)


def _call_pip(command: str, argument: str) -> str:
    """Return a call of pip in this environment. Those that uv makes have none."""
    python = _quote(sys.executable)
    return f"{python} -m pip {command} {argument}" if _has_pip() else f"uv pip {command} --python {python} {argument}"


def _has_pip() -> bool:
    import importlib.util  # noqa: PLC0415

    return importlib.util.find_spec("pip") is not None
