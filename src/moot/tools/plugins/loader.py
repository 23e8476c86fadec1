"""Loads plugin tools from the tools folder and from entry points of installed packages. Uses `function`.

A plugin runs with the daemon's permissions, so only the daemon's user may be able to write it.
"""

import linecache
import os
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterable
from contextlib import redirect_stdout
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from moot.domain.agent import FileProblem
from moot.domain.ports.tool import Tool
from moot.tools.plugins.function import BadTool, FunctionTool, get_tool

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "moot.tools"
_METADATA = (".dist-info", ".egg-info")
MAX_BYTES = 1 << 20
LOAD_SECONDS = 10.0
# Name prefixes of tools that are generated at run time.
_RESERVED = ("mcp__", "skill_")
_WORLD = "anybody on this machine could change it; run: chmod o-w"


class _BrokenPlugin(Exception):
    """A plugin that cannot be loaded, and the line with the error."""

    def __init__(self, reason: str, line: int = 1, path: str = "") -> None:
        super().__init__(reason)
        self.reason, self.line, self.path = reason, line, path


class _LoadedPlugin(Struct, frozen=True, kw_only=True):
    """The tools of one file or package; the digest detects changes of a file."""

    digest: str
    tools: tuple[FunctionTool, ...] = field(default=())


class Plugins:
    """The plugin tools. Errors are listed in `flaws`; a broken plugin keeps its last good version."""

    def __init__(
        self,
        folder: Path,
        *,
        taken: Collection[str],
        points: Callable[[], Iterable["EntryPoint"]] | None = None,
    ) -> None:
        self._folder = folder
        self._taken = frozenset(taken)
        self._points = points or find_entry_points
        self._loaded: dict[str, _LoadedPlugin] = {}
        self._tools: tuple[FunctionTool, ...] = ()
        self._flaws: tuple[FileProblem, ...] = ()
        self.reload()

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self._tools

    @property
    def flaws(self) -> tuple[FileProblem, ...]:
        return self._flaws

    def reload(self) -> None:
        """Load everything again. Unchanged files are kept, with their module state."""
        flaws: list[FileProblem] = []
        loaded: dict[str, _LoadedPlugin] = {}
        for source, load in (*self._list_packages(), *self._list_files(flaws)):
            before = self._loaded.get(source)
            try:
                loaded[source] = load(before)
            except _BrokenPlugin as broken:
                flaws.append(FileProblem(path=broken.path or source, line=broken.line, reason=broken.reason))
                if before is not None:
                    loaded[source] = before
        self._tools = self._index_tools(loaded, flaws)
        self._loaded, self._flaws = loaded, tuple(flaws)

    def _index_tools(self, loaded: dict[str, _LoadedPlugin], flaws: list[FileProblem]) -> tuple[FunctionTool, ...]:
        """The tools by name; a second tool with the same name is rejected."""
        kept: dict[str, FunctionTool] = {}
        for each in (tool for source in loaded.values() for tool in source.tools):
            reason = self._find_name_conflict(each.spec.name, kept)
            if reason:
                flaws.append(FileProblem(path=each.path, line=each.place, reason=reason))
            else:
                kept[each.spec.name] = each
        return tuple(kept.values())

    def _find_name_conflict(self, name: str, kept: dict[str, FunctionTool]) -> str:
        if name in self._taken:
            return f"the name {name!r} belongs to a built-in tool; choose another"
        if name.startswith(_RESERVED):
            return f"names that begin with {' or '.join(_RESERVED)} are reserved for Moot; choose another"
        if name in kept:
            return f"there is already a tool {name!r}, at {kept[name].path}:{kept[name].place}"
        return ""

    # ---- where plugins are ----

    def _list_packages(self) -> list[tuple[str, Callable[[_LoadedPlugin | None], _LoadedPlugin]]]:
        points = sorted(self._points(), key=lambda point: (point.name, point.value))
        return [(f"{point.name} = {point.value}", _point_loader(point)) for point in points]

    def _list_files(
        self, flaws: list[FileProblem]
    ) -> list[tuple[str, Callable[[_LoadedPlugin | None], _LoadedPlugin]]]:
        try:
            status = os.stat(self._folder)
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            flaws.append(FileProblem(path=str(self._folder), line=1, reason=f"it cannot be read: {error.strerror}"))
            return []
        if reason := _find_foreign_owner(status):
            flaws.append(FileProblem(path=str(self._folder), line=1, reason=f"nothing in it is used: {reason}"))
            return []
        plugins = [name for name in names if name.endswith(".py") and not name.startswith((".", "_"))]
        return [(str(self._folder / name), _file_loader(self._folder / name, self._folder)) for name in plugins]


# ---- one package --------------------------------------------------------------------------------


def find_entry_points() -> Iterable["EntryPoint"]:
    """The entry points of installed packages. importlib.metadata is imported only if some package has any."""
    if not any(map(_has_entry_points, sys.path)):
        return ()
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import, and slow itself

    return entry_points(group=GROUP)


def _has_entry_points(folder: str) -> bool:
    try:
        names = os.listdir(folder or ".")
    except NotADirectoryError:
        # An archive, which only importlib can read.
        return True
    except OSError:
        return False
    found = (os.path.join(folder, name, "entry_points.txt") for name in names if name.endswith(_METADATA))
    return any(map(_mentions_group, found))


def _mentions_group(file: str) -> bool:
    try:
        with open(file, "rb") as opened:
            return GROUP.encode() in opened.read()
    except OSError:
        return False


def _point_loader(point: "EntryPoint") -> Callable[[_LoadedPlugin | None], _LoadedPlugin]:
    def load(before: _LoadedPlugin | None) -> _LoadedPlugin:
        if before is not None:
            # Installed code is imported once; a new version needs a restart.
            return before
        value = _run_bounded(point.load, path="")
        found = _collect_tools(value) if isinstance(value, ModuleType) else tuple(filter(None, [get_tool(value)]))
        if not found:
            raise _BrokenPlugin("there is no function marked with @tool in it")
        return _LoadedPlugin(digest="", tools=found)

    return load


# ---- one file -----------------------------------------------------------------------------------


def _file_loader(path: Path, within: Path) -> Callable[[_LoadedPlugin | None], _LoadedPlugin]:
    def load(before: _LoadedPlugin | None) -> _LoadedPlugin:
        source = _read_source(path, within)
        digest = sha256(source).hexdigest()
        if before is not None and before.digest == digest:
            return before
        found = _collect_tools(_execute(path, source))
        if not found:
            raise _BrokenPlugin("there is no function marked with @tool in it")
        return _LoadedPlugin(digest=digest, tools=found)

    return load


def _read_source(path: Path, within: Path) -> bytes:
    try:
        if not path.resolve().is_relative_to(within.resolve()):
            raise _BrokenPlugin(f"it is a link that leads out of {within}; put the file itself there")
        # Non-blocking, so that a named pipe cannot hang the daemon.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            # Check the open file, not the path, which may change meanwhile.
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _BrokenPlugin("it is not a regular file")
            if reason := _find_foreign_owner(status):
                raise _BrokenPlugin(f"it is not used: {reason}")
            data = file.read(MAX_BYTES + 1)
    except (OSError, RuntimeError) as error:
        raise _BrokenPlugin(f"it cannot be read: {getattr(error, 'strerror', '') or error}") from error
    if len(data) > MAX_BYTES:
        raise _BrokenPlugin(f"it is larger than {MAX_BYTES // 1024} KiB")
    return data


def _find_foreign_owner(status: os.stat_result) -> str:
    """Why another user could have written the file, or empty."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {status.st_uid}, not to you"
    return _WORLD if status.st_mode & stat.S_IWOTH else ""


def _execute(path: Path, source: bytes) -> ModuleType:
    module = ModuleType(f"moot_tool_{path.stem}")
    module.__file__ = str(path)
    before = sys.modules.get(module.__name__)
    # Dataclasses and type hints are looked up by the name of their module.
    sys.modules[module.__name__] = module
    linecache.checkcache(str(path))
    try:
        _run_bounded(lambda: exec(compile(source, str(path), "exec"), module.__dict__), path=str(path))
    except _BrokenPlugin:
        if before is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before
        raise
    return module


def _collect_tools(module: ModuleType) -> tuple[FunctionTool, ...]:
    found = (get_tool(value) for value in vars(module).values())
    return tuple(dict.fromkeys(each for each in found if each is not None))


# ---- running plugin code ------------------------------------------------------------------------


def _run_bounded(work: Callable[[], Any], *, path: str) -> Any:
    """Run plugin code in a separate thread with a time limit: it may loop, exit or print."""
    result: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:  # noqa: BLE001 — a plugin may also call sys.exit
            failure.append(error)

    thread = threading.Thread(target=run, name=f"loading {path}", daemon=True)
    with redirect_stdout(sys.stderr):
        thread.start()
        thread.join(LOAD_SECONDS)
    if thread.is_alive():
        raise _BrokenPlugin(f"loading it took longer than {LOAD_SECONDS:g} seconds and was stopped")
    if failure:
        raise _explain_error(failure[0], path) from failure[0]
    return result[0]


def _explain_error(error: BaseException, path: str) -> _BrokenPlugin:
    if isinstance(error, BadTool):
        return _BrokenPlugin(error.flaw.reason, error.flaw.line, error.flaw.path)
    if isinstance(error, SyntaxError) and error.filename:
        return _BrokenPlugin(f"it is not valid Python: {error.msg}", error.lineno or 1, error.filename)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_plugin_frame(frame.filename, path)]
    reason = f"it failed while loading: {type(error).__name__}: {error}".rstrip(": ")
    return _BrokenPlugin(reason, frames[-1].lineno or 1, frames[-1].filename) if frames else _BrokenPlugin(reason)


def _is_plugin_frame(filename: str, path: str) -> bool:
    """Whether a frame belongs to the plugin; for a package, any frame outside Moot and importlib."""
    if path:
        return filename == path
    return not filename.startswith("<") and filename != __file__ and "importlib" not in filename
