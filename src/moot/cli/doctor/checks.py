"""The checks of `moot doctor`. Each one only reads, and returns findings."""

import asyncio
import importlib.metadata
import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from moot import __version__
from moot.cli.follow import tool_notices
from moot.cli.render import numbers
from moot.client import daemon_process
from moot.daemon.paths import Paths
from moot.domain.agent import FileProblem
from moot.domain.config import Config, default_config
from moot.domain.errors import ConfigError, Unavailable
from moot.domain.ports.model import ToolSupport
from moot.domain.reference import SECRET

# A note is informational: there is nothing to fix.
OK, NOTE, WARNING, ERROR = "ok", "note", "warning", "error"
LITTLE_DISK = 100_000_000
LOW_DISK = 1_000_000_000
_EXTRAS = {"xllamacpp": "local", "keyring": "keyring"}


class Finding(Struct, frozen=True, kw_only=True):
    level: str
    check: str
    message: str
    fix: str = ""


def ok(check: str, message: str) -> Finding:
    return Finding(level=OK, check=check, message=message)


def note(check: str, message: str) -> Finding:
    return Finding(level=NOTE, check=check, message=message)


def warning(check: str, message: str, fix: str) -> Finding:
    return Finding(level=WARNING, check=check, message=message, fix=fix)


def error(check: str, message: str, fix: str) -> Finding:
    return Finding(level=ERROR, check=check, message=message, fix=fix)


def run_check(check: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Run one check; an exception becomes a finding, so that the other checks still run."""
    found: list[Finding] = []
    try:
        found.extend(look())
    except Exception as problem:  # noqa: BLE001 - doctor must work even if everything else is broken
        fix = getattr(problem, "fix", "") or "Correct this first; other findings may explain it."
        found.append(error(check, f"The check failed: {type(problem).__name__}: {problem}", fix))
    return found


# ---- versions, disk and permissions -------------------------------------------------------------


def versions() -> Iterator[Finding]:
    yield ok("versions", f"Moot {__version__} on Python {platform.python_version()}, {platform.system()}.")
    import apsw  # noqa: PLC0415 - a broken installation of it is something to find

    yield ok("versions", f"SQLite {apsw.sqlite_lib_version()}.")
    for package, extra in _EXTRAS.items():
        try:
            yield ok("versions", f"{package} {importlib.metadata.version(package)} (extra '{extra}').")
        except importlib.metadata.PackageNotFoundError:
            yield note("versions", f"{package} is not installed; pip install 'moot[{extra}]' adds it.")


def user() -> Iterator[Finding]:
    if os.geteuid() == 0:
        fix = "Run Moot as an ordinary user: agents act with its permissions, and the sandbox is weaker for root."
        yield warning("user", "Moot runs as root.", fix)


def program() -> Iterator[Finding]:
    """Find files that uv or conda have linked into several environments: who writes in one changes all."""
    loaded = {getattr(module, "__file__", None) for module in tuple(sys.modules.values())}
    shared = [path for path in loaded if path and path.startswith(f"{sys.prefix}/") and _is_shared(path)]
    if shared:
        text = "Files of Moot's program are hard links and may also be in other virtual environments: a command"
        fix = "Install Moot again with copies; with uv, set UV_LINK_MODE=copy and use --reinstall."
        yield warning("program", f"{text} of an agent that writes in one of those could change Moot.", fix)


def _is_shared(path: str) -> bool:
    try:
        return os.stat(path).st_nlink > 1 and os.access(path, os.W_OK)
    except OSError:
        return False


def disk(home: Paths) -> Iterator[Finding]:
    folder = next(folder for folder in (home.data, *home.data.parents) if folder.exists())
    free = shutil.disk_usage(folder).free
    text = f"{numbers.format_size(free)} are free for {home.data}."
    if free < LITTLE_DISK:
        yield error("disk", text, "Free some disk space; Moot refuses messages it cannot store.")
    elif free < LOW_DISK:
        yield warning("disk", text, "Free some disk space soon.")
    else:
        yield ok("disk", text)


def permissions(home: Paths) -> Iterator[Finding]:
    folders = {home.config.parent, home.agents, home.run, home.data, home.logs}
    clean = True
    for path in sorted(path for path in (*folders, home.config, home.store) if os.path.lexists(path)):
        for finding in _check_access(path, is_folder=path in folders):
            clean = False
            yield finding
    missing = next((each for each in (home.data, *home.data.parents) if each.exists()), Path("/"))
    if not os.access(missing, os.W_OK | os.X_OK):
        clean = False
        yield error(
            "permissions",
            f"{missing} cannot be written to.",
            "Correct its permissions, or set MOOT_HOME to your own folder.",
        )
    if clean:
        yield ok("permissions", "Only you can access Moot's files and folders.")


def _check_access(path: Path, *, is_folder: bool) -> Iterator[Finding]:
    status = path.stat()
    if is_folder != stat.S_ISDIR(status.st_mode):
        kind = "a folder" if is_folder else "a file"
        yield error("permissions", f"{path} should be {kind}.", f"Move {path} away.")
        return
    if not os.access(path, os.R_OK | os.W_OK | (os.X_OK if is_folder else 0)):
        yield error("permissions", f"{path} cannot be read and written by you.", f"chown or chmod u+rw {path}")
    # Other users must not be able to change configuration and agents, or read conversations.
    forbidden = 0o077 if path.name in ("run", "data", "moot.db") else 0o022
    if status.st_mode & forbidden:
        yield warning("permissions", f"{path} is open to other users.", f"chmod go-rwx {path}")


# ---- configuration and agents -------------------------------------------------------------------


def configuration(home: Paths) -> Iterator[Finding]:
    from moot.daemon.config.broken_config import BrokenConfig  # noqa: PLC0415 - it may be what is broken
    from moot.daemon.config.config_file import load_config  # noqa: PLC0415 - it may be what is broken

    try:
        _, flaws = load_config(home.config)
    except BrokenConfig as broken:
        for flaw in broken.errors:
            yield error("config", str(flaw), "Correct that line; `moot init` can write a new configuration.")
        yield from map(_warn_of_config, broken.warnings)
        return
    yield from map(_warn_of_config, flaws)
    if not flaws:
        there = home.config.exists()
        text = "is valid" if there else "does not exist; the defaults are used"
        yield (ok if there else note)("config", f"{home.config} {text}.")


def _warn_of_config(flaw: FileProblem) -> Finding:
    return warning("config", str(flaw), "Correct or remove that line.")


def agents(home: Paths) -> Iterator[Finding]:
    from moot.agents.registry import Registry  # noqa: PLC0415
    from moot.daemon.config.agent_keys import find_agents_folder, find_foreign_folders  # noqa: PLC0415

    config = load_valid_config(home)
    folder = find_agents_folder(config, home) if config else home.agents
    others = find_foreign_folders(config) if config else []
    models = config.models if config else {}
    for place in (folder, *others):
        if place.exists():
            os.listdir(place)  # says why when it cannot be read
    registry = Registry(folder, foreign_folders=others, models=lambda: models)
    for flaw in registry.flaws:
        yield error("agents", str(flaw), "Correct the file; it takes effect with the next message.")
    names = [agent.name for agent in registry.active()]
    yield ok("agents", f"{len(names)} loaded: {', '.join(names)}.")
    for agent in registry.all():
        for flaw in agent.warnings:
            yield warning("agents", str(flaw), "Correct or remove that line; `moot agents validate` checks it.")
        if config and agent.model and agent.model not in models:
            fix = f"Add [models.{agent.model}] to {home.config}, or use one of: {', '.join(sorted(models))}."
            yield error("agents", f"{agent.path}: there is no model '{agent.model}'.", fix)


def skills(home: Paths) -> Iterator[Finding]:
    from moot.tools.skills.library import SkillLibrary  # noqa: PLC0415

    if home.skills.exists():
        os.listdir(home.skills)  # says why when it cannot be read
    shelf = SkillLibrary(home.skills)
    for flaw in shelf.flaws:
        yield error("skills", str(flaw), "Correct the file; it takes effect with the next turn.")
    for skill in shelf.all():
        if not skill.is_described:
            text = f"{skill.name} is not offered to agents: its description is missing."
            yield warning("skills", text, f"Say what it does and when to use it, in {skill.folder}/SKILL.md.")
        elif skill.taint:
            text = f"{skill.name} is not offered to agents: an agent made it and you have not approved its text."
            yield warning("skills", text, f"Read it and approve it: moot skills trust {skill.name}")
    names = [skill.name for skill in shelf.list_offered() if not skill.taint]
    if names:
        yield ok("skills", f"{len(names)} loaded: {', '.join(names)}.")


def sandbox(home: Paths) -> Iterator[Finding]:
    """Detect the available sandbox by trying it. Used when no daemon answers."""
    from moot.daemon.clock import SystemClock  # noqa: PLC0415
    from moot.tools.sandbox.sandbox import Sandbox  # noqa: PLC0415

    config = load_valid_config(home)
    if config is None:
        yield skip_finding("sandbox")
        return
    sandbox = Sandbox(config.tools.sandbox, clock=SystemClock(), protected=home.own, workspaces=home.workspaces)
    report = sandbox.describe()
    level = OK if report.confined else WARNING if report.usable else ERROR
    yield Finding(level=level, check="sandbox", message=report.sentence(), fix=report.fix)


def search() -> Iterator[Finding]:
    from moot.tools.files.ripgrep import find_ripgrep  # noqa: PLC0415

    try:
        yield ok("search", f"ripgrep is {find_ripgrep()}.")
    except Unavailable as missing:
        yield warning(
            "search", f"{missing.message.capitalize()}, so fs_search and fs_glob cannot be used.", missing.fix
        )


def load_valid_config(home: Paths) -> Config | None:
    """The configuration, or None if it is broken, which is reported by another check."""
    from moot.daemon.config.broken_config import BrokenConfig  # noqa: PLC0415
    from moot.daemon.config.config_file import load_config  # noqa: PLC0415

    try:
        return load_config(home.config)[0]
    except BrokenConfig:
        return None


def skip_finding(check: str) -> Finding:
    return warning(check, "Not checked: the configuration is broken.", "Correct it, then run `moot doctor` again.")


def models(home: Paths) -> Iterator[Finding]:
    """Check the models from here. Used when no daemon answers; keys in the vault are left to the daemon."""
    from moot.daemon.clock import SystemClock  # noqa: PLC0415
    from moot.models.catalog import Catalog  # noqa: PLC0415

    config = load_valid_config(home)
    if config is None:
        yield skip_finding("models")
        return
    catalog = Catalog(config, clock=SystemClock(), data_dir=home.data)
    for name in catalog.names:
        if config.models[name].api_key.startswith(f"{SECRET}:"):
            yield note("models", f"{name}: its key is in the vault, which a running daemon checks.")
            continue
        problem = asyncio.run(catalog.find_problem(name))
        tools = "" if problem else catalog.get(name).tools
        yield check_model(config, name, problem=problem, tools=tools)


def check_model(config: Config, name: str, *, problem: str, tools: str) -> Finding:
    """The finding about one model of the configuration."""
    fix = "`moot init` sets up another model."
    is_default = name == config.default_model
    if not problem and is_default and tools == ToolSupport.NONE:
        text = f"{name} (default) is ready. It does not support tools, so its agents can only chat."
        return Finding(level=OK, check="models", message=text, fix=f"For tools: {tool_notices.FIX}.")
    if not problem:
        return ok("models", f"{name}{' (default)' if is_default else ''} is ready.")
    if is_default:
        return error("models", f"{name} (default): {problem}", fix)
    if config.models.get(name) == default_config().models.get(name):
        return note("models", f"{name} (not in use): {problem}")
    return warning("models", f"{name}: {problem}", fix)


# ---- leftovers of a daemon and the store --------------------------------------------------------


def leftovers(home: Paths) -> Iterator[Finding]:
    """Lock, pid file and socket in a home folder whose daemon does not answer."""
    if daemon_process.is_locked(home.lock):
        pid = daemon_process.running_pid(home) or "unknown"
        yield error(
            "daemon",
            f"A daemon (pid {pid}) uses this home but does not answer at {home.socket}.",
            "Wait if it is starting or stopping; else stop it with `moot down --now` and see the log.",
        )
        return
    yield note("daemon", "Not running; commands start it.")
    stale = [path for path in (home.socket, home.pid) if os.path.lexists(path)]
    for path in stale:
        yield warning(
            "daemon",
            f"{path} is a leftover of a stopped daemon.",
            f"The next start replaces it; to remove it: rm {path}",
        )


def listen(home: Paths) -> Iterator[Finding]:
    """Check that the configured addresses can be listened on. Only when no daemon of this home runs."""
    from moot.daemon.address import HTTP_PORT, TCP_PORT, bind, parse_listen  # noqa: PLC0415

    config = load_valid_config(home)
    if config is None:
        yield skip_finding("listen")
        return
    for setting, text, port in (("tcp", config.listen.tcp, TCP_PORT), ("http", config.listen.http, HTTP_PORT)):
        # The daemon also starts if a default port is taken.
        if text in ("", "off"):
            continue
        name = f"listen.{setting}"
        try:
            bind(parse_listen(text, default_port=port, setting=name), setting=name).close()
        except ConfigError as problem:
            yield error("listen", f"{problem.message}.", problem.fix)


def store(home: Paths) -> Iterator[Finding]:
    """Check the store directly. Only when no daemon has it open."""
    from moot.store import migrate  # noqa: PLC0415 - a broken installation of SQLite is something to find
    from moot.store.check import check  # noqa: PLC0415
    from moot.store.connection import FAULTS, Tuning, connect_reader  # noqa: PLC0415

    if not home.store.exists():
        yield note("store", f"{home.store} does not exist yet.")
        return
    fix = "Stop the daemon and restore a backup: moot restore FILE"
    try:
        connection = connect_reader(home.store, Tuning())
        try:
            have = migrate.version(connection)
            problems = check(connection) if have == migrate.newest() else []
        finally:
            connection.close(True)
    except FAULTS as fault:
        yield error("store", f"{home.store} cannot be read: {fault}", fix)
        return
    for problem in problems:
        yield error("store", problem, fix)
    if not problems:
        later = "" if have == migrate.newest() else "; the daemon brings it up to date when it starts"
        yield ok("store", f"The store is intact (schema {have}){later}.")
