"""Finds what a sandboxed MCP server needs, folders to read and a network, from its command and its errors."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from moot.domain.errors import BadRequest
from moot.tools.files.private_places import private_places
from moot.tools.files.project_folder import is_beneath, is_shared_root
from moot.tools.sandbox.view import is_system_path

_SCRIPTS = (".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".sh", ".lua", ".jar")
# The keys that `moot mcp add` can write; a table with others must be edited by hand.
_OPTIONS = {"url": "--url", "cwd": "--cwd", "safety": "--safety"}
_WRITTEN = {*_OPTIONS, "command", "args", "network", "sandbox", "readable", "env", "headers"}
# Commands that download the package they run, with the argument that makes them do it.
_RUNNERS = {("npx", ""), ("bunx", ""), ("pnpx", ""), ("uvx", ""), ("uv", "tool"), ("npm", "exec"), ("pnpm", "dlx")}
_RUNNERS |= {("yarn", "dlx"), ("pipx", "run"), ("deno", "run")}


class Surroundings(Struct, frozen=True, kw_only=True):
    """What a server can read besides its own table: the [sandbox] table and Moot's own folders."""

    sandbox: Mapping[str, Any]
    own: Sequence[Path]

    def is_boxed(self, table: Mapping[str, Any]) -> bool:
        return bool(table.get("command")) and table.get("sandbox") != "off" and self.sandbox.get("mode") != "none"

    def lacks_network(self, table: Mapping[str, Any]) -> str:
        """The command that would download its package and cannot, for want of a network; empty if there is none."""
        is_offline = self.is_boxed(table) and not table.get("network") and not self.sandbox.get("network")
        command = os.path.basename(table.get("command", ""))
        first = next(iter(table.get("args", ())), "")
        return command if is_offline and {(command, ""), (command, first)} & _RUNNERS else ""

    def sees(self, table: Mapping[str, Any], path: str) -> bool:
        """Whether a server with this table can read the path."""
        lent = [*self.sandbox.get("readable", ()), *table.get("readable", ()), table.get("cwd", "")]
        return is_system_path(path) or any(is_beneath(path, _real_path(folder)) for folder in lent if folder)

    def unfit(self, folder: str) -> str:
        """Why a folder is not made readable automatically; empty if it can be."""
        if is_shared_root(folder):
            return "which contains much more than the server"
        if any(is_beneath(folder, _real_path(place)) for place in private_places()):
            return "which is private"
        return (
            "which belongs to Moot itself" if any(is_beneath(folder, _real_path(place)) for place in self.own) else ""
        )


def add_script_folders(table: dict[str, Any], around: Surroundings) -> tuple[dict[str, Any], dict[str, str]]:
    """The table with its scripts' folders in `readable` and absolute script paths, and the reason for each folder.

    Paths are written with links resolved, since the sandbox only mounts real paths.
    """
    if not around.is_boxed(table):
        return table, {}
    found: dict[str, str] = {}
    words: list[str] = []
    for word in table["args"]:
        script = _find_script(word, table.get("cwd", ""))
        words.append(script or word)
        folder, _, name = script.rpartition("/")
        if not script or around.sees(table, folder) or folder in found:
            continue
        if reason := around.unfit(folder):
            raise BadRequest(
                f"{name} lies in {folder}, {reason}, so the folder is not made readable for a server",
                fix=f"Move {name} to its own folder and add the server from there. `--readable {folder}` allows it"
                " anyway, `--no-sandbox` runs the server with your own permissions.",
            )
        found[folder] = name
    made = {**table, "args": words}
    return made | ({"readable": [*table.get("readable", ()), *found]} if found else {}), found


def suggest_fix(name: str, table: Mapping[str, Any], problem: str, around: Surroundings) -> str:
    """The fix for a server that cannot be used, as a command if possible."""
    if "package that is not installed" in problem:
        return f"Install it, then run `moot down` and `moot mcp test {name}`."
    by_hand = f"Correct [mcp.{name}] in config.toml, then `moot reload` and `moot mcp test {name}`."
    if command := around.lacks_network(table):
        text = f"Set `network = true` under [mcp.{name}] in config.toml. {by_hand}"
        if set(table) <= _WRITTEN:
            allowed = {**table, "network": True}
            text = f"Allow it with: {_render_command(name, allowed, _find_unseen(table, around))}"
        return f"{command} downloads what it runs, and the sandbox has no network. {text}"
    # Only the configured arguments name folders: a server's error message could name one to gain access.
    if not around.is_boxed(table) or "It said: " not in problem:
        return by_hand
    folders = _find_unseen(table, around)
    if not set(table) <= _WRITTEN:
        lacking = ", ".join(f'"{folder}"' for folder in folders) or '"DIR"'
        return (
            f"Make the missing folder readable: `readable = [{lacking}]` under [mcp.{name}] in config.toml. {by_hand}"
        )
    if folders:
        return f"It cannot read {', '.join(folders)}. Allow it with: {_render_command(name, table, folders)}"
    return f"If it needs a folder or the network, allow it with: {_render_command(name, table, ['DIR'])}"


def _find_unseen(table: Mapping[str, Any], around: Surroundings) -> list[str]:
    """Folders in the arguments, or containing a path in them, that the server cannot read."""
    named = [os.path.realpath(word) for word in table.get("args", ()) if os.path.isabs(word) and os.path.exists(word)]
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in named]
    return list(dict.fromkeys(path for path in folders if not around.sees(table, path) and not around.unfit(path)))


def _render_command(name: str, table: Mapping[str, Any], more: Iterable[str]) -> str:
    words = ["moot", "mcp", "add", name, "--replace"]
    for key, option in _OPTIONS.items():
        words += [option, table[key]] if key in table else []
    words += ["--network"] if table.get("network") else []
    for folder in (*table.get("readable", ()), *more):
        words += ["--readable", folder]
    for key, option in (("env", "--env"), ("headers", "--header")):
        for pair in table.get(key, {}).items():
            words += [option, "=".join(pair)]
    return shlex.join([*words, "--", table["command"], *table.get("args", ())])


def _find_script(word: str, cwd: str) -> str:
    """The real path of the script that an argument names; empty if it names none."""
    path = os.path.join(_real_path(cwd), word) if cwd and os.path.isfile(os.path.join(_real_path(cwd), word)) else word
    if not os.path.isfile(path):
        return ""
    if not word.lower().endswith(_SCRIPTS) and not ("/" in word and _is_script(path)):
        return ""
    return os.path.realpath(path)


def _is_script(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _real_path(folder: str | Path) -> str:
    return os.path.realpath(os.path.expanduser(folder))
