"""Builds the files that make the daemon a service: a systemd unit, or a launchd property list. Pure."""

import plistlib
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

UNIT = "moot.service"
LABEL = "moot.daemon"
SYSTEM_UNITS = Path("/etc/systemd/system")


class UnitFile(Struct, frozen=True, kw_only=True):
    """A service file and the commands that start, stop and query it."""

    manager: str
    path: Path
    text: str
    start: Sequence[Sequence[str]]
    stop: Sequence[Sequence[str]]
    query: Sequence[str]


def systemd_user_unit(command: Sequence[str], environment: dict[str, str], *, config: Path) -> UnitFile:
    systemctl = ("systemctl", "--user")
    return UnitFile(
        manager="systemd",
        path=config / "systemd" / "user" / UNIT,
        text=_render_unit(command, environment, user="", target="default.target"),
        start=_starting(systemctl),
        stop=_stopping(systemctl),
        query=(*systemctl, "is-active", UNIT),
    )


def systemd_system_unit(command: Sequence[str], environment: dict[str, str], *, user: str) -> UnitFile:
    systemctl = ("systemctl",)
    return UnitFile(
        manager="systemd",
        path=SYSTEM_UNITS / UNIT,
        text=_render_unit(command, environment, user=user, target="multi-user.target"),
        start=_starting(systemctl),
        stop=_stopping(systemctl),
        query=(*systemctl, "is-active", UNIT),
    )


def launchd_agent(command: Sequence[str], environment: dict[str, str], *, home: Path, uid: int) -> UnitFile:
    path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    document = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "EnvironmentVariables": environment,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Interactive",
    }
    return UnitFile(
        manager="launchd",
        path=path,
        text=plistlib.dumps(document).decode(),
        start=(("launchctl", "bootstrap", f"gui/{uid}", str(path)),),
        stop=(("launchctl", "bootout", f"gui/{uid}/{LABEL}"),),
        query=("launchctl", "print", f"gui/{uid}/{LABEL}"),
    )


def _starting(systemctl: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return ((*systemctl, "daemon-reload"), (*systemctl, "enable", "--now", UNIT))


def _stopping(systemctl: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return ((*systemctl, "disable", "--now", UNIT), (*systemctl, "daemon-reload"))


def _render_unit(command: Sequence[str], environment: dict[str, str], *, user: str, target: str) -> str:
    lines = [
        "[Unit]",
        "Description=Moot daemon",
        "",
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        f"ExecStart={' '.join(_quote(word) for word in command)}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        *(f"Environment={_quote(f'{name}={value}')}" for name, value in sorted(environment.items())),
        *([f"User={user}"] if user else []),
        "Restart=on-failure",
        "RestartSec=2",
        # 78: the configuration is invalid; starting again would not help.
        "RestartPreventExitStatus=78",
        # Active runs get ten seconds to finish.
        "TimeoutStopSec=30",
        "KillMode=mixed",
        "",
        "[Install]",
        f"WantedBy={target}",
    ]
    return "\n".join(lines) + "\n"


def _quote(word: str) -> str:
    """Quote a word for a unit file, where % and $ have a meaning of their own."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
