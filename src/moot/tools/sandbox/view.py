"""What a sandboxed command sees of the machine: the system to read, the working directory to write, nothing of Moot."""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from moot.domain.errors import Forbidden, NotFound
from moot.domain.sandbox_config import SandboxConfig
from moot.tools.private_places import homes, private_places

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/gnu/store")
# Never a place to write, not even as a working directory.
_SETTLED = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/boot", "/dev", "/proc", "/sys", "/run")
# Whoever stands here sees the system and nothing more: binding one of these would bind everything.
_CROSSROADS = ("/", "/home", "/tmp", "/var", "/var/tmp", "/opt", "/srv", "/mnt", "/media")
_SYSTEM_SECRETS = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh",
    "/etc/ssl/private", "/etc/krb5.keytab", "/etc/wireguard", "/etc/openvpn", "/etc/NetworkManager/system-connections",
    "/etc/kubernetes", "/etc/rancher", "/etc/pip.conf", "/etc/npmrc", "/etc/environment", "/etc/machine-id",
)  # fmt: skip
# A root of the machine may write these even without a capability; the kernel behind them is the machine's.
_KERNEL_FOLDERS = ("/proc/sys", "/proc/fs", "/proc/acpi", "/proc/scsi", "/proc/tty")
_KERNEL_FILES = ("/proc/sysrq-trigger", "/proc/mtrr", "/proc/kcore", "/proc/kmsg", "/proc/kallsyms", "/proc/timer_list")
# What git runs by itself, outside the sandbox, when the person next uses it.
_GIT = (".git/hooks", ".git/config")
INSIDE = "/.moot/inside.py"
# Where a folder lies that is lent to one command.
LENT = "/.moot/lent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The working directory, opened: what it is cannot change any more, whatever happens to its name."""

    path: str
    descriptor: int
    # bound to write, bound to read, or only stood in
    writable: bool
    bound: bool


def stand(cwd: str, *, protected: Sequence[Path], workspaces: Path | None) -> Standing:
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
    crossroads = path in _CROSSROADS or any(beneath(home, path) and path != home for home in homes())
    settled = any(beneath(path, folder) for folder in _SETTLED)
    bound = not (crossroads or settled)
    coded = any(beneath(path, os.path.realpath(code)) for code in _code())
    # Where keys are kept, or could be put, is to look at only: the home itself, .config and the like.
    keyed = path in homes() or any(beneath(place, path) for place in private_places())
    return Standing(path=path, descriptor=descriptor, writable=bound and not keyed and not coded, bound=bound)


def _refuse_own(path: str, protected: Sequence[Path], workspaces: Path | None) -> None:
    if workspaces is not None and (room := os.path.realpath(workspaces)) != path and beneath(path, room):
        return
    for own in protected:
        if beneath(path, os.path.realpath(own)):
            raise Forbidden(f"{path} belongs to Moot itself", fix="Work in another folder.")


def _refuse_private(path: str) -> None:
    if any(beneath(path, place) for place in _existing(private_places())):
        raise Forbidden(f"{path} holds what is yours alone", fix="Work in another folder.")


def arguments(standing: Standing, *, protected: Sequence[Path], config: SandboxConfig, lent: str = "") -> list[str]:
    """The mounts, in order, as bubblewrap takes them."""
    tmp = config.temporary_bytes
    seen = [*_system(), *(("--ro-bind", path, path) for path in _readable(config.readable))]
    roots = [destination for kind, _, destination in seen if kind != "--symlink"]
    # What is lent out of /tmp would be covered by the /tmp that a command has of its own.
    covered = [mount for mount in seen if beneath(mount[2], "/tmp")]
    mounts = [part for mount in seen if mount not in covered for part in mount]
    mounts += ["--proc", "/proc", *_kernel(), "--dev", "/dev", "--size", str(tmp), "--tmpfs", "/dev/shm"]
    mounts += ["--perms", "1777", "--size", str(tmp), "--tmpfs", "/tmp", "--dir", "/tmp/home", "--dir", "/run"]
    mounts += ["--symlink", "../tmp", "/var/tmp", *(part for mount in covered for part in mount)]
    mounts += _hidden(_existing(_SYSTEM_SECRETS))
    for root in roots:
        mounts += _sealed(root, protected, hide=True) + _hidden(_private(root))
    if standing.bound:
        kind = "--bind-fd" if standing.writable else "--ro-bind-fd"
        mounts += [kind, str(standing.descriptor), standing.path, *_within(standing, protected)]
    else:
        mounts += ["--dir", standing.path]
    mounts += ["--ro-bind", str(Path(__file__).with_name("inside.py")), INSIDE]
    mounts += ["--ro-bind", lent, LENT] if lent else []
    mounts += ["--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"] if config.network else []
    return [*mounts, "--remount-ro", "/", "--chdir", standing.path]


def _within(standing: Standing, protected: Sequence[Path]) -> list[str]:
    """What stays closed inside the working directory itself."""
    mounts = _sealed(standing.path, protected, hide=True)
    mounts += _sealed(standing.path, _code(), hide=False)
    mounts += _hidden(_private(standing.path))
    if standing.writable:
        mounts += _git(standing.path)
    return mounts


def _private(root: str) -> list[str]:
    """What is the person's alone beneath a folder that is shown."""
    return [place for place in _existing(private_places()) if place != root and beneath(place, root)]


def _git(folder: str) -> list[str]:
    # A link is left alone: following one, planted by an earlier command, would show what lies at its end.
    names = [name for name in (os.path.join(folder, part) for part in _GIT) if os.path.exists(name)]
    plain = [name for name in names if os.path.realpath(name) == name]
    git = os.path.join(folder, ".git")
    return ["--bind", git, git, *(part for name in plain for part in ("--ro-bind", name, name))] if plain else []


def _sealed(root: str, paths: Sequence[Path], *, hide: bool) -> list[str]:
    """Close each path beneath the root, by the names it has now and by the names that lead to it.

    A folder on the way is mounted on itself: what is a mount can be neither renamed nor replaced from inside, so
    nothing can be put in the place of a closed path. Where a path is not there yet, or is reached by a link, the folder
    it stands in is closed to writing. Folders on the way to it are made: only what exists can be closed.
    """
    ways: dict[str, str] = {}
    ends: list[str] = []
    for path in paths:
        names = dict.fromkeys((os.path.abspath(path), os.path.realpath(path)))
        ends += [name for name in names if name != root and beneath(name, root) and _walked(root, name, ways)]
    mounts: list[str] = []
    shut: list[str] = []
    for folder in sorted(ways):
        if any(beneath(folder, done) for done in shut):
            continue
        if ways[folder] == "--ro-bind":
            shut.append(folder)
        # The root was mounted from an open descriptor, and stays that mount.
        mounts += ["--remount-ro", root] if folder == root else [ways[folder], folder, folder]
    ends = [end for end in dict.fromkeys(ends) if not any(end != other and beneath(end, other) for other in ends)]
    return mounts + (_hidden(ends) if hide else [part for end in ends for part in ("--ro-bind", end, end)])


def _walked(root: str, name: str, ways: dict[str, str]) -> bool:
    """Note what must be done to the folders between the root and the path; whether it is there to be closed itself."""
    step = root
    parts = os.path.relpath(name, root).split(os.sep)
    for number, part in enumerate(parts, start=1):
        parent, step = step, os.path.join(step, part)
        last = number == len(parts)
        if os.path.islink(step) or not (os.path.lexists(step) if last else _made(step)):
            ways[parent] = "--ro-bind"
            return False
        if not last:
            ways.setdefault(step, "--bind")
    return True


def _made(folder: str) -> bool:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return os.path.isdir(folder)
    except OSError:
        return False
    return True


def _hidden(paths: Iterable[str]) -> list[str]:
    mounts: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            mounts += ["--perms", "0000", "--size", "4096", "--tmpfs", path, "--remount-ro", path]
        else:
            mounts += ["--ro-bind", "/dev/null", path]
    return mounts


def _existing(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def _system() -> list[tuple[str, str, str]]:
    found = []
    for path in _SYSTEM:
        if os.path.islink(path):
            found.append(("--symlink", os.readlink(path), path))
        elif os.path.isdir(path):
            found.append(("--ro-bind", path, path))
    return found


def _kernel() -> list[str]:
    mounts: list[str] = []
    for path in filter(os.path.exists, _KERNEL_FOLDERS):
        mounts += ["--ro-bind", path, path]
    return mounts + _hidden(filter(os.path.exists, _KERNEL_FILES))


def _readable(configured: Sequence[str]) -> list[str]:
    """What the owner lends, and the interpreter, without which the first program inside could not start."""
    wanted = [*(os.path.realpath(os.path.expanduser(path)) for path in configured), os.path.realpath(sys.base_prefix)]
    return [path for path in wanted if os.path.isdir(path) and not any(beneath(path, root) for root in _SYSTEM)]


def _code() -> list[Path]:
    """The program itself: who can rewrite it needs no other way out."""
    return [Path(__file__).resolve().parents[2], Path(sys.prefix)]


def beneath(path: str, folder: str) -> bool:
    """Whether the path is the folder or something in it. Both must be absolute and without links."""
    return folder in ("/", path) or path.startswith(folder.rstrip("/") + "/")
