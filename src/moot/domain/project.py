"""Project: what a run is told of the project in its working directory. Read by tools/files/project_files.py. Pure."""

from msgspec import Struct

# The source of untrusted text that instruction files are until the owner has approved them.
PROJECT_TAINT = "project"


class ProjectFile(Struct, frozen=True, kw_only=True):
    """An instruction file of a project. `path` is relative to the working directory, `digest` is of the whole text."""

    path: str
    text: str
    digest: str
    # Bytes of the whole file; `text` may be only its beginning.
    size: int = 0
    is_cut: bool = False
    # Whether the owner has approved exactly this text.
    is_approved: bool = False


class Project(Struct, frozen=True, kw_only=True):
    """The instruction files, nearest first, and the git branch; and what is known of the machine."""

    files: tuple[ProjectFile, ...] = ()
    branch: str = ""
    system: str = ""
    # The time zone by name, or "" if only its offset is known.
    zone: str = ""
