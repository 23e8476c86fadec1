"""The file system a sandboxed command sees: system read-only, working directory writable, nothing of Moot.

Uses `mounts`, `aliases` and `usage`; used by `sandbox`.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from moot.domain.config import SandboxConfig
from moot.domain.errors import Forbidden, NotFound
from moot.tools.files.private_places import private_places
from moot.tools.files.project_folder import is_beneath, is_project, is_visible, own_code_folders
from moot.tools.sandbox.aliases import find_hard_links, find_other_places, find_program_links
from moot.tools.sandbox.git_author import PLACE
from moot.tools.sandbox.mounts import LinkRefused, Mounts, is_folder
from moot.tools.sandbox.usage import TEMPORARY_FOLDERS

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/gnu/store")
_SYSTEM_SECRETS = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh",
    "/etc/ssl/private", "/etc/krb5.keytab", "/etc/wireguard", "/etc/openvpn", "/etc/NetworkManager/system-connections",
    "/etc/kubernetes", "/etc/rancher", "/etc/pip.conf", "/etc/npmrc", "/etc/environment", "/etc/machine-id",
)  # fmt: skip
# A root of the machine may write these even without a capability; the kernel behind them is the machine's.
_KERNEL_FOLDERS = ("/proc/sys", "/proc/fs", "/proc/acpi", "/proc/scsi", "/proc/tty")
_KERNEL_FILES = ("/proc/sysrq-trigger", "/proc/mtrr", "/proc/kcore", "/proc/kmsg", "/proc/kallsyms", "/proc/timer_list")
INSIDE = "/.moot/inside.py"
# Where a folder lies that is lent to one command.
LENT = "/.moot/lent"
# Where every command may write; of /dev only the devices.
WRITABLE = ("/dev", *TEMPORARY_FOLDERS)


class WorkingDirectory(Struct, frozen=True, kw_only=True):
    """The open working directory: it stays the same folder, whatever happens to its name."""

    path: str
    descriptor: int
    # bound to write, bound to read, or only stood in
    writable: bool
    bound: bool


class LentFolders(Struct, frozen=True, kw_only=True):
    """What commands may read besides the system and the working directory. The paths of `folders` contain no links."""

    folders: Sequence[str] = ()
    # Files in them that are hidden.
    secrets: Sequence[str] = ()
    # Links that are made as they are outside: where each is, and what it leads to.
    links: Sequence[tuple[str, str]] = ()


def open_working_directory(cwd: str, *, protected: Sequence[Path], workspaces: Path | None) -> WorkingDirectory:
    """Open the working directory and decide what a command may do in it. The caller closes the descriptor."""
    try:
        descriptor = os.open(cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise NotFound(
            f"the working directory {cwd} cannot be entered: {error.strerror}", fix="Give a folder that exists."
        ) from error
    # The kernel's own name for what was opened: no symbolic link is left in it.
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    try:
        _refuse_own(path, protected, workspaces)
        _refuse_private(path)
    except Forbidden:
        os.close(descriptor)
        raise
    return WorkingDirectory(path=path, descriptor=descriptor, writable=is_project(path), bound=is_visible(path))


def is_system_path(path: str) -> bool:
    """Whether the path is part of the system, which every command sees."""
    return any(is_beneath(path, root) for root in _SYSTEM)


def real_path(cwd: str) -> str:
    """Return the path of a working directory with its links resolved."""
    return os.path.realpath(cwd)


def folder_mark(cwd: str | int) -> str:
    """Return what distinguishes a folder from another one of the same name."""
    try:
        status = os.stat(cwd)
    except OSError:
        return "missing"
    return f"{status.st_dev}:{status.st_ino}"


def _refuse_own(path: str, protected: Sequence[Path], workspaces: Path | None) -> None:
    if workspaces is not None and (room := os.path.realpath(workspaces)) != path and is_beneath(path, room):
        return
    for own in protected:
        if is_beneath(path, os.path.realpath(own)):
            raise Forbidden(f"{path} belongs to Moot itself", fix="Work in another folder.")


def _refuse_private(path: str) -> None:
    if any(is_beneath(path, place) for place in _find_private()):
        raise Forbidden(f"{path} contains private files", fix="Work in another folder.")


def find_own_places(protected: Sequence[Path], workspaces: Path | None) -> list[Path]:
    """Return the paths of Moot's own files, including further mounts of them."""
    spared = os.path.realpath(workspaces) if workspaces is not None else ""
    own = list(map(str, protected))
    return [*protected, *map(Path, find_other_places(own, spared=spared))]


def _find_private() -> list[str]:
    """Return the paths of the user's private files, including further mounts of them."""
    known = _keep_existing(private_places())
    return [*known, *find_other_places(known)]


def add_mounts(
    mounts: Mounts,
    standing: WorkingDirectory,
    *,
    protected: Sequence[Path],
    config: SandboxConfig,
    lent: LentFolders,
    workspaces: Path | None,
) -> None:
    """Add the mounts, in order."""
    spared = os.path.realpath(workspaces) if workspaces is not None else ""
    private = _find_private()
    readable = _drop_own(lent.folders, protected)
    roots = _mount_system(mounts)
    # What is lent out of a temporary folder would be covered by the one that a command has of its own.
    covered = [path for path in readable if any(is_beneath(path, folder) for folder in TEMPORARY_FOLDERS)]
    for path in readable:
        if path not in covered:
            _mount_readable(mounts, path)
    mounts.add("--proc", "/proc")
    _mount_kernel(mounts)
    _mount_temporary(mounts, config)
    for path in covered:
        _mount_readable(mounts, path)
    for place, target in lent.links:
        if not any(is_beneath(place, root) for root in (*roots, *readable)):
            mounts.add("--symlink", target, place)
    shown = [standing.path] if standing.bound else []
    # Before anything is mounted that would lie over them.
    linked = find_hard_links(map(str, protected), [*shown, *readable], spared=spared)
    own = _keep_existing(map(str, protected))
    hidden = _drop_nested([*_keep_existing(_SYSTEM_SECRETS), *own, *private, *linked, *lent.secrets])
    for root in (*roots, *readable):
        _hide_beneath(mounts, root, hidden)
    if standing.bound:
        mounts.bind(standing.descriptor, standing.path, writable=standing.writable, nested=True)
        _seal(
            mounts,
            standing,
            hide=[*map(str, protected), *private, *linked],
            show=[*own_code_folders(), *_find_shared_packages(standing), *readable],
        )
    else:
        mounts.add("--dir", standing.path)


def _find_shared_packages(standing: WorkingDirectory) -> list[str]:
    """Return what must not be written in the working directory because the program itself would be changed by it."""
    program = [path for path in map(os.path.realpath, own_code_folders()) if not is_system_path(path)]
    found = find_program_links(program, standing.path) if standing.writable else []
    return _drop_nested(found)


def add_command_mounts(
    mounts: Mounts, standing: WorkingDirectory, *, config: SandboxConfig, lent: str = "", signed: int | None = None
) -> None:
    """Add the last arguments: the first program, what only this command may use, and its working directory.

    `signed` is an open file with who its commits are by. The command has a copy, to change as it likes.
    """
    inside = os.path.realpath(Path(__file__).with_name("inside.py"))
    mounts.bind(mounts.open(inside), INSIDE, writable=False)
    if lent:
        mounts.bind(mounts.open(os.path.realpath(lent)), LENT, writable=False)
    if signed is not None:
        mounts.add("--file", str(signed), PLACE)
        mounts.kept.append(signed)
    if config.network:
        mounts.add("--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve")
    mounts.add("--remount-ro", "/", "--chdir", standing.path)


def _drop_own(readable: Sequence[str], protected: Sequence[Path]) -> list[str]:
    """Return the shared folders without Moot's own; the interpreter is needed wherever it is."""
    needed = os.path.realpath(sys.base_prefix)
    own = [os.path.realpath(place) for place in protected]
    return [path for path in readable if path == needed or not any(is_beneath(path, place) for place in own)]


def _mount_readable(mounts: Mounts, path: str) -> None:
    with suppress(FileNotFoundError):
        mounts.bind(mounts.open(path), path, writable=False)


def list_readable(configured: Sequence[str]) -> list[str]:
    """Return the folders the owner shares, and the interpreter, which the first program inside needs."""
    wanted = [*(os.path.realpath(os.path.expanduser(path)) for path in configured), os.path.realpath(sys.base_prefix)]
    found = [path for path in wanted if os.path.isdir(path) and not is_system_path(path)]
    return list(dict.fromkeys(found))


def _hide_beneath(mounts: Mounts, root: str, paths: Iterable[str]) -> None:
    """Hide paths in read-only folders: nothing there can be moved, so covering them is enough."""
    for path in paths:
        if path != root and is_beneath(path, root):
            mounts.hide(path, folder=os.path.isdir(path))


class _PathFolder(Struct):
    """A folder between the working directory and a closed path in it."""

    descriptor: int
    shut: bool = False


def _seal(mounts: Mounts, standing: WorkingDirectory, *, hide: Sequence[str], show: Sequence[str]) -> None:
    """Close each path in the working directory, by the names it has now and by the names that lead to it.

    What is in `hide` is not seen, what is in `show` is not written. A folder on the way is mounted on itself: what is a
    mount can be neither renamed nor replaced from inside, so nothing can be put in the place of a closed path. Where a
    path is not there yet, or is reached by a link, the folder it stands in is closed to writing. Folders on the way to
    it are made: only what exists can be closed.
    """
    root = standing.path
    ways: dict[str, _PathFolder] = {}
    ends: dict[str, int] = {}
    covered: set[str] = set()
    for path in (*hide, *show):
        for name in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
            if name != root and is_beneath(name, root):
                there = _walk_path(mounts, standing, name, ways)
                ends |= {} if there is None else {name: there}
                covered |= {name} if path in hide else set()
    _mount_path_folders(mounts, standing, ways)
    outer = _drop_nested(covered & ends.keys())
    for end, descriptor in sorted(ends.items()):
        if end in outer:
            mounts.hide(end, folder=is_folder(descriptor), nested=True)
        elif not any(is_beneath(end, other) for other in outer) and end not in mounts.nested:
            mounts.bind(descriptor, end, writable=False, nested=True)


def _mount_path_folders(mounts: Mounts, standing: WorkingDirectory, ways: dict[str, _PathFolder]) -> None:
    shut = [folder for folder, way in ways.items() if way.shut]
    for folder, way in sorted(ways.items()):
        if any(folder != other and is_beneath(folder, other) for other in shut):
            continue
        if folder != standing.path:
            mounts.bind(way.descriptor, folder, writable=standing.writable and not way.shut, nested=True)
        elif way.shut:
            # The root was mounted from an open descriptor, and stays that mount.
            mounts.add("--remount-ro", folder)


def _walk_path(mounts: Mounts, standing: WorkingDirectory, name: str, ways: dict[str, _PathFolder]) -> int | None:
    """Note what must be done to the folders between the root and the path; the path itself, if it is there to close."""
    place, folder = standing.path, standing.descriptor
    parts = os.path.relpath(name, place).split(os.sep)
    for number, part in enumerate(parts, start=1):
        last = number == len(parts)
        try:
            if standing.writable and not last:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=folder)
            inner = mounts.open_in(folder, part)
        except (OSError, LinkRefused):
            ways.setdefault(place, _PathFolder(folder)).shut = True
            return None
        if not last and not is_folder(inner):
            ways.setdefault(place, _PathFolder(folder)).shut = True
            return None
        place, folder = os.path.join(place, part), inner
        if not last:
            ways.setdefault(place, _PathFolder(folder))
    return folder


def _drop_nested(paths: Iterable[str]) -> list[str]:
    known = list(dict.fromkeys(paths))
    return [path for path in known if not any(path != other and is_beneath(path, other) for other in known)]


def _keep_existing(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def _mount_system(mounts: Mounts) -> list[str]:
    """Mount the system read-only; return the mounted folders."""
    found = []
    for path in _SYSTEM:
        if os.path.islink(path):
            mounts.add("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            mounts.add("--ro-bind", path, path)
            found.append(path)
    return found


def _mount_temporary(mounts: Mounts, config: SandboxConfig) -> None:
    """Mount the devices, and the folders that a command has of its own."""
    # The tmpfs of /dev has no limit, and nobody needs to make anything there.
    mounts.add("--dev", "/dev", "--remount-ro", "/dev")
    for folder in TEMPORARY_FOLDERS:
        # Not a link from one to another: a folder that is bound below it would lie elsewhere than at its own path.
        mounts.add("--perms", "1777", "--size", str(config.temporary_bytes), "--tmpfs", folder)
    mounts.add("--dir", "/tmp/home", "--dir", "/run")


def _mount_kernel(mounts: Mounts) -> None:
    for path in filter(os.path.exists, _KERNEL_FOLDERS):
        mounts.add("--ro-bind", path, path)
    for path in filter(os.path.exists, _KERNEL_FILES):
        mounts.hide(path, folder=False)
