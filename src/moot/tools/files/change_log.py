"""The log of what the file tools changed: makes a change of several files atomic, and undoes and redoes changes.

A change is written down before it is made, with the content of every file before and after it. After a crash in the
middle `recover` takes it back; a change that was made completely stays.
"""

import contextlib
import logging
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock

import msgspec
from msgspec.structs import replace

from moot.domain.config import FilesConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, MootError, NotFound, TooLarge
from moot.domain.ports.tool import RunContext
from moot.failpoint import reach
from moot.tools.files.confined_paths import ConfinedFolder, translate_errors
from moot.tools.files.contents import Contents, ContentSeal, write_whole
from moot.tools.files.file_change import FileChange, Moved, PathChange, Planned, UndoRequest
from moot.tools.files.file_state import FOLDER, Captured, FileState, capture, capture_all, check_folder, put
from moot.tools.files.file_text import DiffBudget, render_diff
from moot.tools.files.off_limits import OffLimits

logger = logging.getLogger(__name__)

_MOST_CHANGES = 1_000
# The contents before one change that are kept at most.
MOST_KEPT = 64 << 20
_NAMED = 3


class ChangeLog:
    """One file for each change and one for each content, beneath a folder of Moot's own."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: Callable[[], FilesConfig],
        now: Callable[[], float],
        seal: ContentSeal,
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._now = now
        self._contents = Contents(folder / "contents", seal)
        # Changes are made one after the other, so that what is checked before a change is still so when it is made.
        self._lock = Lock()
        self._changes: dict[int, FileChange] = {}
        self._last = 0

    def recover(self, off_limits: OffLimits) -> None:
        """Read the log, and take back what a crash left half done."""
        with self._lock:
            for place in sorted(self._folder.glob("*.json")):
                try:
                    change = msgspec.json.decode(place.read_bytes(), type=FileChange)
                except (msgspec.DecodeError, OSError):
                    logger.warning("%s is not a change of files and is left out", place)
                    continue
                self._changes[change.number] = change
            self._last = max((0, *self._changes, *(change.moved for change in self._changes.values())))
            for change in [each for each in self._changes.values() if each.is_moving]:
                self._settle(change, off_limits)
            for part in self._folder.glob(".*.part"):
                part.unlink(missing_ok=True)
            self._collect()

    @contextlib.contextmanager
    def record(
        self,
        ground: ConfinedFolder,
        context: RunContext,
        tool: str,
        planned: Sequence[Planned],
        *,
        lost: str = "",
        must_keep: bool = False,
    ) -> Iterator[None]:
        """Write down a change, let it be made, and take it back if that fails.

        `lost` says why it cannot be undone; with `must_keep` a change that could not be taken back is refused.
        """
        with self._lock:
            with translate_errors("the log of file changes"):
                change = self._prepare(ground, context, tool, () if lost else planned, lost)
                if must_keep and change.lost:
                    raise TooLarge(f"the change is too large: {change.lost}", fix="Make it in several parts.")
                self._save(change)
            try:
                yield
            except BaseException:
                self._revert(ground, change)
                raise
            self._save(replace(change, is_made=True, is_moving=False, is_new=False), durably=False)
            self._tidy()

    def make(self, ground: ConfinedFolder, context: RunContext, tool: str, planned: Sequence[Planned]) -> None:
        """Make a change of several files, all of it or nothing."""
        with self.record(ground, context, tool, planned, must_keep=True):
            for each in planned:
                reach("files.changing")
                put(ground, each.path, each.after, each.data)

    def move(self, wanted: UndoRequest, off_limits: OffLimits) -> Moved:
        """Undo or redo a change. Raises Conflict where a file is not what the change left, unless that is forced."""
        with self._lock:
            change = self._find(wanted)
            if change.lost:
                fix = "Restore it from a backup; --force undoes the change before it."
                raise Conflict(f"the change cannot be undone: {change.lost}", fix=fix)
            if not os.path.isdir(change.cwd):
                raise Conflict(f"the working directory {change.cwd} is gone", fix="Make it again, then undo.")
            with ConfinedFolder(change.cwd, off_limits) as ground:
                _check_folders(ground, change)
                now = capture_all(ground, (each.path for each in change.paths), MOST_KEPT)
                differing = [
                    one.path for one, each in zip(now, change.paths, strict=True) if not _is_at(one, each, change)
                ]
                if differing and not wanted.is_forced:
                    raise _changed_error(differing, wanted)
                diff = self._render(change, now)
                if not wanted.is_dry:
                    change = self._carry_out(
                        ground, change, self._keep_overwritten(change, now) if differing else change
                    )
            return Moved(change=change, diff=diff)

    def has_created(self, root_id: str, place: str) -> bool:
        """Whether a run of this tree created the file at a real path."""
        with self._lock:
            return any(
                each.before is None and os.path.join(change.cwd, each.path) == place
                for change in self._changes.values()
                if change.is_made and root_id in (change.run_id, change.root_id)
                for each in change.paths
            )

    def forget(self, key: ConversationKey) -> None:
        """Delete what is kept of a conversation."""
        with self._lock:
            for change in [each for each in self._changes.values() if each.key == key]:
                self._drop(change)
            self._collect()

    def clear(self) -> None:
        """Delete everything that is kept."""
        with self._lock:
            for place in self._folder.glob("*.json"):
                place.unlink(missing_ok=True)
            self._changes = {}
            self._collect()

    def tidy(self) -> None:
        with self._lock:
            self._tidy()

    # ---- one change ------------------------------------------------------------------------------

    def _prepare(
        self, ground: ConfinedFolder, context: RunContext, tool: str, planned: Sequence[Planned], lost: str
    ) -> FileChange:
        """Store the contents and return the change as it is to be written down."""
        paths: list[PathChange] = []
        room = MOST_KEPT
        try:
            for each in planned:
                before = capture(ground, each.path, room)
                room -= len(before.data)
                self._keep(before.state, before.data)
                # Needed only to make the change again after it was undone.
                self._keep(each.after, each.data, durably=False)
                paths.append(PathChange(path=each.path, before=before.state, after=each.after))
        except MootError as error:
            # Too large, or of a kind or in a place that is not read.
            paths, lost = [], error.message
        root = context.asks_in
        self._advance()
        return FileChange(
            number=self._last,
            agent=root.agent,
            sender=root.sender,
            run_id=context.run_id,
            root_id=context.root_id,
            tool=tool,
            cwd=ground.real(ground.spot(".")),
            at=self._now(),
            paths=tuple(paths),
            moved=self._last,
            lost=lost,
            by=context.key.agent,
        )

    def _keep(self, state: FileState | None, data: bytes, *, durably: bool = True) -> None:
        if state is not None and state.kind == "file":
            self._contents.put(data, durably=durably)

    def _carry_out(self, ground: ConfinedFolder, stored: FileChange, change: FileChange) -> FileChange:
        """Make the files what they are on the other side of the change; on failure it stays as it was stored."""
        self._advance()
        moving = replace(change, is_moving=True)
        self._save(moving)
        try:
            for each in reversed(change.paths) if change.is_made else change.paths:
                reach("files.changing")
                self._put(ground, each.path, each.before if change.is_made else each.after)
        except BaseException:
            self._revert(ground, moving, stored)
            raise
        moved = replace(change, is_made=not change.is_made, moved=self._last)
        self._save(moved)
        return moved

    def _keep_overwritten(self, change: FileChange, now: Sequence[Captured]) -> FileChange:
        """Return the change with what is there now as the side that is left, so that the way back restores it."""
        paths = []
        for one, each in zip(now, change.paths, strict=True):
            self._keep(one.state, one.data)
            paths.append(replace(each, after=one.state) if change.is_made else replace(each, before=one.state))
        return replace(change, paths=tuple(paths))

    def _put(self, ground: ConfinedFolder, path: str, state: FileState | None) -> None:
        data = self._contents.get(state.content) if state is not None and state.kind == "file" else b""
        put(ground, path, state, data)

    def _settle(self, change: FileChange, off_limits: OffLimits) -> None:
        """Finish a change that a crash interrupted: it counts as made if all of it was, otherwise it is taken back."""
        try:
            with ConfinedFolder(change.cwd, off_limits) as ground:
                turned = replace(change, is_made=not change.is_made)
                now = capture_all(ground, (each.path for each in change.paths), MOST_KEPT)
                if not change.lost and all(_is_at(*pair, turned) for pair in zip(now, change.paths, strict=True)):
                    self._save(replace(turned, is_moving=False, is_new=False))
                else:
                    self._revert(ground, change)
        except MootError as error:
            logger.warning("change %s of files cannot be taken back: %s", change.number, error.message)
            self._drop(change)

    def _revert(self, ground: ConfinedFolder, change: FileChange, stored: FileChange | None = None) -> None:
        """Bring the paths back to where the change began; what somebody else has changed meanwhile is left alone."""
        turned = replace(change, is_made=not change.is_made)
        for each in change.paths if change.is_made else reversed(change.paths):
            with contextlib.suppress(MootError):
                if _is_at(capture(ground, each.path, MOST_KEPT), each, turned):
                    self._put(ground, each.path, each.after if change.is_made else each.before)
        if change.is_new:
            self._drop(change)
        else:
            self._save(stored or replace(change, is_moving=False))

    def _render(self, change: FileChange, now: Sequence[Captured]) -> str:
        """Return the difference between what is there and what is going to be."""
        shown = []
        budget = DiffBudget()
        for one, each in zip(now, change.paths, strict=True):
            goal = each.before if change.is_made else each.after
            if goal is not None and goal.kind == "file":
                old = one.data if one.state is not None and one.state.kind == "file" else None
                shown.append(render_diff(each.path, old, self._contents.get(goal.content), budget))
            elif goal is not None:
                shown.append(f"{each.path}: a {goal.kind} comes back")
            elif one.state is not None and one.state.kind == "file":
                shown.append(render_diff(each.path, one.data, None))
            elif one.state is not None:
                shown.append(f"{each.path}: the {one.state.kind} goes")
        return "\n".join(shown)

    # ---- the log ---------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Take the next number. It follows the clock, so that two daemons that share the folder take different ones."""
        self._last = max(self._last + 1, int(self._now() * 1e6))

    def _find(self, wanted: UndoRequest) -> FileChange:
        found = [
            change
            for change in self._changes.values()
            if change.is_made != wanted.is_redo
            and not change.is_moving
            and not (change.lost and wanted.is_forced)
            and _is_of(change, wanted)
        ]
        if not found:
            what = "redo" if wanted.is_redo else "undo"
            raise NotFound(f"there is nothing to {what}", fix="Only changes by the file tools can be undone.")
        return max(found, key=lambda change: change.moved)

    def _save(self, change: FileChange, *, durably: bool = True) -> None:
        place = self._folder / f"{change.number:020}.json"
        # If the end of a change is lost in a crash, `recover` finds from the files that it was made.
        write_whole(place, msgspec.json.encode(change), durably=durably)
        self._changes[change.number] = change

    def _drop(self, change: FileChange) -> None:
        (self._folder / f"{change.number:020}.json").unlink(missing_ok=True)
        self._changes.pop(change.number, None)

    def _tidy(self) -> None:
        """Drop the oldest changes beyond the limits of age, number and size."""
        limits = self._limits()
        oldest = self._now() - limits.undo_seconds
        kept = size = 0
        dropped: list[FileChange] = []
        for change in sorted(self._changes.values(), key=lambda each: -each.number):
            size += sum(state.size for each in change.paths for state in (each.before, each.after) if state is not None)
            if change.is_moving or (change.at >= oldest and kept < _MOST_CHANGES and size <= limits.undo_bytes):
                kept += 1
            else:
                dropped.append(change)
        for change in dropped:
            self._drop(change)
        if dropped:
            self._collect()

    def _collect(self) -> None:
        states = (
            state for change in self._changes.values() for each in change.paths for state in (each.before, each.after)
        )
        self._contents.keep_only({state.content for state in states if state is not None and state.kind == "file"})


def _is_of(change: FileChange, wanted: UndoRequest) -> bool:
    if wanted.run_id:
        return any(run.startswith(wanted.run_id) for run in (change.run_id, change.root_id) if run)
    return wanted.key is None or change.key == wanted.key


def _is_at(now: Captured, each: PathChange, change: FileChange) -> bool:
    """Whether a path is what the change, as it stands, has made of it."""
    expected = each.after if change.is_made else each.before
    return now.state is None if expected is None else expected.is_same(now.state)


def _check_folders(ground: ConfinedFolder, change: FileChange) -> None:
    """Raise Conflict if a path that is to be restored has lost its folder, and the change does not restore that too."""
    own = {each.path for each in change.paths}
    for each in change.paths:
        goal = each.before if change.is_made else each.after
        if goal is not None and os.path.dirname(each.path) not in own:
            check_folder(ground, each.path)


def _changed_error(paths: Sequence[str], wanted: UndoRequest) -> Conflict:
    named = ", ".join(paths[:_NAMED]) + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")
    # With the same target: without it the newest change of any conversation would be overwritten.
    undo = shlex.join(["undo", *_name_target(wanted)])
    forced, back = (f"{undo} --redo --force", undo) if wanted.is_redo else (f"{undo} --force", f"{undo} --redo")
    return Conflict(
        f"{named} changed since, so nothing was done",
        fix=f"`moot {forced}` overwrites it, with --dry-run it shows how; `moot {back}` takes that back.",
    )


def _name_target(wanted: UndoRequest) -> list[str]:
    if wanted.run_id:
        return [wanted.run_id]
    return [] if wanted.key is None else [wanted.key.agent, "--as", wanted.key.sender]


def plan_folders(ground: ConfinedFolder, place: str) -> list[Planned]:
    """Return the folders above a real path that are missing, outermost first."""
    top = ground.real(ground.spot("."))
    parts = os.path.relpath(os.path.dirname(place), top).split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    return [Planned(path=path, after=FOLDER) for path in above if not os.path.lexists(os.path.join(top, path))]


def relative_path(ground: ConfinedFolder, place: str) -> str:
    """Return a real path as it is named from the working directory."""
    return os.path.relpath(place, ground.real(ground.spot(".")))
