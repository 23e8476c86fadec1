"""Values of the log of file changes: a change, what is planned, and which one is to be undone. Used by `change_log`."""

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.tools.files.file_state import FileState


class PathChange(Struct, frozen=True, kw_only=True):
    """One path of a change, relative to its working directory."""

    path: str
    before: FileState | None
    after: FileState | None


class FileChange(Struct, frozen=True, kw_only=True):
    """What one call of a file tool changed. `is_made` says whether it is in the files or undone."""

    number: int
    # The conversation that it belongs to.
    agent: str
    sender: str
    run_id: str
    root_id: str
    tool: str
    cwd: str
    at: float
    paths: tuple[PathChange, ...]
    is_made: bool = False
    # It is about to become the opposite of `is_made`.
    is_moving: bool = True
    # It has been made before, so there is something to come back to.
    is_new: bool = True
    # Grows with every undo and redo.
    moved: int = 0
    # Why it cannot be undone.
    lost: str = ""
    # The agent whose call it was; empty in a log of before this was recorded.
    by: str = ""

    @property
    def key(self) -> ConversationKey:
        return ConversationKey(self.agent, self.sender)


class Planned(Struct, frozen=True, kw_only=True):
    """What a path is going to be."""

    path: str
    after: FileState | None
    data: bytes = b""


class UndoRequest(Struct, frozen=True, kw_only=True):
    """Which change to undo or redo: the newest, of a conversation or a run if one is given."""

    key: ConversationKey | None = None
    run_id: str = ""
    is_redo: bool = False
    is_forced: bool = False
    is_dry: bool = False


class Moved(Struct, frozen=True, kw_only=True):
    """A change that was undone or redone, or would be, and the difference that makes."""

    change: FileChange
    diff: str
