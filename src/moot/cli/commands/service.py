"""`moot service`: runs the daemon as a service of systemd or launchd, restarted on failure and at boot or login."""

import asyncio
import os
import pwd
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.commands import stop_daemon
from moot.cli.connect import find_paths
from moot.cli.exits import Exit
from moot.cli.render import sanitize
from moot.cli.setup.config_edit import write_config
from moot.cli.setup.unit_files import UnitFile, launchd_agent, systemd_system_unit, systemd_user_unit
from moot.client import daemon_process
from moot.domain.errors import BadRequest, Forbidden, Unavailable

_SECONDS = 60.0
# Variables of this shell that the daemon needs in order to find the same files.
_KEPT_VARIABLES = ("MOOT_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "PATH")
_PROXY_VARIABLES = tuple(
    case(f"{kind}_proxy") for kind in ("http", "https", "all", "no") for case in (str.lower, str.upper)
)
# Where users keep programs of their own.
_PROGRAM_FOLDERS = (".local/bin", "bin")
# What to do where there is no service manager.
_WITHOUT = "Start the daemon with `moot up`, or give your service manager what --dry-run prints."
_F = TypeVar("_F", bound=Callable[..., Any])


@click.group(cls=CommandGroup, invoke_without_command=True)
@output.json_option
@click.pass_context
def service(context: click.Context) -> int:
    """Run the daemon as a service: install, uninstall, status. Without a command: status."""
    return int(context.invoke(status)) if context.invoked_subcommand is None else int(Exit.OK)


def _scope_options(command: _F) -> _F:
    system = click.option(
        "--system", is_flag=True, help="The service of the whole machine (needs root) instead of your own."
    )
    user = click.option("--user", "user", metavar="NAME", default="", help="With --system: the user it runs as.")
    return system(user(command))


@service.command()
@_scope_options
@click.option("--dry-run", is_flag=True, help="Print the file and the commands; change nothing.")
@output.json_option
def install(system: bool, user: str, dry_run: bool) -> None:
    """Write the service file, enable the service and start it."""
    found = _find_unit(system=system, user=user)
    if system and _find_account(name := _choose_user(user)) is None:
        raise BadRequest(f"there is no user {name!r} on this machine", fix="Create it, or name another with --user.")
    _note_left_out()
    data = {"manager": found.manager, "path": str(found.path), "text": found.text, "dry_run": dry_run}
    data["commands"] = [shlex.join(command) for command in found.start]
    if not dry_run:
        _require_program(found, system=system)
        _require_answer(found)
        _stop_own_daemon()
        write_config(found.path, found.text)
        # The service manager reads it as another user.
        found.path.chmod(0o644)
        _run_all(found.start)
    output.emit(data, render=_render_installed)


@service.command()
@_scope_options
@click.option("--dry-run", is_flag=True, help="Print what would be done; change nothing.")
@output.json_option
def uninstall(system: bool, user: str, dry_run: bool) -> None:
    """Stop and disable the service, and remove its file. Conversations and settings are kept."""
    found = _find_installed_unit(system=system, user=user)
    there = found.path.exists()
    # Where the service manager is gone, only the file is left.
    commands = found.stop if there and shutil.which(found.query[0]) else ()
    data = {"path": str(found.path), "installed": there, "removed": there and not dry_run, "dry_run": dry_run}
    data["commands"] = [shlex.join(command) for command in commands]
    if there and not dry_run:
        _require_root(system=system)
        removal = f"rm {shlex.quote(str(found.path))}"
        _run_all(commands, fix=f"Run it yourself to see more. If no service manager runs here: {removal}")
        found.path.unlink()
    output.emit(data, render=_render_uninstalled)


@service.command()
@_scope_options
@output.json_option
def status(system: bool, user: str) -> int:
    """Show whether the service is installed and active. Exits with 1 if it is not active."""
    found = _find_installed_unit(system=system, user=user)
    state = "not installed"
    if found.path.exists():
        state = _query(found) if shutil.which(found.query[0]) else f"installed, but {found.query[0]} is missing"
    data = {"path": str(found.path), "installed": found.path.exists(), "state": state, "active": state == "active"}
    output.emit(data, render=lambda _: f"{sanitize.line(state)} ({found.path})")
    return int(Exit.OK if data["active"] else Exit.RUN_FAILED)


def _find_unit(*, system: bool, user: str) -> UnitFile:
    command = daemon_process.SERVE
    names = (*_KEPT_VARIABLES, *_PROXY_VARIABLES)
    environment = {name: os.environ[name] for name in names if os.environ.get(name) and not _has_password(name)}
    if sys.platform == "darwin":
        if system:
            raise BadRequest("--system is for systemd", fix="Leave it out: the service starts when you log in.")
        return launchd_agent(command, environment, home=Path.home(), uid=os.getuid())
    if not system:
        if user:
            raise BadRequest("--user needs --system", fix="Without --system the service runs as you.")
        config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return systemd_user_unit(command, environment, config=config)
    name = _choose_user(user)
    if not name or name == "root":
        raise BadRequest("a system service needs the user it runs as", fix="Add --user NAME; not root.")
    return systemd_system_unit(command, _adapt_environment(environment, name), user=name)


def _choose_user(given: str) -> str:
    return given or os.environ.get("SUDO_USER", "")


def _find_account(name: str) -> pwd.struct_passwd | None:
    # Not every user is in a list of all: those of a directory service are found by name only.
    with suppress(KeyError):
        return pwd.getpwnam(name)
    return None


def _has_password(name: str) -> bool:
    """Whether a variable names a proxy with a login."""
    return name in _PROXY_VARIABLES and "@" in os.environ.get(name, "")


def _note_left_out() -> None:
    for name in filter(_has_password, _PROXY_VARIABLES):
        output.print_note(
            output.wrap_prose(
                f"{name} is left out: it has a password, and other users can read the service file. "
                'Store the address with `moot secrets set NAME` and set `proxy = "secret:NAME"` in [network].',
                indent="  ",
            )
        )


def _find_installed_unit(*, system: bool, user: str) -> UnitFile:
    """The unit to query or remove: where it is does not depend on the user it runs as."""
    return _find_unit(system=system, user=user or ("nobody" if system else ""))


def _adapt_environment(environment: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the variables for a daemon of this user, without those of another user's shell, such as root's."""
    account = _find_account(name)
    if account is not None and account.pw_uid == os.getuid():
        return dict(environment)
    kept = {key: value for key, value in environment.items() if not key.startswith("XDG_")}
    places = [Path(account.pw_dir, part) for part in _PROGRAM_FOLDERS] if account is not None else []
    own = [folder for folder in places if folder.is_dir()]
    folders = [Path(folder) for folder in environment.get("PATH", os.defpath).split(os.pathsep) if folder]
    others = [folder for folder in folders if not folder.is_relative_to(Path.home())]
    kept["PATH"] = os.pathsep.join(map(str, dict.fromkeys((*own, *others))))
    return kept


def _require_program(found: UnitFile, *, system: bool) -> None:
    if not shutil.which(found.query[0]):
        raise Unavailable(f"{found.query[0]} is not available here", fix=_WITHOUT)
    _require_root(system=system)


def _require_root(*, system: bool) -> None:
    if system and os.geteuid() != 0:
        raise Forbidden("a system service can only be changed by root", fix="Use sudo, or leave out --system.")


def _require_answer(found: UnitFile) -> None:
    """Raise if systemd does not run here, as in a container, before anything is stopped or written."""
    if found.manager == "systemd":
        done = subprocess.run(found.query, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if not done.stdout.strip():
            reason = sanitize.line(done.stderr) or f"exit code {done.returncode}"
            raise Unavailable(f"systemd does not answer here: {reason}", fix=_WITHOUT)


def _stop_own_daemon() -> None:
    """Stop a daemon that was started by a command; the service starts its own."""
    home = find_paths()
    if daemon_process.is_locked(home.lock):
        output.print_note("Stopping the daemon that runs now; the service starts its own.")
        asyncio.run(stop_daemon.stop(home, now=False, seconds=_SECONDS))


def _run_all(commands: Sequence[Sequence[str]], *, fix: str = "Run it yourself to see more.") -> None:
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode != 0:
            text = sanitize.clean((done.stderr or done.stdout).strip()) or f"exit code {done.returncode}"
            raise Unavailable(f"`{shlex.join(command)}` failed: {text}", fix=fix)


def _query(found: UnitFile) -> str:
    done = subprocess.run(found.query, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if found.manager == "launchd":
        return "active" if done.returncode == 0 else "inactive"
    return done.stdout.strip() or "unknown"


def _render_installed(data: dict[str, Any]) -> str:
    if data["dry_run"]:
        commands = "\n".join(data["commands"])
        return f"# {data['path']}\n{data['text']}\n# Then:\n{commands}"
    lines = [f"Installed {data['path']}. The daemon runs, and is restarted when it fails."]
    if data["manager"] == "systemd" and data["commands"][0].startswith("systemctl --user"):
        lines.append("It stops when you log out, unless you run: loginctl enable-linger")
    return "\n".join(lines)


def _render_uninstalled(data: dict[str, Any]) -> str:
    if not data["installed"]:
        return f"The service is not installed ({data['path']})."
    if data["dry_run"]:
        return "\n".join(["Would run:", *data["commands"], f"rm {shlex.quote(data['path'])}"])
    if not data["commands"]:
        return f"Removed {data['path']}; its service manager is not available here."
    return f"Removed {data['path']}. The daemon is stopped; commands start it again when they need it."
