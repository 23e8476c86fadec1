"""Mounts the settings and hooks of a git repository read-only for a command.

Git executes them outside the sandbox when the user next uses it. Names with that effect that do not exist are created
while commands run, so that they can be mounted: empty, or for `commondir` a reference to the same folder.
"""

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct, field

from moot.domain.errors import Forbidden
from moot.tools.files.git_folder import FILES, FOLDERS, GIT, is_repository
from moot.tools.files.off_limits import Identity, file_identity
from moot.tools.sandbox.mounts import LinkRefused, Mounts, is_absent, is_folder

_HERE = b".\n"
_LONGEST = 4096
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Hold(Struct):
    """A git folder in which commands run, and what was created in it for them."""

    folder: int
    commands: int = 0
    made: dict[str, Identity] = field(default_factory=dict)


_lock = threading.Lock()
_holds: dict[Identity, _Hold] = {}


class Repository:
    """The repository of one working directory, protected during one command."""

    def __init__(self, mounts: Mounts, folder: int, path: str) -> None:
        self._mounts = mounts
        self._folder = folder
        self._path = path
        self._held: list[Identity] = []
        self._pinned: set[str] = set()

    def pin(self) -> None:
        """Mount what git obeys read-only. Raises if that is not possible."""
        try:
            git = self._mounts.open_in(self._folder, GIT)
        except FileNotFoundError:
            if is_repository(self._folder):
                self._pin_folder(self._folder, self._path)
            return
        except LinkRefused as error:
            raise Forbidden(
                f"{self._path}/{GIT} is a link, and commands cannot be kept from its target",
                fix="Put the repository itself there, or work in another folder.",
            ) from error
        kind = os.fstat(git).st_mode
        if stat.S_ISDIR(kind):
            self._pin_folder(git, os.path.join(self._path, GIT))
        elif stat.S_ISREG(kind):
            self._mounts.bind(git, os.path.join(self._path, GIT), writable=False, nested=True)
            self._mounts.pinned.append(os.path.join(self._path, GIT))
            self._follow(_read_small_file(git).removeprefix(b"gitdir:"), self._path)
        else:
            raise Forbidden(f"{self._path}/{GIT} is neither a folder nor a file", fix="Remove it.")

    def release(self) -> None:
        """Remove what was created for the command, unless another one still runs or it has content."""
        for held in self._held:
            with _lock:
                hold = _holds[held]
                hold.commands -= 1
                if hold.commands:
                    continue
                del _holds[held]
                with suppress(OSError):
                    # Another daemon may run commands here, whose mounts need these files.
                    fcntl.flock(hold.folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    for name, made in reversed(hold.made.items()):
                        with suppress(OSError):
                            _remove_made(hold.folder, name, made)
                os.close(hold.folder)
        self._held.clear()

    def _follow(self, written: bytes, start: str) -> None:
        """Resolve a repository that is elsewhere. Outside the working directory it is not visible and needs no
        protection.
        """
        target = os.path.normpath(os.path.join(start, os.fsdecode(written.strip())))
        if target in self._pinned or not f"{target}/".startswith(f"{self._path}/"):
            return
        if target == self._path:
            self._pin_folder(self._folder, target)
            return
        folder, place = self._folder, self._path
        *way, last = os.path.relpath(target, self._path).split("/")
        try:
            for name in way:
                folder, place = self._mounts.open_in(folder, name), os.path.join(place, name)
                if place not in self._mounts.nested:
                    self._mounts.bind(folder, place, writable=True, nested=True)
            folder = self._mounts.open_in(folder, last)
        except OSError as error:
            if is_absent(error):
                raise Forbidden(
                    f"the repository of {self._path} should be in {target}, but is not", fix=f"Fix {self._path}/.git."
                ) from error
            raise
        if is_folder(folder):
            self._pin_folder(folder, target)

    def _pin_folder(self, git: int, path: str) -> None:
        self._pinned.add(path)
        is_top = path == self._path
        try:
            pins = self._pins(git)
        except LinkRefused:
            # A link cannot be protected by a mount, so the whole repository is read-only.
            self._mounts.pinned.append(path)
            if is_top:
                self._mounts.add("--remount-ro", path)
            else:
                self._mounts.bind(git, path, writable=False, nested=True)
            return
        # The shared folder comes first: it may contain this folder and would cover it.
        self._follow(_read_small_file(pins["commondir"]) if "commondir" in pins else _HERE, path)
        if not is_top and path not in self._mounts.nested:
            self._mounts.bind(git, path, writable=True, nested=True)
        for name, pin in pins.items():
            self._mounts.bind(pin, os.path.join(path, name), writable=name == "info", nested=True)
            self._mounts.pinned.append(os.path.join(path, name))
        if not is_top:
            self._mounts.pinned.append(path)

    def _pins(self, git: int) -> dict[str, int]:
        hold = self._hold(git)
        pins: dict[str, int] = {}
        for name in (*FOLDERS, "info", *FILES):
            folder = name not in FILES
            try:
                with _lock:
                    pins[name] = self._open_or_make(git, name, hold, folder=folder)
            except OSError as error:
                # If we cannot create it, a command of the same user cannot either.
                if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                    continue
                raise
            if is_folder(pins[name]) is not folder or not folder and not stat.S_ISREG(os.fstat(pins[name]).st_mode):
                raise LinkRefused(name)
        return pins

    def _hold(self, git: int) -> _Hold:
        known = file_identity(os.fstat(git))
        with _lock:
            hold = _holds.get(known)
            if hold is None:
                hold = _holds[known] = _Hold(folder=_lock_git_folder(git))
            hold.commands += 1
        self._held.append(known)
        return hold

    def _open_or_make(self, git: int, name: str, hold: _Hold, *, folder: bool) -> int:
        with suppress(FileNotFoundError):
            there = self._mounts.open_in(git, name)
            if name == "commondir" and _read_small_file(there) == _HERE:
                # Left over from a daemon that was killed.
                hold.made.setdefault(name, file_identity(os.fstat(there)))
            return there
        within, last = _open_parent(self._mounts, git, name)
        if folder:
            os.mkdir(last, 0o755, dir_fd=within)
        else:
            file = os.open(last, _NEW, 0o644, dir_fd=within)
            try:
                os.write(file, _HERE if name == "commondir" else b"")
            finally:
                os.close(file)
        made = self._mounts.open_in(within, last)
        hold.made[name] = file_identity(os.fstat(made))
        return made


def pin_repository(mounts: Mounts, folder: int, path: str) -> Callable[[], None]:
    """Protect the repository of a working directory. Return a function to call when the command has ended."""
    repository = Repository(mounts, folder, path)
    try:
        repository.pin()
    except BaseException:
        repository.release()
        raise
    return repository.release


def _lock_git_folder(git: int) -> int:
    """Lock the git folder, so that no other command removes what is created in it."""
    folder = os.open(f"/proc/self/fd/{git}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BaseException:
        os.close(folder)
        raise
    return folder


def _open_parent(mounts: Mounts, git: int, name: str) -> tuple[int, str]:
    head, _, last = name.rpartition("/")
    return mounts.open_in(git, head), last


def _remove_made(git: int, name: str, made: Identity) -> None:
    head, _, last = name.rpartition("/")
    folder = os.open(head or ".", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=git)
    try:
        status = os.stat(last, dir_fd=folder, follow_symlinks=False)
        if file_identity(status) != made:
            return
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(last, dir_fd=folder)
        elif status.st_size == (len(_HERE) if name == "commondir" else 0):
            os.unlink(last, dir_fd=folder)
    finally:
        os.close(folder)


def _read_small_file(descriptor: int) -> bytes:
    """Return the content of a small file, opened through its descriptor and not by name."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return b""
    file = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(file, _LONGEST)
    finally:
        os.close(file)
