"""Finds what commands use of the user's toolchain: the directories of a search path and the installations behind them.

Only reads the disk. Used by `sandbox` for every command and by `moot doctor`. An agent can write in its working
directory, and so in a virtual environment there. Nothing it writes makes more readable than programs: a link is
followed only to a Python installation or into a folder where a package manager keeps programs.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from glob import escape, glob
from itertools import islice

from msgspec import Struct, field

from moot.domain.config import SandboxConfig
from moot.tools.files.private_places import homes, private_places
from moot.tools.files.project_folder import is_beneath, is_shared_root
from moot.tools.sandbox.view import is_system_path

MOST_ENTRIES = 64
_MOST_LINKS = 512
_MOST_HOPS = 16
_MOST_EXAMINED = 5_000
_DEEPEST_SECRET = 2
# Where the kernel and the daemon are, and what every command has of its own.
_NEVER = ("/proc", "/sys", "/dev", "/run", "/boot")
_PROGRAM_FOLDERS = ("bin", "sbin", "condabin", "shims", ".bin")
# What tells the folder of an installation from one that merely has a bin in it.
_MARKS = (
    "pyvenv.cfg",
    "conda-meta",
    "lib/node_modules",
    "lib/rustlib",
    "Cellar",
    "pkg/tool",
    "lib/modules",
    "share/zig",
)
# Where package managers keep programs, in the home folder.
_STORES = (
    ".pyenv", ".nvm", ".volta", ".fnm", ".local/share/fnm", ".rustup/toolchains", ".cargo/bin", ".bun", ".deno",
    ".asdf", ".local/share/mise", ".local/share/uv/tools", ".local/share/uv/python", ".local/share/pipx/venvs",
    ".local/pipx/venvs", ".sdkman/candidates", ".rbenv", ".local/share/pypoetry/venv", ".local/share/pnpm",
    ".cache/pypoetry/virtualenvs", ".local/share/virtualenvs", ".local/share/hatch/env", "go/bin", "miniconda3",
    "anaconda3", "miniforge3", "mambaforge",
)  # fmt: skip
# Folders of the home with much more than programs: of these, only what belongs to the programs.
_SHARED_PREFIXES = (".local", "go")
# Files of package managers that may hold a password or a token.
_SECRETS = frozenset(
    {
        ".npmrc", "npmrc", ".yarnrc", ".yarnrc.yml", ".netrc", "_netrc", ".pypirc", "pip.conf", "pip.ini", ".condarc",
        "condarc", ".git-credentials", "credentials", "credentials.toml", ".credentials", ".env", ".envrc", "auth.json",
        ".gemrc", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "uv.toml", "auth.toml", "poetry.toml",
        "settings.xml", "gradle.properties", ".python_history", ".bash_history", ".zsh_history", ".node_repl_history",
    }
)  # fmt: skip


class Toolchain(Struct, frozen=True, kw_only=True):
    """What commands use: directories for PATH, folders to read, and what is hidden in these."""

    path: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    # Links on the way to an interpreter: where each is and what it leads to.
    links: tuple[tuple[str, str], ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


NO_TOOLCHAIN = Toolchain()


def list_search_path(config: SandboxConfig, search_path: str) -> str:
    """Return the search path of a command: what its client has, if that is allowed, and what the owner added."""
    added = [os.path.expanduser(folder) for folder in config.search_path]
    return os.pathsep.join(filter(None, [search_path if config.toolchain else "", *added]))


def find_toolchain(search_path: str, *, cwd: str, own: Sequence[str]) -> Toolchain:
    """Return what a command in `cwd`, a path without links, has of a search path. `own` is hidden from commands."""
    return _Search(cwd, own).find(search_path)


class _Search:
    def __init__(self, cwd: str, own: Sequence[str]) -> None:
        self._cwd = cwd
        self._closed = [*own, *map(os.path.realpath, private_places())]
        self._homes = homes()
        self._stores = [os.path.realpath(os.path.join(home, store)) for home in self._homes for store in _STORES]
        self._shared = [os.path.join(home, name) for home in self._homes for name in _SHARED_PREFIXES]
        self._path: list[str] = []
        self._roots: list[str] = []
        self._links: dict[str, str] = {}
        self._environment: dict[str, str] = {}

    def find(self, search_path: str) -> Toolchain:
        for entry in list(dict.fromkeys(search_path.split(os.pathsep)))[:MOST_ENTRIES]:
            if os.path.isabs(entry) and "\0" not in entry:
                self._add_entry(self._normalize(entry))
        roots = _drop_nested(root for root in self._roots if self._is_allowed(root) and not self._is_visible(root))
        return Toolchain(
            path=tuple(dict.fromkeys(self._path)),
            readable=tuple(roots),
            hidden=tuple(secret for root in roots for secret in _find_secrets(root)),
            links=tuple(each for each in self._links.items() if not _is_within(each[0], roots)),
            environment=self._environment,
        )

    def _normalize(self, entry: str) -> str:
        """Return the entry with the links of the home folder itself resolved, which nobody but the owner can make."""
        entry = os.path.normpath(entry)
        written = os.path.normpath(os.environ.get("HOME", "/"))
        if written != "/" and is_beneath(entry, written):
            return os.path.normpath(os.path.join(os.path.realpath(written), os.path.relpath(entry, written)))
        return entry

    def _add_entry(self, entry: str) -> None:
        real = os.path.realpath(entry)
        if not os.path.isdir(real):
            return
        if self._is_visible(real):
            self._path.append(real)
            self._note_environment(os.path.dirname(real))
            self._add_python(real)
            return
        # Whoever can replace a folder on the way by a link could choose what it leads to.
        if real != entry and not _is_within(real, self._stores):
            return
        if not self._is_allowed(real):
            return
        self._path.append(real)
        found = self._find_installation(real)
        self._note_environment(found[0])
        self._roots += found
        self._add_python(real)
        self._follow_links(real)

    def _find_installation(self, folder: str) -> list[str]:
        """Return the folders that the programs in a folder need."""
        parent, name = os.path.split(folder)
        if name in _PROGRAM_FOLDERS and self._is_allowed(parent):
            if parent not in self._shared and (self._is_kept_whole(parent, name) or _has_mark(parent)):
                return [parent]
            if name == "bin" and os.path.basename(parent) == ".cargo":
                rustup = os.path.join(os.path.dirname(parent), ".rustup")
                if os.path.isdir(rustup):
                    self._environment["RUSTUP_HOME"] = rustup
                return [folder, rustup] if os.path.isdir(rustup) else [folder]
            libraries = glob(f"{escape(parent)}/lib/python3.*") if parent in self._shared else []
            if libraries:
                self._environment["PYTHONUSERBASE"] = parent
            return [folder, *libraries]
        return [folder]

    def _is_kept_whole(self, parent: str, name: str) -> bool:
        if name == ".bin":
            return os.path.basename(parent) == "node_modules"
        return name == "shims" and _is_within(parent, self._stores)

    def _note_environment(self, root: str) -> None:
        if os.path.isfile(os.path.join(root, "pyvenv.cfg")):
            self._environment.setdefault("VIRTUAL_ENV", root)
        elif os.path.isfile(os.path.join(root, "libexec", "pyenv")):
            self._environment.setdefault("PYENV_ROOT", root)

    def _add_python(self, folder: str) -> None:
        """Add the Python installation behind an interpreter in a folder."""
        for name in ("python3", "python"):
            place = os.path.join(folder, name)
            target = os.path.realpath(place)
            prefix = _find_python_prefix(target)
            if not prefix:
                continue
            if self._is_visible(prefix) or not self._is_allowed(prefix):
                return
            is_shared = prefix in self._shared
            self._roots += _list_python_parts(prefix, target) if is_shared else [prefix]
            self._add_links(place)
            return

    def _add_links(self, place: str) -> None:
        """Note the links in the folders that lead from a link to the file it stands for."""
        for _ in range(_MOST_HOPS):
            if not os.path.islink(place):
                return
            place = os.path.normpath(os.path.join(os.path.dirname(place), os.readlink(place)))
            folder, real = os.path.dirname(place), os.path.realpath(os.path.dirname(place))
            if folder != real and not self._is_visible(folder) and os.path.basename(folder) == "bin":
                root, target = os.path.dirname(folder), os.path.dirname(real)
                if os.path.islink(root) and os.path.realpath(root) == target:
                    self._links[root] = target

    def _follow_links(self, folder: str) -> None:
        """Add what links in a folder lead to, where a package manager keeps it."""
        if self._is_writable_by_agents(folder):
            return
        with suppress(OSError), os.scandir(folder) as entries:
            links = [entry.path for entry in islice(entries, _MOST_LINKS) if entry.is_symlink()]
            for target in dict.fromkeys(map(os.path.realpath, links)):
                if _is_within(target, self._stores) and os.path.isfile(target):
                    place = os.path.dirname(target)
                    self._roots += self._find_installation(place)
                    self._add_python(place)

    def _is_writable_by_agents(self, folder: str) -> bool:
        return is_beneath(folder, self._cwd)

    def _is_visible(self, path: str) -> bool:
        """Whether every command in this working directory sees it anyway."""
        return is_system_path(path) or is_beneath(path, self._cwd)

    def _is_allowed(self, path: str) -> bool:
        if is_shared_root(path) or _is_within(path, _NEVER) or _is_within(path, self._closed):
            return False
        # These hold the data of all programs of the user.
        return os.path.basename(path) not in (".config", ".cache", "share")


def _has_mark(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, mark)) for mark in _MARKS) or bool(
        glob(f"{escape(folder)}/lib/python3.*/os.py")
    )


def _find_python_prefix(interpreter: str) -> str:
    """Return the prefix of a Python installation; empty unless it has the standard library of this interpreter."""
    folder, name = os.path.split(interpreter)
    prefix, last = os.path.split(folder)
    if last != "bin" or not name.startswith("python") or not _is_file(interpreter):
        return ""
    version = name.removeprefix("python")
    return prefix if glob(f"{escape(prefix)}/lib/python{escape(version) or '3.*'}*/os.py") else ""


def _list_python_parts(prefix: str, interpreter: str) -> list[str]:
    return [os.path.dirname(interpreter), *glob(f"{escape(prefix)}/lib/python3.*")]


def _find_secrets(root: str) -> Iterator[str]:
    """Find files of a known name near the top of a folder, where package managers put their settings."""
    left, folders = _MOST_EXAMINED, [(root, 0)]
    for folder, depth in folders:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in islice(entries, left):
                left -= 1
                if entry.name.casefold() in _SECRETS and entry.is_file():
                    # What a link leads to is hidden; outside of the folder it is not seen anyway.
                    yield from filter(lambda path: is_beneath(path, root), [os.path.realpath(entry.path)])
                elif depth < _DEEPEST_SECRET and entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, depth + 1))


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _is_within(path: str, folders: Iterable[str]) -> bool:
    return any(is_beneath(path, folder) for folder in folders)


def _drop_nested(paths: Iterable[str]) -> list[str]:
    known = list(dict.fromkeys(paths))
    return [path for path in known if not any(path != other and is_beneath(path, other) for other in known)]
