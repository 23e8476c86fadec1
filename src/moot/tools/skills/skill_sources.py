"""Gets the files of skills from where a person names them: a folder, an archive, an https address, a git repository.

Used by `moot skills`. Limits are those of `archive`, addresses those of `safe_http`; nothing that is fetched is run.
Also finds the skills that other programs keep in `.claude/skills`.
"""

import asyncio
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.config import SkillConfig, ToolsConfig, WebConfig
from moot.domain.errors import BadRequest, MootError, NotFound, TooLarge, Unavailable
from moot.domain.front_matter import Broken
from moot.domain.ports.clock import Clock
from moot.domain.skill import SKILL_FILE, Skill
from moot.tools.files.confined_paths import ConfinedFolder
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.private_places import homes
from moot.tools.files.project_files import find_root
from moot.tools.skills.archive import Members, gather_files, unpack
from moot.tools.skills.skill_file import parse_skill
from moot.tools.web.addresses import PublicOnly

CLAUDE_FOLDER = ".claude/skills"
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# What git takes as [USER@]HOST:PATH, and the spellings of the same as an address.
_SSH = re.compile(r"(?:(?:git\+)?ssh(?:\+git)?://)?(?:[^/:@\s]+@)?(?P<host>[^/:@\s]+)(?::\d+/|[:/])(?P<path>[^/\s].*)")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_GIT_SECONDS = 120.0
_MOST_FOUND = 200
# Nothing of the user's own settings, no prompt, no hooks, no other protocol or host, no submodules, no links.
_GIT_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "credential.helper=",
    "protocol.allow=never",
    "http.followRedirects=false",
)
_PROXIES = ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY")


class FoundSkill(Struct, frozen=True):
    """A skill of another program, and the folder it is in."""

    skill: Skill
    folder: str


def fetch_skills(source: str, config: ToolsConfig, clock: Clock) -> Members:
    """Return all files at a folder, an archive, an address of an archive, or a git repository over https."""
    scheme = source.partition("://")[0].lower() if _ADDRESS.match(source) else ""
    if not scheme and (os.path.lexists(os.path.expanduser(source)) or not _is_ssh_address(source)):
        return _read_local(os.path.abspath(os.path.expanduser(source)), config.skills)
    if not scheme or "ssh" in scheme:
        raise _unsupported_ssh_error(source)
    address = urlsplit(source)
    if scheme != "https" and not (scheme == "http" and address.hostname in _LOOPBACK):
        raise BadRequest(
            f"skills are fetched over https only, not over {scheme}",
            fix="Give the https address of an archive or of a .git repository, or a folder.",
        )
    if address.path.endswith(".git"):
        return clone_skills(source, config.skills, protocol=scheme, pinned=_pin_address(source, config.web))
    data = asyncio.run(_download(source, config.web, config.skills, clock))
    try:
        return unpack(data, config.skills)
    except BadRequest as error:
        fix = f"For a git repository, give its address with .git: {source.rstrip('/')}.git"
        raise BadRequest(f"{source} is not an archive of skills: {error.message}", fix=fix) from error


def _is_ssh_address(source: str) -> bool:
    return ":" in source.partition("/")[0] and _SSH.fullmatch(source) is not None


def _unsupported_ssh_error(source: str) -> BadRequest:
    """Say what to do instead: no key of the user is used for what is fetched."""
    found = _SSH.fullmatch(source)
    https = f"its https address, such as https://{found['host']}/{found['path']}" if found else "its https address"
    return BadRequest(
        f"{source} is an ssh address; skills are fetched without your keys, over https only",
        fix=f"Give {https}, or clone it yourself and add the folder: git clone {source} skills, then"
        " moot skills add ./skills",
    )


def _pin_address(source: str, web: WebConfig) -> str:
    """Return git's setting that binds the host to the addresses that are permitted now; "" if it cannot be found.

    A host whose addresses are not permitted is refused, as for an archive.
    """
    from moot.tools.web.safe_http import parse_web_address, refused_error  # noqa: PLC0415 - slow to import

    url = parse_web_address(source)
    host, port = url.raw_host or "", url.port or 0
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        # A proxy may know the host; otherwise git reports it.
        return ""
    rules = PublicOnly(ports=web.ports, allow_private=web.allow_private)
    permitted = dict.fromkeys(str(each[4][0]) for each in found if rules.allows(str(each[4][0]), port))
    if not permitted:
        raise refused_error(url)
    return f"{host}:{port}:{','.join(f'[{each}]' if ':' in each else each for each in permitted)}"


def clone_skills(source: str, config: SkillConfig, *, protocol: str = "https", pinned: str = "") -> Members:
    """Return the files of the default branch of a repository; `pinned` is the setting of `_pin_address`."""
    git = shutil.which("git")
    if git is None:
        raise Unavailable("git is not installed", fix="Install it, or give the address of an archive.")
    with tempfile.TemporaryDirectory(prefix="moot-skills-") as folder:
        target = os.path.join(folder, "repository")
        more = [f"protocol.{protocol}.allow=always", *([f"http.curloptResolve={pinned}"] if pinned else [])]
        settings = [word for each in (*_GIT_SETTINGS, *more) for word in ("-c", each)]
        words = ["clone", "--quiet", "--no-tags", "--no-recurse-submodules", "--template="]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": folder,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }
        environment |= {name: os.environ[name] for name in _PROXIES if name in os.environ}

        def bound_size() -> None:
            # A repository is fetched as one file.
            resource.setrlimit(resource.RLIMIT_FSIZE, (config.archive_bytes, config.archive_bytes))

        def clone(*options: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [git, *settings, *words, *options, "--", source, target],
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_GIT_SECONDS,
                check=False,
                preexec_fn=bound_size,
            )

        try:
            done = clone("--depth=1")
            if done.returncode and "does not support shallow" in done.stderr:
                # A plain web server has no part of a history.
                done = clone()
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"{source} could not be fetched within {_GIT_SECONDS:g} seconds") from error
        if done.returncode:
            message = (done.stderr.strip().splitlines() or ["git failed"])[-1]
            raise Unavailable(f"{source} cannot be fetched: {message[:300]}", fix="Check the address.")
        return _read_local(target, config)


async def _download(source: str, web: WebConfig, config: SkillConfig, clock: Clock) -> bytes:
    from moot.tools.web.request import Request  # noqa: PLC0415 - the HTTP library is slow to import
    from moot.tools.web.safe_http import SafeHttp  # noqa: PLC0415

    limits = replace(web, max_bytes=config.archive_bytes, seconds=_GIT_SECONDS)
    client = SafeHttp.for_public(limits, clock=clock)
    answer = await client.fetch(Request(url=source))
    if answer.status >= 400:
        raise NotFound(f"{source} answered with status {answer.status}", fix="Check the address.")
    if answer.cut:
        raise TooLarge(f"{source} has more than {config.archive_bytes} bytes", fix="Raise [skills] archive_bytes.")
    return answer.body


def _read_local(path: str, config: SkillConfig) -> Members:
    if not os.path.lexists(path):
        raise NotFound(f"there is no {path}", fix="Give a folder, an archive or an https address.")
    parent, name = os.path.split(os.path.realpath(path))
    with ConfinedFolder(parent, OffLimits()) as ground:
        return gather_files(ground, ground.spot(name), config)


def find_claude_skills(cwd: str) -> list[FoundSkill]:
    """Return the skills in .claude/skills of the project around a folder, nearest first, and of the home folder."""
    found: dict[str, FoundSkill] = {}
    for folder in _list_skill_folders(cwd):
        for name in sorted(_list_names(folder))[:_MOST_FOUND]:
            skill = _read_skill(folder, name)
            if skill is not None:
                found.setdefault(skill.name, FoundSkill(skill, os.path.join(folder, name)))
    return list(found.values())


def _list_skill_folders(cwd: str) -> list[str]:
    start, root = os.path.realpath(cwd), find_root(cwd)
    folders = [start]
    while folders[-1] != root:
        folders.append(os.path.dirname(folders[-1]))
    return [os.path.join(folder, CLAUDE_FOLDER) for folder in dict.fromkeys((*folders, *homes()))]


def _list_names(folder: str) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _read_skill(folder: str, name: str) -> Skill | None:
    try:
        with ConfinedFolder(folder, OffLimits()) as ground:
            file, _ = ground.open_file(ground.spot(f"{name}/{SKILL_FILE}"))
            return parse_skill(os.read(file, 1 << 20), folder_name=name)
    except (Broken, MootError, OSError):
        # It is not a skill, or not one that can be read safely.
        return None
