"""File locations of Moot: all under MOOT_HOME, or in the XDG folders."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from moot.domain.errors import Unavailable

# The kernel takes 107 bytes and a NUL; the rest is room for a temporary name beside the socket.
LONGEST_ADDRESS = 100
# A disk with less free bytes than this counts as full.
_LEAST_ROOM = 65_536


class Paths(Struct, frozen=True, kw_only=True):
    """Every path Moot uses. Nothing is created before `make_folder` is called for it."""

    config: Path
    agents: Path
    run: Path
    data: Path
    logs: Path

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> "Paths":
        home = environ.get("MOOT_HOME", "")
        if home:
            return cls.under(Path(home).expanduser().absolute())
        config = _xdg_folder(environ, "XDG_CONFIG_HOME", ".config") / "moot"
        state = _xdg_folder(environ, "XDG_STATE_HOME", ".local/state") / "moot"
        runtime = environ.get("XDG_RUNTIME_DIR", "")
        return cls(
            config=config / "config.toml",
            agents=config / "agents",
            run=Path(runtime) / "moot" if os.path.isabs(runtime) else state / "run",
            data=_xdg_folder(environ, "XDG_DATA_HOME", ".local/share") / "moot",
            logs=state / "logs",
        )

    @classmethod
    def under(cls, home: Path) -> "Paths":
        return cls(
            config=home / "config.toml",
            agents=home / "agents",
            run=home / "run",
            data=home / "data",
            logs=home / "logs",
        )

    @property
    def skills(self) -> Path:
        return self.config.parent / "skills"

    @property
    def tools(self) -> Path:
        return self.config.parent / "tools"

    @property
    def workflows(self) -> Path:
        return self.config.parent / "workflows"

    @property
    def before_restore(self) -> Path:
        """Settings, agents, skills and tools that a restore has replaced."""
        return self.config.parent / "before-restore"

    @property
    def own(self) -> list[Path]:
        """Return Moot's own files, which tools must not access, even if they do not exist yet."""
        own = [self.config, self.agents, self.tools, self.skills, self.data, self.run, self.logs]
        return [*own, self.workflows, self.before_restore]

    @property
    def socket(self) -> Path:
        return self.run / "moot.sock"

    @property
    def pid(self) -> Path:
        return self.run / "moot.pid"

    @property
    def lock(self) -> Path:
        """The lock of the one daemon of this home; beside the store, which it protects."""
        return self.data / "moot.lock"

    @property
    def starting(self) -> Path:
        """The lock of the one command that starts the daemon, held until the daemon answers."""
        return self.run / "starting.lock"

    @property
    def store(self) -> Path:
        return self.data / "moot.db"

    @property
    def models(self) -> Path:
        return self.data / "models"

    @property
    def project_approvals(self) -> Path:
        return self.data / "project-files.json"

    @property
    def workspaces(self) -> Path:
        return self.data / "workspaces"

    @property
    def metrics_token(self) -> Path:
        return self.data / "metrics.token"

    @property
    def restore_plan(self) -> Path:
        """What a restore exchanges; exists while that is not completed."""
        return self.data / "restore.json"

    @property
    def log(self) -> Path:
        return self.logs / "moot.log"

    @property
    def console(self) -> Path:
        """The output of a daemon in the background, and of its child processes such as an embedded model."""
        return self.logs / "console.log"


def make_folder(path: Path) -> Path:
    """Create a folder and its missing parents, accessible to the owner only; existing ones are not changed."""
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise _refused_error(path, error) from error
    if not path.is_dir():
        raise Unavailable(f"{path} is not a folder", fix=f"Move {path} away, or set MOOT_HOME to another folder.")
    if not os.access(path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise _refused_error(path, PermissionError("permission denied"))
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file that only the owner can read, also if it was readable for others before."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(handle, 0o600)
        file.write(text)


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Yield an address for bind or connect within the kernel's length limit, for a path of any length.

    The address is valid inside the `with` only; a socket bound in it stays bound.
    """
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield str(path)
        return
    if not os.path.isdir("/proc/self/fd"):
        raise Unavailable(f"The socket path {path} is too long for this system", fix="Set MOOT_HOME to a shorter path.")
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise Unavailable(f"There is no socket at {path}", fix="Start the daemon with `moot up`.") from error
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _xdg_folder(environ: Mapping[str, str], variable: str, fallback: str) -> Path:
    value = environ.get(variable, "")
    if os.path.isabs(value):
        return Path(value)
    home = environ.get("HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home()) / fallback


def is_full(error: OSError) -> bool:
    """Whether a disk or a quota was full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def explain_full_disk(error: OSError, home: Paths) -> Unavailable:
    """Return the error for a write that failed because a disk was full; it names the folder, if that is known."""
    named = isinstance(error.filename, str) and error.filename
    return full_disk_error(Path(named).parent if named else find_full_folder(home))


def full_disk_error(folder: Path | None) -> Unavailable:
    where = f"Cannot write in {folder}: the" if folder else "The"
    return Unavailable(f"{where} disk or your quota is full", fix="Free some disk space, then try again.")


def find_full_folder(home: Paths) -> Path | None:
    """The first of the folders that are written to whose disk is full."""
    for folder in (home.run, home.data, home.logs):
        existing = next((each for each in (folder, *folder.parents) if each.is_dir()), None)
        if existing is not None and _has_no_room(existing):
            return folder
    return None


def _has_no_room(folder: Path) -> bool:
    room = os.statvfs(folder)
    # Some file systems do not count files and report 0 for both numbers.
    return room.f_bavail * room.f_frsize < _LEAST_ROOM or (room.f_files > 0 and room.f_favail == 0)


def _refused_error(path: Path, error: OSError) -> Unavailable:
    if is_full(error):
        return full_disk_error(path)
    return Unavailable(
        f"Cannot write in {path}: {error.strerror or error}",
        fix="Make the folder writable, free some disk space, or set MOOT_HOME to a folder of your own.",
    )
