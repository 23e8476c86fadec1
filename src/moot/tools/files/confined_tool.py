"""Tools that work on open handles beneath the working directory: how a path is opened, previewed and shown."""

import os
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from moot.domain.ask import Binding
from moot.domain.call_shape import CallShape
from moot.domain.config import FilesConfig
from moot.domain.errors import BadRequest, MootError, NotFound, TooLarge
from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import RunContext
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.safety import Reach, has_control_name
from moot.domain.visible import one_row
from moot.tools.files.change import bind_spot, require_agreed
from moot.tools.files.change_log import ChangeLog, relative_path
from moot.tools.files.confined_paths import ConfinedFolder, PathEntry, translate_errors
from moot.tools.files.file_change import Planned
from moot.tools.files.file_state import state_of_content
from moot.tools.files.file_text import is_binary
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.project_folder import is_project, touches_own_code
from moot.tools.files.read_files import ReadFiles
from moot.tools.threads import run_in_thread

Redact = Callable[[str], str]
_SHOWN_PATH = 120
_PATH = {"type": "string", "description": "A path inside the working directory."}


def build_spec(name: str, safety: Safety, description: str, **parameters: dict[str, Any]) -> ToolSpec:
    """Build a file tool's spec. Parameters are required unless marked `optional`."""
    properties = {"path": _PATH} | {
        name: {key: value for key, value in form.items() if key != "optional"} for name, form in parameters.items()
    }
    required = ["path", *(name for name, form in parameters.items() if not form.get("optional"))]
    schema = {"type": "object", "properties": properties, "required": required}
    return ToolSpec(name=name, safety=safety, group="fs", description=description, parameters=schema)


class FileToolDependencies(Struct, frozen=True, kw_only=True):
    """`off_limits` are the folders and files of Moot itself; `redact` replaces secrets by marks."""

    off_limits: OffLimits
    clock: Clock
    limits: FilesConfig
    redact: Redact
    reads: ReadFiles
    log: ChangeLog
    # Whether no policy asks about fs_read, or blocks it.
    reads_freely: Callable[[], bool]


class ConfinedTool:
    """Base class: runs in a thread on handles inside the working directory."""

    spec: ClassVar[ToolSpec]
    verb: ClassVar[str]

    def __init__(self, dependencies: FileToolDependencies) -> None:
        self._off_limits = dependencies.off_limits
        self._limits = dependencies.limits
        self._redact = dependencies.redact
        self._reads = dependencies.reads
        self._log = dependencies.log
        self._reads_freely = dependencies.reads_freely

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        return await run_in_thread(self._do, arguments, context)

    def line(self, arguments: dict[str, Any]) -> str:
        return f"{self.verb} {arguments.get('path', '')}"

    def _do(self, arguments: dict[str, Any], context: RunContext) -> str:
        with ConfinedFolder(context.cwd, self._off_limits) as ground:
            return self._on(ground, arguments, context)

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> str:
        raise NotImplementedError

    def _read(self, ground: ConfinedFolder, spot: PathEntry, most: int) -> tuple[bytes, os.stat_result]:
        file, status = ground.open_file(spot)
        with translate_errors(spot.path), open(file, "rb", closefd=False) as reader:
            data = reader.read(most + 1) if status.st_size <= most else b""
        if status.st_size > most or len(data) > most:
            raise TooLarge(
                f"{spot.path} has {max(status.st_size, len(data))} bytes; at most {most} are read",
                fix="Read a part of it with offset and limit, or search it with a command.",
            )
        return data, status

    def _read_text(self, ground: ConfinedFolder, spot: PathEntry, most: int) -> tuple[bytes, os.stat_result]:
        data, status = self._read(ground, spot, most)
        if is_binary(data):
            raise BadRequest(f"{spot.path} is not text ({status.st_size} bytes)", fix="fs_stat describes it.")
        return data, status


class ConfinedChange(ConfinedTool):
    """Base class for tools that change files: previews the change and applies only what was previewed."""

    # Whether a link in the last component is followed.
    follow: ClassVar[bool] = True

    async def bind(self, arguments: dict[str, Any], context: RunContext) -> Binding:
        return await run_in_thread(self._bind, arguments, context.cwd)

    def _bind(self, arguments: dict[str, Any], cwd: str) -> Binding:
        try:
            with ConfinedFolder(cwd, self._off_limits) as ground:
                return join_bindings(self._bind_paths(ground, arguments))
        except MootError as error:
            return Binding(seen=f"it fails: {error.message}")

    def _bind_path(self, ground: ConfinedFolder, path: str) -> Binding:
        try:
            spot = ground.spot(path, follow=self.follow)
        except NotFound:
            # The parent folder does not exist either.
            return Binding(place=ground.missing(path), seen="nothing")
        return bind_spot(ground, spot, self._limits.window_bytes)

    async def reach(self, arguments: dict[str, Any], context: RunContext) -> Reach:
        return await run_in_thread(self._reach, arguments, context.cwd)

    def _reach(self, arguments: dict[str, Any], cwd: str) -> Reach:
        """Return what the call would change, and whether that is an ordinary edit in a project, which can be undone."""
        try:
            with ConfinedFolder(cwd, self._off_limits) as ground:
                top = ground.real(ground.spot("."))
                found = self._bind_paths(ground, arguments)
                paths = [os.path.relpath(each.place, top) for each in found]
                is_controlling = any(map(has_control_name, paths)) or _touches_own_code(found)
                is_ordinary = is_project(top) and not is_controlling
                is_undoable = is_ordinary and self._limits.undo_bytes > 0 and self._is_undoable(ground, arguments)
                return Reach(is_undoable=is_undoable, binding=join_bindings(found) if is_undoable else None)
        except MootError:
            return Reach()

    async def shape(self, arguments: dict[str, Any], context: RunContext) -> CallShape | None:
        return await run_in_thread(self._shape, arguments, context.cwd)

    def _shape(self, arguments: dict[str, Any], cwd: str) -> CallShape | None:
        try:
            with ConfinedFolder(cwd, self._off_limits) as ground:
                top = ground.real(ground.spot("."))
                found = self._bind_paths(ground, arguments)
                places = tuple(each.place for each in found)
                return CallShape(cwd=top, places=places) if is_project(top) and not _touches_own_code(found) else None
        except MootError:
            return None

    def _bind_paths(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> list[Binding]:
        return [self._bind_path(ground, arguments["path"])]

    def _is_undoable(self, _ground: ConfinedFolder, _arguments: dict[str, Any]) -> bool:
        return True

    def _hold(self, ground: ConfinedFolder, spot: PathEntry, agreed: Binding | None) -> None:
        """Compare with what was approved once more, on the same handle that is used for the change."""
        if agreed is not None:
            require_agreed(bind_spot(ground, spot, self._limits.window_bytes), agreed, spot.path)

    def _plan_content(self, ground: ConfinedFolder, place: str, data: bytes) -> Planned:
        return Planned(path=relative_path(ground, place), after=state_of_content(data), data=data)

    async def check(self, arguments: dict[str, Any], context: RunContext) -> None:
        """Raise what the call would fail with."""
        await run_in_thread(self._check, arguments, context)

    def _check(self, arguments: dict[str, Any], context: RunContext) -> None:
        with ConfinedFolder(context.cwd, self._off_limits) as ground:
            self._check_on(ground, arguments, context)

    def _check_on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> None:
        self._show(ground, arguments)

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str:
        return await run_in_thread(self._preview, arguments, context.cwd)

    def _preview(self, arguments: dict[str, Any], cwd: str) -> str:
        try:
            with ConfinedFolder(cwd, self._off_limits) as ground:
                return self._render_target(ground, arguments["path"]) + self._show(ground, arguments)
        except MootError as error:
            return f"This will fail: {error.message}."

    def _render_target(self, ground: ConfinedFolder, path: str) -> str:
        """A line with the real path, if it differs from the path in the call."""
        real = self._bind_path(ground, path).place
        return f"{one_row(path)} resolves to {one_row(real)}\n" if real != ground.plain(path) else ""

    def _show(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        raise NotImplementedError


def _touches_own_code(found: list[Binding]) -> bool:
    return any(touches_own_code(each.place) for each in found)


def join_bindings(found: list[Binding]) -> Binding:
    """Return the binding of several paths."""
    return Binding(place="\n".join(each.place for each in found), seen="\n".join(each.seen for each in found))


def decode_name(name: str) -> str:
    r"""Decode a file name as UTF-8; invalid bytes become \xNN."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def shorten_path(path: object) -> str:
    """Shorten a path to one printable line."""
    shown = printable(path)
    return shown if len(shown) <= _SHOWN_PATH else f"…{shown[-_SHOWN_PATH:]}"


def printable(path: object) -> str:
    return "".join(character if character.isprintable() else "�" for character in str(path))


def to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
