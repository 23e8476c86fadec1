"""Tools that change files and folders: fs_write, fs_edit, fs_mkdir and fs_delete. Work with `confined_tool`."""

import os
import stat
from typing import Any

from moot.domain.errors import Conflict, MootError, NotFound
from moot.domain.ports.tool import RunContext
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
from moot.tools.files.change_log import MOST_KEPT, plan_folders, relative_path
from moot.tools.files.confined_paths import ConfinedFolder, PathEntry, translate_errors
from moot.tools.files.confined_tool import ConfinedChange, ConfinedTool, build_spec, shorten_path
from moot.tools.files.edits import read_edit
from moot.tools.files.file_change import Planned
from moot.tools.files.file_state import capture_tree
from moot.tools.files.file_text import (
    SECRET_SHOWN,
    check_marks,
    count_lines,
    decode_text,
    encode_content,
    render_diff,
)

# The most bytes of a file that are shown to an agent that would change it without having read it.
_SHOWN_BYTES = 2_000


class FsWrite(ConfinedChange):
    verb = "write"
    spec = build_spec(
        "fs_write",
        Safety.DANGEROUS,
        "Write a file. An existing file is replaced; missing folders are created.",
        content={"type": "string", "minLength": 0, "description": "The complete content of the file."},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        count = len(str(arguments.get("content", "")))
        return f"{super().line(arguments)} ({count} {'character' if count == 1 else 'characters'})"

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> str:
        path, data = arguments["path"], encode_content(arguments["content"], self._limits.write_bytes)
        parent, place = os.path.dirname(ground.relative(path)), self._bind_path(ground, path)
        if parent and context.agreed is not None:
            require_agreed(place, context.agreed, path)
        planned = [*plan_folders(ground, place.place), self._plan_content(ground, place.place, data)]
        with self._log.record(ground, context, self.spec.name, planned):
            if parent:
                ground.make_folders(parent)
            spot = ground.spot(path)
            self._read_existing(ground, spot, arguments)
            self._hold(ground, spot, context.agreed)
            replace(spot, data)
        self._reads.note(context.key, context.run_id, ground.real(spot), data)
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
        "Change a part of a text file that you have read: replace oldText, which must occur exactly once, by newText; "
        "or the lines startLine to endLine by content.",
        oldText={"type": "string", "description": "The text to replace, with its whitespace.", "optional": True},
        newText={"type": "string", "minLength": 0, "description": "The text that replaces it.", "optional": True},
        startLine={"type": "integer", "description": "First line to replace, counted from 1.", "optional": True},
        endLine={
            "type": "integer",
            "description": "Last line to replace. One past the last line of the file appends.",
            "optional": True,
        },
        content={"type": "string", "minLength": 0, "description": "The new lines.", "optional": True},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        if "oldText" in arguments:
            count = str(arguments["oldText"]).count("\n") + 1
            return f"{super().line(arguments)}, {'a line' if count == 1 else f'{count} lines'}"
        if "startLine" not in arguments or "endLine" not in arguments:
            # Neither form of the call is complete; what is missing is said when it is refused.
            return super().line(arguments)
        return f"{super().line(arguments)}, lines {arguments['startLine']} to {arguments['endLine']}"

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> str:
        if context.agreed is not None:
            # Compare before looking for the lines: a different file may not have them.
            require_agreed(self._bind_path(ground, arguments["path"]), context.agreed, arguments["path"])
        # Who granted the call has seen the very change, and the content it applies to is part of what was granted.
        spot, before, after, seen = self._apply(ground, arguments, None if context.granted else context)
        with self._log.record(ground, context, self.spec.name, [self._plan_content(ground, ground.real(spot), after)]):
            self._hold(ground, spot, context.agreed)
            check_unchanged(spot, seen)
            replace(spot, after)
        self._reads.note(context.key, context.run_id, ground.real(spot), after)
        return f"{shorten_path(spot.path)} had {count_lines(before)} lines and now has {count_lines(after)}."

    def _check_on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> None:
        self._apply(ground, arguments, context)

    def _show(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        spot, before, after, _ = self._apply(ground, arguments, None)
        return render_diff(spot.path, before, after)

    def _apply(
        self, ground: ConfinedFolder, arguments: dict[str, Any], reader: RunContext | None
    ) -> tuple[PathEntry, bytes, bytes, os.stat_result]:
        """Return the file before and after the edit. With a reader, it must have been read in its conversation."""
        edit = read_edit(arguments)
        spot = ground.spot(arguments["path"])
        before, seen = self._read_text(ground, spot, self._limits.read_bytes)
        if reader is not None:
            self._require_read(reader, ground.real(spot), before, spot.path)
        encode_content(edit.content, self._limits.write_bytes)
        check_marks(spot.path, before, edit.content, self._redact)
        return spot, before, edit.apply(before, spot.path), seen

    def _require_read(self, reader: RunContext, place: str, before: bytes, path: str) -> None:
        """Raise unless the file was read as it is. The error contains a short file, which is then read.

        Not if a call of fs_read would have to be approved or granted first.
        """
        try:
            self._reads.require(reader.key, place, before, path)
        except Conflict as error:
            if len(before) > _SHOWN_BYTES or not (reader.has_tool("fs_read") and self._reads_freely()):
                raise
            self._reads.note(reader.key, reader.run_id, place, before)
            shown = f"It contains:\n{decode_text(before)}\nIf the change is still right, make the same call again."
            raise Conflict(error.message, fix=shown) from error


class FsMkdir(ConfinedTool):
    verb = "make folder"
    spec = build_spec("fs_mkdir", Safety.MODERATE, "Create a folder and its missing parent folders.")

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> str:
        planned = plan_folders(ground, os.path.join(ground.missing(arguments["path"]), "."))
        with self._log.record(ground, context, self.spec.name, planned):
            ground.make_folders(arguments["path"])
        return f"The folder {shorten_path(arguments['path'])} exists."


class FsDelete(ConfinedChange):
    verb = "delete"
    spec = build_spec(
        "fs_delete",
        Safety.DANGEROUS,
        "Delete a file, or a folder with everything in it. A link is deleted, not its target.",
    )
    follow = False

    def _is_undoable(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> bool:
        # Of a folder only a part may be kept.
        status = ground.spot(arguments["path"], follow=False).status()
        return status is not None and stat.S_ISREG(status.st_mode)

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> str:
        spot = ground.spot(arguments["path"], follow=False)
        path = relative_path(ground, ground.real(spot))
        try:
            planned = [Planned(path=each.path, after=None) for each in capture_tree(ground, path, MOST_KEPT)]
            lost = ""
        except MootError as error:
            # Too large, or a part of it may not be read; whether it may be deleted is another question.
            planned, lost = [], error.message
        with self._log.record(ground, context, self.spec.name, planned, lost=lost):
            self._hold(ground, spot, context.agreed)
            gone = remove(ground, spot)
        return f"Deleted {shorten_path(arguments['path'])}: {gone.render_counts(', ')}, {gone.size} bytes."

    def _show(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        spot = ground.spot(arguments["path"], follow=False)
        status = check_removable(ground, spot)
        if stat.S_ISDIR(status.st_mode):
            with translate_errors(spot.path):
                gone = count_removal(spot, status)
            return f"deletes {spot.path}/ with {gone.render_counts(' in ')}, {gone.size} bytes"
        if not stat.S_ISREG(status.st_mode):
            return f"deletes {spot.path} ({stat.filemode(status.st_mode)}), not its target"
        if status.st_size > self._limits.read_bytes:
            return f"deletes {spot.path}, {status.st_size} bytes"
        return render_diff(spot.path, self._read(ground, spot, self._limits.read_bytes)[0], None)
