"""fs_patch: changes several files in one call, all or nothing. Works with `edits` and `change_log`."""

import stat
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from moot.domain.ask import Binding
from moot.domain.errors import BadRequest, Conflict, MootError, NotFound, TooLarge
from moot.domain.ports.tool import RunContext
from moot.domain.prompt import Safety, ToolSpec
from moot.tools.files.change import check_writable, require_agreed
from moot.tools.files.change_log import MOST_KEPT, plan_folders, relative_path
from moot.tools.files.confined_paths import ConfinedFolder
from moot.tools.files.confined_tool import ConfinedChange, join_bindings, shorten_path
from moot.tools.files.edits import TextEdit, read_edit
from moot.tools.files.file_change import Planned
from moot.tools.files.file_state import state_of_content
from moot.tools.files.file_text import DiffBudget, check_marks, encode_content, render_diff

_MOST_CHANGES = 100
_WAYS = ("oldText", "content", "delete", "moveTo")


class _File(Struct, kw_only=True):
    """A file on its way through the patch. `before` and `after` are None where there is no file."""

    path: str
    place: str
    before: bytes | None
    after: bytes | None
    mode: int = 0
    # Where its content was, if it was renamed.
    origin: "_File | None" = None
    is_moved: bool = False


class _Patch(Struct):
    """The files of a patch by their real path, in the order they are named."""

    files: dict[str, _File] = field(default_factory=dict)

    def check_size(self) -> None:
        """Raise TooLarge for contents that could not be kept to take the patch back."""
        size = sum(len(file.before or b"") + len(file.after or b"") for file in self.files.values())
        if size > 2 * MOST_KEPT:
            raise TooLarge("the files of the patch are too large together", fix="Make several patches.")

    def list_changed(self) -> list[_File]:
        return [file for file in self.files.values() if file.before != file.after]


class FsPatch(ConfinedChange):
    verb = "patch"
    spec = ToolSpec(
        name="fs_patch",
        safety=Safety.DANGEROUS,
        group="fs",
        description="Change several files in one step, all or nothing. Files to edit must have been read.",
        parameters={
            "type": "object",
            "properties": {
                "changes": {
                    "type": "array",
                    "description": "Each has a path and one of: oldText (occurs exactly once) with newText, content "
                    "(the whole file, new or replaced), delete, moveTo (a new path).",
                    "items": {
                        "type": "object",
                        "properties": {
                            "path": {"type": "string"},
                            "oldText": {"type": "string"},
                            "newText": {"type": "string"},
                            "content": {"type": "string"},
                            "delete": {"type": "boolean"},
                            "moveTo": {"type": "string"},
                        },
                        "required": ["path"],
                    },
                }
            },
            "required": ["changes"],
        },
    )

    def line(self, arguments: dict[str, Any]) -> str:
        changes = arguments.get("changes")
        named = [str(each.get("path", "")) for each in changes or () if isinstance(each, dict)]
        return f"{self.verb} {', '.join(dict.fromkeys(named))}"

    def _on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> str:
        if context.agreed is not None:
            require_agreed(join_bindings(self._bind_paths(ground, arguments)), context.agreed, "a file of the patch")
        patch = self._build(ground, arguments, None if context.granted else context)
        changed = patch.list_changed()
        planned = [folder for file in changed if file.after is not None for folder in plan_folders(ground, file.place)]
        for file in sorted(changed, key=lambda file: file.after is None):
            state = None if file.after is None else state_of_content(file.after, file.mode)
            planned.append(Planned(path=relative_path(ground, file.place), after=state, data=file.after or b""))
        self._log.make(ground, context, self.spec.name, list({each.path: each for each in planned}.values()))
        for file in changed:
            if file.after is not None:
                self._reads.note(context.key, context.run_id, file.place, file.after)
        return "\n".join(_tell(file) for file in changed) or "Nothing changed."

    def _check_on(self, ground: ConfinedFolder, arguments: dict[str, Any], context: RunContext) -> None:
        self._build(ground, arguments, context)

    def _bind_paths(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> list[Binding]:
        return [self._bind_path(ground, path) for path in _paths(arguments["changes"])]

    def _preview(self, arguments: dict[str, Any], cwd: str) -> str:
        try:
            with ConfinedFolder(cwd, self._off_limits) as ground:
                targets = [self._render_target(ground, path) for path in _paths(arguments["changes"])]
                return "".join(targets) + self._show(ground, arguments)
        except MootError as error:
            return f"This will fail: {error.message}."

    def _show(self, ground: ConfinedFolder, arguments: dict[str, Any]) -> str:
        changed = self._build(ground, arguments, None).list_changed()
        budget = DiffBudget()
        return "\n".join(_render(file, budget) for file in changed if not file.is_moved)

    def _build(self, ground: ConfinedFolder, arguments: dict[str, Any], reader: RunContext | None) -> _Patch:
        """Apply the changes to the contents, in order, without touching a file."""
        changes = arguments["changes"]
        if not changes or len(changes) > _MOST_CHANGES:
            raise BadRequest(
                f"a patch has 1 to {_MOST_CHANGES} changes", fix="Give the changes, or make several patches."
            )
        patch = _Patch()
        for number, change in enumerate(changes, 1):
            way = _read_way(change, number)
            # Checked at each step, so that no more than this is ever in memory.
            patch.check_size()
            file = self._load(ground, patch, change["path"])
            if way == "oldText":
                self._edit(file, change, reader)
            elif way == "content":
                check_marks(file.path, file.after or b"", change["content"], self._redact)
                file.after = encode_content(change["content"], self._limits.write_bytes)
            elif file.after is None:
                raise NotFound(f"there is no file {file.path}", fix="fs_glob finds files.")
            elif way == "delete":
                file.after = None
            else:
                self._rename(file, self._load(ground, patch, change["moveTo"]))
        return patch

    def _load(self, ground: ConfinedFolder, patch: _Patch, path: str) -> _File:
        try:
            spot = ground.spot(path)
        except NotFound:
            place, before, mode = ground.missing(path), None, 0
        else:
            place, status = ground.real(spot), spot.status()
            check_writable(spot, status)
            if place in patch.files:
                return patch.files[place]
            with ground.passing():
                before = None if status is None else self._read(ground, spot, self._limits.read_bytes)[0]
            mode = 0 if status is None else stat.S_IMODE(status.st_mode) & 0o777
        return patch.files.setdefault(place, _File(path=path, place=place, before=before, after=before, mode=mode))

    def _edit(self, file: _File, change: Mapping[str, Any], reader: RunContext | None) -> None:
        edit = read_edit(change)
        assert isinstance(edit, TextEdit)
        if file.after is None:
            raise NotFound(f"there is no file {file.path}", fix="fs_glob finds files.")
        if reader is not None and file.before is not None and file.after == file.before:
            self._reads.require(reader.key, file.place, file.before, file.path)
        encode_content(edit.content, self._limits.write_bytes)
        check_marks(file.path, file.after, edit.content, self._redact)
        file.after = edit.apply(file.after, file.path)

    def _rename(self, file: _File, target: _File) -> None:
        if target.after is not None:
            raise Conflict(f"{target.path} already exists", fix="Delete it first, or choose another path.")
        target.after, target.mode = file.after, file.mode
        target.origin, file.after, file.is_moved = file, None, True


def _read_way(change: object, number: int) -> str:
    """Return what a change does. Raises BadRequest unless it is exactly one thing."""
    if not isinstance(change, dict) or not isinstance(change.get("path"), str) or not change["path"]:
        raise BadRequest(f"change {number} has no path", fix="Nothing was changed.")
    given = {name: value for name, value in change.items() if value is not None and value is not False}
    ways = [name for name in _WAYS if name in given]
    if len(ways) != 1:
        raise BadRequest(f"change {number} must have exactly one of {', '.join(_WAYS)}", fix="Nothing was changed.")
    texts = [given[name] for name in ("oldText", "newText", "content", "moveTo") if name in given]
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest(f"change {number}: texts must be of type string", fix="Nothing was changed.")
    return ways[0]


def _paths(changes: Sequence[Any]) -> list[str]:
    """Return every path that the changes name, each once."""
    named = [each.get(name) for each in changes if isinstance(each, dict) for name in ("path", "moveTo")]
    return list(dict.fromkeys(path for path in named if isinstance(path, str) and path))


def _render(file: _File, budget: DiffBudget) -> str:
    if file.origin is None:
        return render_diff(file.path, file.before, file.after, budget)
    text = f"{file.origin.path} is renamed to {file.path}"
    before = file.origin.before
    return text if before == file.after else f"{text}\n{render_diff(file.path, before, file.after, budget)}"


def _tell(file: _File) -> str:
    path = shorten_path(file.path)
    if file.is_moved:
        return f"{path} is gone."
    if file.after is None:
        return f"Deleted {path}."
    verb = "Created" if file.before is None else "Changed"
    return f"{verb} {path}, {len(file.after)} bytes."
