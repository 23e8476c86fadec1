"""Tools that change files and folders: fs_write, fs_edit, fs_mkdir and fs_delete. Work with `confined_tool`."""

import os
import stat
from typing import Any

from moot.domain.ask import Binding
from moot.domain.errors import NotFound
from moot.domain.prompt import Safety
from moot.tools.files.change import (
    check_removable,
    check_unchanged,
    check_writable,
    count_removal,
    remove,
    replace,
    require_agreed,
)
from moot.tools.files.confined_paths import ConfinedFolder, PathEntry, translate_errors
from moot.tools.files.confined_tool import ConfinedChange, ConfinedTool, build_spec, shorten_path
from moot.tools.files.file_text import (
    SECRET_SHOWN,
    Edit,
    apply_edit,
    check_marks,
    count_lines,
    encode_content,
    render_diff,
)


class FsWrite(ConfinedChange):
    verb = "write"
    spec = build_spec(
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
        return f"Wrote {len(data)} bytes to {shorten_path(path)}."

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


class FsEdit(ConfinedChange):
    verb = "edit"
    spec = build_spec(
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
        return f"{shorten_path(spot.path)} had {count_lines(before)} lines and now has {count_lines(after)}."

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


class FsMkdir(ConfinedTool):
    verb = "make folder"
    spec = build_spec("fs_mkdir", Safety.MODERATE, "Make a folder, and those above it that are missing.")

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        ground.make_folders(arguments["path"])
        return f"The folder {shorten_path(arguments['path'])} is there."


class FsDelete(ConfinedChange):
    verb = "delete"
    spec = build_spec(
        "fs_delete",
        Safety.DANGEROUS,
        "Delete a file, or a folder with everything in it. Of a link only the link itself goes.",
    )
    follow = False

    def _change(self, ground: ConfinedFolder, arguments: dict[str, Any], agreed: Binding | None) -> str:
        spot = ground.spot(arguments["path"], follow=False)
        self._hold(ground, spot, agreed)
        gone = remove(ground, spot)
        return f"Deleted {shorten_path(arguments['path'])}: {gone.render_counts(', ')}, {gone.size} bytes."

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
