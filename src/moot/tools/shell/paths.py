"""Classifies paths in a shell command: system, home, devices, secrets, startup files. Pure."""

import posixpath
import re
from fnmatch import fnmatchcase, translate
from functools import cache, lru_cache

from moot.tools.shell.words import UNKNOWN

_SYSTEM = ("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "sys",
           "usr", "var", "System", "Library", "private")  # fmt: skip
_GLOB = re.compile(r"[*?\[]")
# Where a machine in a cloud is told its own credentials.
_TELLS_RIGHTS = re.compile(
    r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal|100\.100\.100\.200|fd00:ec2::254"
)
_RAW = re.compile(r"/dev/(sd[a-z]|nvme\d|vd[a-z]|hd[a-z]|mmcblk|dm-|mapper/|k?mem\b|port\b|input/|hidraw|uinput|disk/)")
_FITS_ANY = re.compile(r"[*?.!^{},\[\]]+")
_CLASS = re.compile(r"\[[^\[\]]*\]")
# Longer than any name that matters here.
_LONGEST_NAME = 64
_OWNER = "/home/-"
_DISTINCT = ("boot", "dev", "etc", "home", "proc", "root", "sys", "usr", "var")
_ROOTS = (*_SYSTEM, "mnt", "media", "srv", "opt", "Users", "Volumes", "Applications")
_FREE = ("/tmp", "/var/tmp", "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/shm", "/dev/fd",
         "/dev/zero", "/dev/full", "/var/folders", "/private/tmp")  # fmt: skip
# In the home: started by a login, a shell, a desktop or a program that is used every day.
_STARTING = (
    "~/.bashrc", "~/.bash_profile", "~/.bash_login", "~/.bash_logout", "~/.bash_aliases", "~/.profile", "~/.zshrc",
    "~/.zshenv", "~/.zprofile", "~/.zlogin", "~/.kshrc", "~/.cshrc", "~/.tcshrc", "~/.config/fish/*", "~/.inputrc",
    "~/.ssh", "~/.ssh/*", "~/.config/autostart/*", "~/.config/systemd/*", "~/.xinitrc", "~/.xprofile", "~/.xsession",
    "~/.gitconfig", "~/.config/git/*", "~/.vimrc", "~/.config/nvim/*", "~/.pam_environment", "~/.local/bin/*",
    "~/bin/*",
    "~/Library/LaunchAgents/*", "~/.npmrc", "~/.pip/pip.conf", "~/.config/pip/pip.conf", "~/.config/moot*",
    "~/.local/share/moot*", "~/.local/state/moot*", "~/.moot*",
    "~/.bash_history",
    "~/.config/environment.d/*", "~/.bash_completion", "~/.local/share/bash-completion/*", "~/.emacs", "~/.emacs.d/*",
    "~/.config/emacs/*", "~/.condarc", "~/.cargo/config.toml", "~/.screenrc", "~/.gdbinit", "~/.wgetrc", "~/.curlrc",
    "~/.exrc", "~/.config/starship.toml",
    "~/.zsh_history", "~/.python_history", "~/.tmux.conf", "~/.pythonrc*", "~/.local/share/applications/*",
)  # fmt: skip
_SECRET = (
    "~/.ssh/*", "~/.ssh", "~/.aws", "~/.aws/*", "~/.azure/*", "~/.kube", "~/.kube/*", "~/.docker/config.json",
    "~/.netrc",
    "~/.npmrc", "~/.pypirc", "~/.git-credentials", "~/.config/gh/*", "~/.config/gcloud*", "~/.gnupg", "~/.gnupg/*",
    "~/.password-store*", "~/.cargo/credentials*", "~/.gem/credentials", "~/.m2/settings.xml", "~/.pgpass", "~/.my.cnf",
    "~/.vault-token", "~/.terraform.d/*", "~/.config/op*", "~/.bash_history", "~/.zsh_history", "~/.mozilla*",
    "~/.config/google-chrome*", "~/.config/chromium*", "~/.local/share/keyrings*", "~/.config/moot*",
    "~/.local/share/moot*",
    "~/.local/state/moot*", "~/.moot*",
    "/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/ssh/ssh_host_*", "/etc/krb5.keytab",
    "/proc/*/environ", "/proc/*/mem", "/proc/kcore", "/dev/mem", "/dev/kmem", "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/secrets/*", "/var/run/secrets/*", "~/.config/rclone/*", "~/.config/composer/auth.json", "~/.nuget/*",
)  # fmt: skip
_OWN = ("~/.config/moot*", "~/.local/share/moot*", "~/.local/state/moot*", "~/.moot*")
_SECRET_NAMES = (
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "authorized_keys",
    "wallet.dat",
    ".netrc",
    ".git-credentials",
    "moot.sock",
)
_PRIVATE_NAMES = (".env", ".env.local", ".env.production", ".npmrc", ".pypirc", "credentials.json", "secrets.yml")


@lru_cache(maxsize=1024)
def normalize_path(word: str) -> str:
    """Normalise a path: no doubled or trailing slashes, no dots, the home folder as ~."""
    path = re.sub(r"^file://", "", word)
    if path.startswith("/") and "/." in path:
        # A path that leaves a home folder must not be taken for it.
        path = "/" + posixpath.normpath(path).lstrip("/")
    path = re.sub(r"^~[a-z_][\w-]*", "~", path)
    path = re.sub(r"^/(?:home|Users)/[^/*?]+(?=/|$)", "~", path)
    path = re.sub(r"^/root(?=/|$)", "~", path)
    if path == "~" or path.startswith("~/"):
        # A path that leaves the home folder must not seem to stay in it.
        path = re.sub(rf"^{_OWNER}(?=/|$)", "~", posixpath.normpath(_OWNER + path[1:]))
    path = posixpath.normpath(path) if path else ""
    path = "/" + path.lstrip("/") if path.startswith("/") else path
    climb = re.match(r"^(?:~/)?((?:\.\./)+)(.*)$", path)
    # Few projects have an etc two levels up, but many have a lib or a bin.
    if climb and climb[2].split("/")[0] in (_DISTINCT if climb[1].count("/") < 4 else _SYSTEM):
        return normalize_path("/" + climb[2]) if climb[1].count("/") > 1 else path
    return path


def is_root_like(word: str) -> bool:
    """Whether it is the whole machine, a system tree, or the whole home folder."""
    path = normalize_path(word)
    bare = _without_globs(path)
    if bare in ("/", "~", "..") or re.fullmatch(r"(\.\./?)+", bare):
        return True
    if bare.startswith(UNKNOWN):
        # With the variable empty this is the root.
        return bare != path or word.startswith(UNKNOWN + "/") and word.rstrip("/*") == UNKNOWN
    parts = bare.split("/")
    return bare.startswith("/") and len(parts) == 2 and (_matches(parts[1], _ROOTS) or UNKNOWN in parts[1])


def _without_globs(path: str) -> str:
    """The folder whose contents a pattern matches: the path without trailing wildcard components."""
    parts = path.split("/")
    while len(parts) > 1 and "*" in parts[-1] and _FITS_ANY.fullmatch(parts[-1]):
        parts.pop()
    return "/".join(parts) or "/"


def is_system(word: str) -> bool:
    """Whether it belongs to the system, in any spelling or by a pattern."""
    path = normalize_path(word)
    if not path.startswith("/") or is_free(path):
        return False
    first = path.split("/")[1]
    return path == "/" or _matches(first, _SYSTEM) or first.startswith(UNKNOWN)


def is_free(path: str) -> bool:
    return any(path == known or path.startswith(known + "/") for known in _FREE)


def is_home(word: str) -> bool:
    return normalize_path(word).split("/")[0] == "~"


def is_startup_file(word: str) -> bool:
    """Whether it is executed or read automatically later: shell startup files, autostart, hooks."""
    path = normalize_path(word)
    if _matches_any(path, _STARTING) or posixpath.basename(path) in (
        "authorized_keys",
        "sitecustomize.py",
        "usercustomize.py",
    ):
        return True
    return ".git/hooks/" in path + "/" and not path.endswith(".sample") or path.endswith(".git/config")


def is_moot_file(word: str) -> bool:
    """Whether it is one of Moot's own files."""
    return _matches_any(normalize_path(word), _OWN)


def is_secret(word: str) -> bool:
    """Whether it is a credential or a file with credentials."""
    if _TELLS_RIGHTS.search(word):
        return True
    for part in re.split(r"[=@:,]", word) if "://" not in word else [word]:
        path = normalize_path(part)
        name = posixpath.basename(path)
        if (
            path
            and not path.endswith(".pub")
            and (_matches_any(path, _SECRET) or _matches(name, _SECRET_NAMES, names=True))
        ):
            return True
    return False


def is_private(word: str) -> bool:
    """Whether it is a project file that often contains credentials."""
    return posixpath.basename(normalize_path(word.lstrip("@"))) in _PRIVATE_NAMES


def is_device(word: str) -> bool:
    path = normalize_path(word)
    if is_free(path):
        return False
    return path.startswith(("/dev/", "/sys/", "/proc/sys", "/proc/sysrq")) or path in ("/dev", "/sys")


def is_raw_device(word: str) -> bool:
    """Whether it is a raw disk, memory or input device."""
    return word.startswith("/dev/") and _RAW.match(word) is not None


def is_input_device(word: str) -> bool:
    """Whether it is a file name for standard input."""
    return re.fullmatch(r"-|/dev/stdin|/proc/\w+/fd/\d+|/dev/fd/\d+", word) is not None


def is_network_device(word: str) -> bool:
    """Whether it is bash's pseudo-device for network connections."""
    return re.match(r"^/dev/(tcp|udp)/", normalize_path(word)) is not None or word.startswith("/inet/")


@cache
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(
        "|".join(translate(known) for pattern in patterns for known in {pattern, pattern.removesuffix("/*")})
    )


def _matches_any(path: str, patterns: tuple[str, ...]) -> bool:
    if _pattern(patterns).match(path):
        return True
    return _GLOB.search(path) is not None and any(_reaches(path, pattern) for pattern in patterns)


def _reaches(path: str, pattern: str) -> bool:
    """Whether a path pattern could match the known path."""
    parts, known = path.split("/"), pattern.split("/")
    deeper = len(parts) > len(known) and known[-1] == "*"
    if len(parts) != len(known) and not deeper or path in ("/*", "~/*"):
        return False
    return all(map(_could_be, parts, known)) and len(re.sub(r"[*?\[\]]", "", path)) > 3


def _could_be(part: str, known: str) -> bool:
    """Whether a name pattern could match a known name. Leading dots must be explicit."""
    if known in ("*", part):
        return True
    if known.startswith(".") and not part.startswith("."):
        return False
    return _fits(known.rstrip("*"), part)


def _fits(name: str, part: str) -> bool:
    """The same with shell matching; patterns longer than the name are skipped."""
    part = re.sub(r"\*+", "*", part)
    shortest = len(_CLASS.sub("?", part)) - part.count("*")
    return shortest <= _LONGEST_NAME and fnmatchcase(name, part)


def _matches(part: str, known: tuple[str, ...], *, names: bool = False) -> bool:
    if part in known:
        return True
    if not _GLOB.search(part):
        return False
    return any(_fits(name, part) for name in known) and (not names or len(part.strip("*")) > 3)
