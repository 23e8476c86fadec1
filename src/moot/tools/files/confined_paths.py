"""Path lookup confined to a folder: resolves each name once, relative to open directory handles."""

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from types import TracebackType

from msgspec import Struct

from moot.domain.errors import BadRequest, Conflict, Forbidden, MootError, NotFound, StoreError, Unavailable
from moot.tools.files.git_folder import GIT, RepositoryCheck, is_repository
from moot.tools.files.mount_check import MountCheck
from moot.tools.files.off_limits import Identity, OffLimits, file_identity

# The same number on every architecture Python runs on but alpha.
_OPENAT2 = 437
_NO_MAGICLINKS = 0x02
_BENEATH = 0x08
_MOST_LINKS = 40
_MOST_TRIES = 64
_MOST_PARENTS = 1024
_MOST_NAMES = 128
# O_PATH where the system has it: a handle for lookups only.
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_STAY = "Use a path relative to the working directory, such as notes.txt."


class PathEntry(Struct, frozen=True, kw_only=True):
    """A name in an open directory, or "." for the directory itself. The entry need not exist."""

    folder: int
    name: str
    path: str

    def status(self) -> os.stat_result | None:
        """The entry's `lstat` result, or None if it does not exist."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


class ConfinedFolder:
    """An open working directory. Closing it closes every handle opened through it.

    With `kernel`, openat2 resolves paths and follows links that stay inside; without it, every link is refused.
    """

    def __init__(self, path: str, off_limits: OffLimits, *, kernel: bool | None = None) -> None:
        self._path = path
        self._off_limits = off_limits
        self._kernel = kernel_resolves() if kernel is None else kernel
        self._opened = ExitStack()
        self._folder = -1
        self._identity: Identity = (0, 0)
        self._mounts = MountCheck(off_limits)

    def __enter__(self) -> "ConfinedFolder":
        try:
            self._open()
        except BaseException:
            self._opened.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.close()

    def _open(self) -> None:
        if not os.path.isabs(self._path):
            raise Unavailable("this run has no working directory", fix="Give one with --cwd.")
        with translate_errors(self._path):
            self._folder = self._keep(os.open(self._path, _PLACE))
            chain = [file_identity(os.fstat(fd)) for fd in self._upwards(self._folder)]
        self._identity = chain[0]
        if len(chain) == 1:
            raise Forbidden("the working directory is the whole machine", fix="Choose a folder.")
        is_workspace = self._off_limits.exempts(chain)
        if is_workspace:
            self._mounts.trust(self._folder)
        is_off_limits = not is_workspace and bool(self._off_limits.identities() & set(chain))
        if is_off_limits or self._mounts.is_off_limits(self._folder):
            raise Forbidden(f"{self._path} is off limits", fix="Choose another folder.")

    def spot(self, path: str, *, follow: bool = True) -> PathEntry:
        """Look up a path inside the working directory. The last component is followed as a link only if asked."""
        relative = self.relative(path)
        for _ in range(_MOST_LINKS):
            head, name = os.path.split(relative)
            if name in ("", ".", ".."):
                head, name = relative, "."
            with translate_errors(path):
                spot = PathEntry(folder=self._open_folder(head or "."), name=name, path=path)
                self._check(spot)
                target = _link_target(spot) if follow and name != "." else ""
            if not target:
                return spot
            if not self._kernel:
                raise Forbidden(f"{path} is a link, and links are not followed here", fix="Name the file itself.")
            if target.startswith("/"):
                raise _outside_error(path)
            relative = os.path.join(head, target.rstrip("/"))
        raise BadRequest(f"{path} is a loop of links", fix="Name the file itself.")

    def real(self, spot: PathEntry) -> str:
        """The path of the entry with links resolved in every component but the last."""
        folder = _folder_path(spot.folder)
        if not folder:
            return self.plain(spot.path)
        return folder if spot.name == "." else os.path.join(folder, spot.name)

    def missing(self, path: str) -> str:
        """The same for a path whose parent folder does not exist yet."""
        return os.path.realpath(os.path.join(_folder_path(self._folder) or self._path, self.relative(path)))

    def plain(self, path: str) -> str:
        """The path without resolving links."""
        return os.path.normpath(os.path.join(_folder_path(self._folder) or self._path, self.relative(path)))

    def make_folders(self, path: str) -> None:
        """Create a folder and its missing parents."""
        relative = self.relative(path)
        # Checked as a whole before the first folder is created.
        if os.path.normpath(relative).split("/")[0] == "..":
            raise _outside_error(path)
        parts = relative.split("/")
        for count in range(1, len(parts) + 1):
            with self.passing():
                self._make_folder(self.spot("/".join(parts[:count])))

    def _make_folder(self, spot: PathEntry) -> None:
        status = spot.status()
        if status is not None and not stat.S_ISDIR(status.st_mode):
            raise Conflict(f"{spot.path} is not a folder", fix="Choose another path.")
        if status is None:
            with translate_errors(spot.path), suppress(FileExistsError):
                os.mkdir(spot.name, dir_fd=spot.folder)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Close the handles opened inside this context at its end, so that a walk does not run out of them."""
        kept, self._opened = self._opened, ExitStack()
        try:
            yield
        finally:
            self._opened.close()
            self._opened = kept

    def open_file(self, spot: PathEntry) -> tuple[int, os.stat_result]:
        """Open a regular file for reading. The handle is closed with the folder."""
        before = spot.status()
        if before is None:
            raise NotFound(f"there is no file {spot.path}", fix="List the folder with fs_list.")
        if stat.S_ISDIR(before.st_mode):
            raise BadRequest(f"{spot.path} is a folder", fix="List it with fs_list.")
        if not stat.S_ISREG(before.st_mode):
            raise Forbidden(f"{spot.path} is not a regular file", fix="Only regular files can be read.")
        with translate_errors(spot.path):
            file = self._keep(os.open(spot.name, _READ, dir_fd=spot.folder))
            status = os.fstat(file)
        if self._mounts.is_off_limits(file):
            raise _off_limits_error(spot.path)
        if file_identity(status) != file_identity(before) or not stat.S_ISREG(status.st_mode):
            raise _changed_error(spot.path)
        if status.st_nlink > 1 and self._off_limits.owns(status):
            raise _off_limits_error(spot.path)
        return file, status

    def open_folder(self, spot: PathEntry) -> int:
        """Open a folder to list its entries."""
        status = spot.status()
        if status is None:
            raise NotFound(f"there is no folder {spot.path}", fix="List the folder with fs_list.")
        if not stat.S_ISDIR(status.st_mode):
            # A small model is not offered fs_stat, and repeats the call if nothing tells it what to do instead.
            if stat.S_ISREG(status.st_mode):
                raise BadRequest(f"{spot.path} is a file, not a folder", fix="Read it with fs_read.")
            raise BadRequest(f"{spot.path} is not a folder", fix="Check what it is with fs_stat.")
        with translate_errors(spot.path):
            folder = self._keep(os.open(spot.name, _READ | os.O_DIRECTORY, dir_fd=spot.folder))
        if self._mounts.is_off_limits(folder):
            raise _off_limits_error(spot.path)
        return folder

    def holds_off_limits(self, spot: PathEntry) -> bool:
        """Whether an off-limits path is this entry or inside it."""
        status = spot.status()
        if status is None:
            return False
        return file_identity(status) in self._off_limits.identities(with_parents=True) or self._is_repository(
            spot, status
        )

    def _is_repository(self, spot: PathEntry, status: os.stat_result) -> bool:
        if not stat.S_ISDIR(status.st_mode):
            return False
        with self.passing(), translate_errors(spot.path):
            folder = self._keep(os.open(spot.name, _PLACE | os.O_NOFOLLOW, dir_fd=spot.folder))
            return spot.name.casefold() == GIT or is_repository(folder)

    def is_top(self, spot: PathEntry) -> bool:
        status = spot.status()
        return status is not None and file_identity(status) == self._identity

    def relative(self, path: str) -> str:
        """The path relative to the working directory; raises if it is outside."""
        if not path or "\0" in path:
            raise BadRequest(f"{path!r} is not a path", fix=_STAY)
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise BadRequest(f"{path!r} is not a path", fix=_STAY) from None
        if path.count("/") > _MOST_NAMES:
            raise BadRequest(f"{path[:80]}… has too many parts", fix="Use a shorter path.")
        top = self._path.rstrip("/")
        if path.rstrip("/") == top:
            return "."
        if path.startswith(f"{top}/"):
            path = path[len(top) + 1 :].lstrip("/")
        if path.startswith("/"):
            # A parent of the working directory most likely means the working directory itself.
            name = "." if f"{top}/".startswith(path.rstrip("/") + "/") else os.path.basename(path.rstrip("/"))
            raise Forbidden(f"{path} is not in the working directory, {top}", fix=f"Use the relative path: {name}")
        return path.rstrip("/") or "."

    def _open_folder(self, path: str) -> int:
        if self._kernel:
            return self._keep(_openat2(self._folder, path))
        return self._walk(path)

    def _walk(self, path: str) -> int:
        """Resolve a path one component at a time through open directory handles."""
        folders = [self._folder]
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if name == "..":
                folders.pop()
                if not folders:
                    raise _outside_error(path)
                continue
            status = os.stat(name, dir_fd=folders[-1], follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                raise Forbidden(f"{path} goes through a link, and links are not followed here", fix=_STAY)
            folders.append(self._keep(os.open(name, _PLACE | os.O_NOFOLLOW, dir_fd=folders[-1])))
        return folders[-1]

    def _check(self, spot: PathEntry) -> None:
        """Raise if the entry is off limits or was moved out of the working directory meanwhile."""
        chain: list[Identity] = []
        status = spot.status()
        climb = RepositoryCheck(spot.name, status)
        for folder in self._upwards(spot.folder):
            climb.pass_through(folder)
            here = file_identity(os.fstat(folder))
            if here == self._identity:
                break
            chain.append(here)
        else:
            raise _outside_error(spot.path)
        if climb.forbidden:
            raise Forbidden(
                f"{spot.path} is off limits, because it controls what git executes", fix="Only the owner can change it."
            )
        if status is not None and file_identity(status) != self._identity:
            chain.append(file_identity(status))
        if self._off_limits.identities() & set(chain):
            raise _off_limits_error(spot.path)
        if status is None and self._off_limits.reserves(os.fstat(spot.folder), spot.name):
            raise _off_limits_error(spot.path)
        if self._mounts.is_off_limits(spot.folder) or self._mounts.has_off_limits(spot.folder, spot.name):
            raise _off_limits_error(spot.path)

    def _upwards(self, folder: int) -> Iterator[int]:
        """Iterate over the folder and its parents up to the root. Each handle stays open until the next."""
        with ExitStack() as held:
            for _ in range(_MOST_PARENTS):
                yield folder
                here = file_identity(os.fstat(folder))
                folder = os.open("..", _PLACE, dir_fd=folder)
                held.close()
                held.callback(os.close, folder)
                if file_identity(os.fstat(folder)) == here:
                    return
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))

    def _keep(self, descriptor: int) -> int:
        self._opened.callback(os.close, descriptor)
        return descriptor


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Convert OS errors into tool errors that say what to do."""
    try:
        yield
    except OSError as error:
        raise _describe_error(path, error) from error


def _describe_error(path: str, error: OSError) -> MootError:
    match error.errno:
        case errno.EXDEV:
            return _outside_error(path)
        case errno.ELOOP:
            return Forbidden(f"{path} goes through a link that is not followed", fix="Name the file itself.")
        case errno.ENOENT:
            return NotFound(f"{path} does not exist", fix="List the folder with fs_list.")
        case errno.ENOTDIR | errno.EISDIR | errno.EEXIST:
            return Conflict(f"{path}: {error.strerror}", fix="Check what it is with fs_stat.")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return Forbidden(f"{path}: {error.strerror}", fix="Ask the owner for access.")
        case errno.EAGAIN:
            return _changed_error(path)
        case errno.ENOSPC | errno.EDQUOT | errno.EIO:
            return StoreError(f"{path}: {error.strerror}", fix="Free some disk space, then try again.")
    return BadRequest(f"{path}: {error.strerror or error}", fix="Check what it is with fs_stat.")


def _outside_error(path: str) -> Forbidden:
    return Forbidden(f"{path} is outside the working directory", fix=_STAY)


def _off_limits_error(path: str) -> Forbidden:
    return Forbidden(f"{path} is off limits", fix="Only the owner can change Moot's own files.")


def _changed_error(path: str) -> Conflict:
    return Conflict(f"{path} changed while it was being read", fix="Try again.")


def _link_target(spot: PathEntry) -> str:
    status = spot.status()
    if status is None or not stat.S_ISLNK(status.st_mode):
        return ""
    return os.readlink(spot.name, dir_fd=spot.folder)


def _folder_path(folder: int) -> str:
    """The path of an open folder, where the system can tell; elsewhere links are not followed at all."""
    try:
        return os.readlink(f"/proc/self/fd/{folder}")
    except OSError:
        return ""


def _openat2(folder: int, path: str) -> int:
    """Open a folder with openat2; retries when a concurrent rename interferes."""
    how = struct.pack("QQQ", _PLACE, 0, _BENEATH | _NO_MAGICLINKS)
    name = os.fsencode(path)
    for _ in range(_MOST_TRIES):
        opened = _load_libc().syscall(_OPENAT2, folder, name, how, len(how))
        if opened >= 0:
            return int(opened)
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


@cache
def _load_libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    library.syscall.restype = ctypes.c_long
    return library


@cache
def kernel_resolves() -> bool:
    """Whether openat2 exists and is permitted here."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        top = os.open("/", _PLACE)
        try:
            os.close(_openat2(top, "."))
        finally:
            os.close(top)
    except OSError:
        return False
    return True
