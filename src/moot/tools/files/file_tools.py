"""The file tools (read, list, write, edit, mkdir, delete, stat), built on `confined_paths` and `change`."""

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from moot.domain.ask import Binding
from moot.domain.config import FilesConfig
from moot.domain.errors import BadRequest, MootError, NotFound, TooLarge
from moot.domain.ports.tool import RunContext, Tool
from moot.domain.prompt import Safety, ToolSpec
from moot.tools.files.change import (
    bind_spot,
    check_removable,
    check_unchanged,
    check_writable,
    count_removal,
    remove,
    replace,
    require_agreed,
)
from moot.tools.files.confined_paths import ConfinedFolder, PathEntry, translate_errors
from moot.tools.files.file_text import (
    SECRET_SHOWN,
    Edit,
    apply_edit,
    check_marks,
    count_lines,
    decode_text,
    encode_content,
    is_binary,
    number_lines,
    render_diff,
    split_lines,
)
from moot.tools.files.off_limits import OffLimits
from moot.tools.threads import run_in_thread

Redact = Callable[[str], str]
_SHOWN_PATH = 120
_PATH = {"type": "string", "description": "A path beneath the working directory."}


def tools(*, off_limits: OffLimits, config: FilesConfig | None = None, redact: Redact = str) -> list[Tool]:
    """Build the seven file tools. `off_limits` are Moot's own files; `redact` replaces secrets with marks."""
    limits = config or FilesConfig()
    kinds = (FsRead, FsList, FsWrite, FsEdit, FsMkdir, FsDelete, FsStat)
    return [kind(off_limits, limits, redact) for kind in kinds]


def _spec(name: str, safety: Safety, description: str, **parameters: dict[str, Any]) -> ToolSpec:
    """Build a file tool's spec. Parameters are required unless marked `optional`."""
    properties = {"path": _PATH} | {
        name: {key: value for key, value in form.items() if key != "optional"} for name, form in parameters.items()
    }
    required = ["path", *(name for name, form in parameters.items() if not form.get("optional"))]
    schema = {"type": "object", "properties": properties, "required": required}
    return ToolSpec(name=name, safety=safety, group="fs", description=description, parameters=schema)


class _FileTool:
    """Base class: runs in a thread on handles inside the working directory."""

    spec: ClassVar[ToolSpec]
    verb: ClassVar[str]

    def __init__(self, off_limits: OffLimits, limits: FilesConfig, redact: Redact) -> None:
        self._off_limits = off_limits
        self._limits = limits
        self._redact = redact

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        return await run_in_thread(self._do, arguments, context.cwd)

    def line(self, arguments: dict[str, Any]) -> str:
        return f"{self.verb} {_printable(arguments.get('path', ''))}"

    def _do(self, arguments: dict[str, Any], cwd: str) -> str:
        with ConfinedFolder(cwd, self._off_limits) as ground:
            return self._on(ground, arguments)

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
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


class _FileChange(_FileTool):
    """Base class for tools that change files: previews the change and applies only what was previewed."""

    # Whether a link in the last component is followed.
    follow: ClassVar[bool] = True

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        return await run_in_thread(self._make, arguments, context.cwd, context.agreed)

    async def bind(self, arguments: dict[str, Any], context: RunContext) -> Binding:
        return await run_in_thread(self._bind, arguments, context.cwd)

    def _bind(self, arguments: dict[str, Any], cwd: str) -> Binding:
        try:
            with ConfinedFolder(cwd, self._off_limits) as ground:
                return self._bind_path(ground, arguments["path"])
        except MootError as error:
            return Binding(seen=f"it fails: {error.message}")

    def _bind_path(self, ground: ConfinedFolder, path: str) -> Binding:
        try:
            spot = ground.spot(path, follow=self.follow)
        except NotFound:
            # The parent folder does not exist either.
            return Binding(place=ground.missing(path), seen="nothing")
        return bind_spot(ground, spot, self._limits.window_bytes)

    def _make(self, arguments: dict[str, Any], cwd: str, agreed: Binding | None) -> str:
        with ConfinedFolder(cwd, self._off_limits) as ground:
            return self._change(ground, arguments, agreed)

    def _change(self, ground: ConfinedFolder, arguments: dict[str, Any], agreed: Binding | None) -> str:
        raise NotImplementedError

    def _hold(self, ground: ConfinedFolder, spot: PathEntry, agreed: Binding | None) -> None:
        """Compare with what was approved once more, on the same handle that is used for the change."""
        if agreed is not None:
            require_agreed(bind_spot(ground, spot, self._limits.window_bytes), agreed, spot.path)

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
        return f"{_printable(path)} is really {_printable(real)}\n" if real != ground.plain(path) else ""

    def _show(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        raise NotImplementedError


class FsRead(_FileTool):
    verb = "read"
    spec = _spec(
        "fs_read",
        Safety.SAFE,
        "Read a text file, whole or a window of its lines. Ask for lineNumbers before an edit by line.",
        offset={"type": "integer", "description": "First line of the window, counted from 1.", "optional": True},
        limit={"type": "integer", "description": "How many lines at most.", "optional": True},
        lineNumbers={"type": "boolean", "description": "Begin every line with its number.", "optional": True},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        said = super().line(arguments)
        first, most = arguments.get("offset"), arguments.get("limit")
        if first is None and most is None:
            return said
        return f"{said}, from line {first or 1}" + (f", at most {most} lines" if most is not None else "")

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        window = "offset" in arguments or "limit" in arguments
        most = self._limits.window_bytes if window else self._limits.read_bytes
        data, status = self._read_text(ground, ground.spot(arguments["path"]), most)
        if not window:
            lines = number_lines(split_lines(data), 1) if arguments.get("lineNumbers") else [data]
            return decode_text(b"".join(lines))
        lines = split_lines(data)
        first, limit = arguments.get("offset", 1), arguments.get("limit", len(lines))
        if first < 1 or limit < 0:
            raise BadRequest(f"there is no window of {limit} lines from line {first}", fix="Lines are counted from 1.")
        shown = lines[first - 1 : first - 1 + limit]
        content = decode_text(b"".join(number_lines(shown, first) if arguments.get("lineNumbers") else shown))
        if len(content) > self._limits.read_bytes:
            raise TooLarge(f"these {len(shown)} lines are too long together", fix="Ask for fewer lines.")
        answer = {"content": content, "totalLines": len(lines), "size": status.st_size, "offset": first, "limit": limit}
        return _to_json(answer)


class FsList(_FileTool):
    verb = "list"
    spec = _spec("fs_list", Safety.SAFE, "List what a folder contains; . is the working directory itself.")

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        path = arguments["path"]
        folder = ground.open_folder(ground.spot(path))
        with translate_errors(path), os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
            listed = [_entry_data(path, entry) for entry in found[: self._limits.entries]]
        if len(found) > len(listed):
            listed.append({"more": len(found) - len(listed)})
        return _to_json(listed)


class FsWrite(_FileChange):
    verb = "write"
    spec = _spec(
        "fs_write",
        Safety.DANGEROUS,
        "Write a file, whole: one that is there is replaced, missing folders are made.",
        content={"type": "string", "minLength": 0, "description": "Everything the file shall contain."},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        return f"{super().line(arguments)} ({len(str(arguments.get('content', '')))} characters)"

    def _change(self, ground: ConfinedFolder, arguments: dict[str, Any], agreed: Binding | None) -> str:
        path, data = arguments["path"], encode_content(arguments["content"], self._limits.write_bytes)
        if parent := os.path.dirname(ground.relative(path)):
            if agreed is not None:
                require_agreed(self._bind_path(ground, path), agreed, path)
            ground.make_folders(parent)
        spot = ground.spot(path)
        self._read_existing(ground, spot, arguments)
        self._hold(ground, spot, agreed)
        replace(spot, data)
        return f"Wrote {len(data)} bytes to {_one_line(path)}."

    def _show(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        data = encode_content(arguments["content"], self._limits.write_bytes)
        try:
            spot = ground.spot(arguments["path"])
        except NotFound:  # the parent folder does not exist yet and will be created
            return render_diff(arguments["path"], None, data)
        return render_diff(arguments["path"], self._read_existing(ground, spot, arguments, always=True), data)

    def _read_existing(
        self, ground: ConfinedFolder, spot: PathEntry, arguments: dict[str, Any], *, always: bool = False
    ) -> bytes | None:
        """The current content if overwriting is allowed; read only if it is needed."""
        status = spot.status()
        check_writable(spot, status)
        if status is None or not (always or SECRET_SHOWN in arguments["content"]):
            return None
        before = self._read(ground, spot, self._limits.window_bytes)[0]
        check_marks(spot.path, before, arguments["content"], self._redact)
        return before


class FsEdit(_FileChange):
    verb = "edit"
    spec = _spec(
        "fs_edit",
        Safety.DANGEROUS,
        "Replace a range of lines in a text file. A range that begins one past the last line appends.",
        startLine={"type": "integer", "description": "First line to replace, counted from 1."},
        endLine={"type": "integer", "description": "Last line to replace."},
        content={"type": "string", "minLength": 0, "description": "What stands there instead."},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        return f"{super().line(arguments)}, lines {arguments.get('startLine')} to {arguments.get('endLine')}"

    def _change(self, ground: ConfinedFolder, arguments: dict[str, Any], agreed: Binding | None) -> str:
        if agreed is not None:
            # Compare before looking for the lines: a different file may not have them.
            require_agreed(self._bind_path(ground, arguments["path"]), agreed, arguments["path"])
        spot, before, after, seen = self._apply(ground, arguments)
        self._hold(ground, spot, agreed)
        check_unchanged(spot, seen)
        replace(spot, after)
        return f"{_one_line(spot.path)} had {count_lines(before)} lines and now has {count_lines(after)}."

    def _show(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        spot, before, after, _ = self._apply(ground, arguments)
        return render_diff(spot.path, before, after)

    def _apply(
        self, ground: ConfinedFolder, arguments: dict[str, Any]
    ) -> tuple[PathEntry, bytes, bytes, os.stat_result]:
        spot = ground.spot(arguments["path"])
        before, seen = self._read_text(ground, spot, self._limits.read_bytes)
        encode_content(arguments["content"], self._limits.write_bytes)
        check_marks(spot.path, before, arguments["content"], self._redact)
        edit = Edit(start=arguments["startLine"], end=arguments["endLine"], content=arguments["content"])
        return spot, before, apply_edit(before, edit), seen


class FsMkdir(_FileTool):
    verb = "make folder"
    spec = _spec("fs_mkdir", Safety.MODERATE, "Make a folder, and those above it that are missing.")

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        ground.make_folders(arguments["path"])
        return f"The folder {_one_line(arguments['path'])} is there."


class FsDelete(_FileChange):
    verb = "delete"
    spec = _spec(
        "fs_delete",
        Safety.DANGEROUS,
        "Delete a file, or a folder with everything in it. Of a link only the link itself goes.",
    )
    follow = False

    def _change(self, ground: ConfinedFolder, arguments: dict[str, Any], agreed: Binding | None) -> str:
        spot = ground.spot(arguments["path"], follow=False)
        self._hold(ground, spot, agreed)
        gone = remove(ground, spot)
        return f"Deleted {_one_line(arguments['path'])}: {gone.render_counts(', ')}, {gone.size} bytes."

    def _show(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        spot = ground.spot(arguments["path"], follow=False)
        status = check_removable(ground, spot)
        if stat.S_ISDIR(status.st_mode):
            with translate_errors(spot.path):
                gone = count_removal(spot, status)
            return f"{spot.path}/ goes with {gone.render_counts(' in ')}, {gone.size} bytes"
        if not stat.S_ISREG(status.st_mode):
            return f"{spot.path} goes ({stat.filemode(status.st_mode)}); what it leads to stays"
        if status.st_size > self._limits.read_bytes:
            return f"{spot.path} goes, {status.st_size} bytes"
        return render_diff(spot.path, self._read(ground, spot, self._limits.read_bytes)[0], None)


class FsStat(_FileTool):
    verb = "look at"
    spec = _spec("fs_stat", Safety.SAFE, "Say how large a file is, how many lines it has and when it was changed.")

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        path = arguments["path"]
        spot = ground.spot(path)
        status = spot.status()
        if status is None:
            raise NotFound(f"{path} is not there", fix="fs_list shows what is there.")
        lines = 0
        if stat.S_ISREG(status.st_mode) and status.st_size <= self._limits.window_bytes:
            data, status = self._read(ground, spot, self._limits.window_bytes)
            lines = 0 if is_binary(data) else count_lines(data)
        return _to_json(
            {
                "path": path,
                "size": status.st_size,
                "lines": lines,
                "modTime": _format_time(status),
                "isDir": stat.S_ISDIR(status.st_mode),
                "permission": stat.filemode(status.st_mode),
            }
        )


def _entry_data(path: str, entry: os.DirEntry[str]) -> dict[str, Any]:
    name = _decode_name(entry.name)
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        # Deleted since the folder was opened.
        return {"path": os.path.join(path, name), "name": name, "gone": True}
    return {
        "path": os.path.join(path, name),
        "name": name,
        "size": status.st_size,
        "isDir": stat.S_ISDIR(status.st_mode),
        "modTime": _format_time(status),
        "mode": stat.filemode(status.st_mode),
    }


def _decode_name(name: str) -> str:
    r"""Decode a file name as UTF-8; invalid bytes become \xNN."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _one_line(path: object) -> str:
    """Shorten a path to one printable line."""
    shown = _printable(path)
    return shown if len(shown) <= _SHOWN_PATH else f"…{shown[-_SHOWN_PATH:]}"


def _printable(path: object) -> str:
    return "".join(character if character.isprintable() else "�" for character in str(path))


def _format_time(status: os.stat_result) -> str:
    return datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
