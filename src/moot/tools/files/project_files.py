"""Reads the instruction files of a project (AGENTS.md, CLAUDE.md) and its git branch, by the safe open of file tools.

Used for the framing of runs and by `moot project`. `project_approvals` knows which texts the owner has approved.
"""

import asyncio
import hashlib
import os
import platform
import re
import time
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from moot.domain.errors import MootError
from moot.domain.project import Project, ProjectFile
from moot.domain.text import clean
from moot.tools.files.confined_paths import ConfinedFolder
from moot.tools.files.file_text import decode_text, is_binary
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.private_places import homes
from moot.tools.files.project_approvals import ProjectApprovals
from moot.tools.files.project_stamps import KeptProjects

NAMES = ("AGENTS.md", "CLAUDE.md")
_MOST_FOLDERS = 32
# A longer file is not an instruction.
_MOST_FILE = 1_048_576
_HEAD_BYTES = 1_024
_BRANCH = re.compile(r"ref: refs/heads/([A-Za-z0-9._/+@#-]{1,200})\s*")
_GIT_LINK = re.compile(r"gitdir: (.{1,4000})\s*")


class ProjectReader:
    """`max_bytes` is how much of all files together is read for one run, nearest first.

    What was read is kept until a file changes or `edition` returns something else. Nothing is read in `workspaces`.
    """

    def __init__(
        self,
        *,
        off_limits: Callable[[], OffLimits],
        approvals: ProjectApprovals,
        max_bytes: Callable[[], int],
        redact: Callable[[str], str] = str,
        edition: Callable[[], object] = object,
        workspaces: str = "",
    ) -> None:
        self._off_limits = off_limits
        self._approvals = approvals
        self._max_bytes = max_bytes
        self._redact = redact
        system = " ".join(filter(None, (platform.system(), platform.machine())))
        self._machine = Project(system=system, zone=_find_zone())
        self._zone_edition = _zone_edition()
        self._edition = edition
        self._workspaces = workspaces or "/"
        self._kept = KeptProjects()

    async def __call__(self, cwd: str, *, with_files: bool) -> Project:
        if not cwd or _is_within(cwd, self._workspaces):
            return self._find_machine()
        # Most turns find nothing changed; that takes a few calls of stat and no thread.
        edition = (self._find_machine().zone, self._edition())
        kept = self._kept.find(cwd, edition, with_files=with_files)
        if kept is not None:
            return kept
        return await asyncio.to_thread(self._read_and_keep, cwd, edition, with_files=with_files)

    def _read_and_keep(self, cwd: str, edition: object, *, with_files: bool) -> Project:
        def read() -> tuple[Project, list[str]]:
            return self.read(cwd, with_files=with_files), [cwd, self._approvals.place, *_list_sources(cwd)]

        return self._kept.read(cwd, edition, read, with_files=with_files)

    def _find_machine(self) -> Project:
        """Return what is known without a project."""
        edition = _zone_edition()
        if edition != self._zone_edition:
            # The C library reads the zone once, and would go on to tell the time of the old one.
            time.tzset()
            self._machine, self._zone_edition = replace(self._machine, zone=_find_zone()), edition
        return self._machine

    def read(self, cwd: str, *, with_files: bool = True) -> Project:
        """Return what is known of the project. What cannot be read safely is left out."""
        machine = self._find_machine()
        off_limits = self._off_limits()
        if not cwd or _is_within(os.path.realpath(cwd), os.path.realpath(off_limits.workspaces or "/")):
            # Only agents write in the folder of a conversation: nothing there is the owner's instruction.
            return machine
        root = find_root(cwd)
        try:
            with ConfinedFolder(root, off_limits) as ground:
                files = self._read_files(ground, os.path.relpath(os.path.realpath(cwd), root)) if with_files else ()
                return replace(machine, files=files, branch=_read_branch(ground, root))
        except MootError:
            return machine

    def _read_files(self, ground: ConfinedFolder, inside: str) -> tuple[ProjectFile, ...]:
        left = self._max_bytes()
        found: dict[str, ProjectFile] = {}
        for folder in _list_folders(inside):
            for name in NAMES:
                path = os.path.normpath(os.path.join(folder, name))
                read = self._read_file(ground, path, os.path.relpath(path, inside), left)
                # A link to the other file, or a copy of it, is the same text.
                if read is not None and read.digest not in found:
                    found[read.digest] = read
                    left -= len(read.text.encode())
        return tuple(found.values())

    def _read_file(self, ground: ConfinedFolder, path: str, shown: str, left: int) -> ProjectFile | None:
        try:
            with ground.passing():
                file, status = ground.open_file(ground.spot(path))
                data = os.read(file, _MOST_FILE + 1)
        except (MootError, OSError):
            return None
        if len(data) > _MOST_FILE or is_binary(data) or not data.strip():
            return None
        whole = hashlib.sha256(data).hexdigest()
        text = data[: max(0, left)].decode(errors="ignore") if len(data) > left else decode_text(data)
        return ProjectFile(
            path=shown,
            text=self._redact(clean(text)),
            digest=whole,
            size=status.st_size,
            is_cut=len(data) > left,
            is_approved=self._approvals.includes(whole),
        )


def find_root(cwd: str) -> str:
    """Return the folder of the git repository around a folder; the folder itself if there is none."""
    start = os.path.realpath(cwd)
    last = _list_above(start)[-1]
    return last if os.path.lexists(os.path.join(last, ".git")) else start


def _list_above(start: str) -> list[str]:
    """Return the folders in which a repository is looked for: the folder and those above it, up to the repository.

    Folders of other users are not looked at: whoever can write above the project could pretend to be part of it.
    """
    folder, stops = start, {"/", *homes()}
    found: list[str] = []
    while len(found) < _MOST_FOLDERS and _is_own(folder):
        found.append(folder)
        if folder in stops or os.path.lexists(os.path.join(folder, ".git")):
            break
        folder = os.path.dirname(folder)
    return found or [start]


def _list_folders(inside: str) -> list[str]:
    """Return a folder of a repository and those above it, each relative to the repository."""
    if inside == ".":
        return ["."]
    return [os.path.normpath(os.path.join(inside, *[".."] * up)) for up in range(len(inside.split(os.sep)) + 1)]


def _list_sources(cwd: str) -> Iterator[str]:
    """Yield the files and folders that decide what is read of a project, also those that do not exist."""
    start = os.path.realpath(cwd)
    for folder in _list_above(start):
        yield os.path.join(folder, ".git")
    root = find_root(cwd)
    yield os.path.join(root, ".git", "HEAD")
    if linked := _find_linked_head(root):
        yield linked
    for folder in _list_folders(os.path.relpath(start, root)):
        yield from (os.path.normpath(os.path.join(root, folder, name)) for name in NAMES)


def _is_own(folder: str) -> bool:
    try:
        return os.lstat(folder).st_uid == os.geteuid()
    except OSError:
        return False


def _read_branch(ground: ConfinedFolder, root: str) -> str:
    """Return the current branch; empty if there is none or it has an odd name."""
    try:
        with ground.passing():
            file, _ = ground.open_file(ground.spot(".git/HEAD"))
            head = os.read(file, _HEAD_BYTES)
    except (MootError, OSError):
        linked = _find_linked_head(root)
        head = _read_small(linked) if linked else b""
    match = _BRANCH.fullmatch(head.decode(errors="replace"))
    return match[1] if match else ""


def _find_linked_head(root: str) -> str:
    """Return HEAD of a worktree, whose .git is a file that names a folder. Only a branch's name is taken from it."""
    link = _read_small(os.path.join(root, ".git"))
    match = _GIT_LINK.fullmatch(link.decode(errors="replace"))
    return os.path.join(root, match[1].strip(), "HEAD") if match else ""


def _read_small(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(file, _HEAD_BYTES)
    except OSError:
        return b""
    finally:
        os.close(file)


def _find_zone() -> str:
    """Return the name of the time zone, such as Europe/Berlin."""
    named = os.environ.get("TZ", "").removeprefix(":") or os.path.realpath("/etc/localtime").rpartition("zoneinfo/")[2]
    return named if re.fullmatch(r"[A-Za-z0-9_+/-]{1,64}", named) and not named.startswith("/") else time.tzname[0]


def _zone_edition() -> object:
    """Return something that changes with the time zone. A file that is linked is replaced to change it."""
    try:
        return os.environ.get("TZ"), os.lstat("/etc/localtime").st_mtime_ns
    except OSError:
        return os.environ.get("TZ")


def _is_within(path: str, folder: str) -> bool:
    return folder != "/" and (path == folder or path.startswith(f"{folder}/"))
