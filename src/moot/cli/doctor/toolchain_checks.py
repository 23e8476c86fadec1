"""The check of the toolchain for `moot doctor`: which programs of the caller's PATH commands of agents can use."""

import os
from collections.abc import Iterator, Sequence

from moot.cli.connect import caller_search_path
from moot.cli.doctor import checks
from moot.cli.doctor.checks import Finding
from moot.daemon.paths import Paths

_CHECK = "toolchain"


def check_toolchain(home: Paths) -> Iterator[Finding]:
    from moot.tools.sandbox.toolchain import find_toolchain, list_search_path  # noqa: PLC0415

    config = checks.load_valid_config(home)
    if config is None:
        yield checks.skip_finding(_CHECK)
        return
    sandbox = config.tools.sandbox
    wanted = list_search_path(sandbox, caller_search_path())
    if not sandbox.toolchain:
        yield checks.note(_CHECK, "Commands do not use the programs on your PATH ([sandbox] toolchain is off).")
    found = find_toolchain(wanted, cwd=os.path.realpath(os.getcwd()), own=[os.path.realpath(path) for path in home.own])
    if found.readable:
        yield checks.ok(_CHECK, f"Commands can read and run, but not change: {_render(found.readable)}.")
    if found.hidden:
        yield checks.note(_CHECK, f"Hidden in these, because they may hold secrets: {_render(found.hidden)}.")
    left_out = [entry for entry in dict.fromkeys(wanted.split(os.pathsep)) if _is_left_out(entry, found.path)]
    if left_out:
        yield checks.note(
            _CHECK,
            f"Not used by commands: {_render(left_out)}. [sandbox] readable and search_path "
            "can add a folder that has only programs.",
        )


def _is_left_out(entry: str, used: Sequence[str]) -> bool:
    return os.path.isdir(entry) and os.path.realpath(entry) not in used


def _render(paths: Sequence[str]) -> str:
    home = os.path.expanduser("~")
    return ", ".join(f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path for path in paths)
