"""Checks of MCP servers for `moot doctor`."""

import shutil
from collections.abc import Iterable, Iterator

from moot.cli.commands.mcp import suggest_fix
from moot.cli.doctor import checks
from moot.cli.doctor.checks import Finding
from moot.cli.render.mcp_texts import list_waiting
from moot.daemon.paths import Paths
from moot.domain.mcp import McpConfig
from moot.wire import moot_pb2 as pb

_CHECK = "mcp"


def check_servers(servers: Iterable[pb.McpServerInfo]) -> Iterator[Finding]:
    """Findings from the server states that a running daemon reports."""
    for info in servers:
        if not info.enabled:
            yield checks.note(_CHECK, f"{info.name} is disabled.")
        elif info.problem:
            yield checks.error(_CHECK, f"{info.name} cannot be used: {info.problem}", suggest_fix(info))
        else:
            yield from _check_offer(info)


def _check_offer(info: pb.McpServerInfo) -> Iterator[Finding]:
    ready, refused = ([tool for tool in info.tools if tool.state == state] for state in ("ready", "refused"))
    waiting = list_waiting(info)
    unfit = f", {len(refused)} more cannot be used (moot mcp test {info.name})" if refused else ""
    yield checks.ok(_CHECK, f"{info.name} is ready: {_count_tools(len(ready))}{unfit}.")
    if waiting:
        names = ", ".join(tool.name for tool in waiting)
        fix = f"Read what they say and approve or deny them: moot mcp approve {info.name}"
        yield checks.warning(
            _CHECK, f"{info.name}: {_count_tools(len(waiting))} new or changed, and disabled: {names}.", fix
        )


def check_configuration(home: Paths) -> Iterator[Finding]:
    """Findings from the configuration alone. Used when no daemon answers."""
    config = checks.load_valid_config(home)
    if config is None:
        yield checks.skip_finding(_CHECK)
        return
    for server in config.tools.mcp.values():
        yield _check_server_config(server)


def _check_server_config(server: McpConfig) -> Finding:
    if not server.enabled:
        return checks.note(_CHECK, f"{server.name} is disabled.")
    if server.command and shutil.which(server.command) is None:
        fix = f"Install it, give its whole path in [mcp.{server.name}], or run: moot mcp rm {server.name}"
        return checks.error(_CHECK, f"{server.name} cannot be used: there is no program {server.command!r}.", fix)
    return checks.note(
        _CHECK, f"{server.name} was not checked, since no daemon is running; `moot mcp test {server.name}` asks it."
    )


def _count_tools(count: int) -> str:
    return f"{count} tool{'' if count == 1 else 's'}"
