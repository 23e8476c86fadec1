"""`moot mcp`: adds, lists, tests, approves and removes MCP servers. Edits config.toml with `setup.mcp_edit`."""

import re
from contextlib import suppress
from typing import Any

import click

from moot.cli import exits, output
from moot.cli.connect import find_paths, send_request
from moot.cli.render import sanitize, terminal
from moot.cli.setup import mcp_edit, mcp_paths
from moot.cli.setup.config_edit import write_config
from moot.client.errors import Unreachable
from moot.daemon.config.mcp_keys import build_mcp_config
from moot.domain.errors import BadRequest, ConfigError, MootError, Unavailable
from moot.domain.prompt import Safety
from moot.wire import moot_pb2 as pb

_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)


@click.group()
def mcp() -> None:
    """Manage MCP servers: add, list, rm, test, approve."""


@mcp.command(context_settings={"ignore_unknown_options": False})
@click.argument("name")
@click.argument("command", nargs=-1)
@click.option("--url", default="", help="The address of a server over streamable HTTP, instead of a command.")
@click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="A variable; the value may be env:VARIABLE.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; likewise.")
@click.option("--cwd", default="", help="Working directory of the command, the only folder it can write to.")
@click.option("--readable", multiple=True, metavar="DIR", help="Another folder it may read; may be repeated.")
@click.option("--network", is_flag=True, help="Allow network access from the sandbox.")
@click.option("--no-sandbox", is_flag=True, help="Run it without the sandbox, with your own permissions.")
@click.option(
    "--safety",
    type=click.Choice([safety.value for safety in Safety]),
    help="Safety level of its tools. Default: dangerous.",
)
@click.option("--replace", is_flag=True, help="Replace the server of that name.")
@click.option("--no-test", is_flag=True, help="Do not connect to it now.")
@output.json_option
def add(name: str, command: tuple[str, ...], **options: Any) -> int:
    """Add the server NAME: `moot mcp add files -- npx some-server --flag`, or with --url. Then test it.

    Its tools are named mcp__NAME__tool, and ask before they run unless --safety says otherwise. A command runs in the
    sandbox, without network and with a folder of its own, unless you say otherwise. The folder of a script among its
    arguments becomes readable. Exits with 69 if it was added but cannot be used yet.
    """
    text = mcp_edit.read_config(find_paths().config)
    table, lent = mcp_paths.add_script_folders(_build_table(command, options), _read_surroundings(text))
    _require_valid(name, table)
    if options["replace"] and mcp_edit.find_server(text, name):
        text = mcp_edit.remove_server(text, name)
    write_config(find_paths().config, mcp_edit.add_server(text, name, table))
    told = _reload()
    info, problem = (None, None) if options["no_test"] else _try_server(name)
    said = [f"Added {name} to {find_paths().config}."]
    said += [
        f"readable: {sanitize.line(folder)} (the folder of {sanitize.line(script)})" for folder, script in lent.items()
    ]
    said += [_render_offer(info)] if info is not None and problem is None else []
    said += [f"`moot mcp test {name}` shows its tools."] if options["no_test"] else []
    data = {"name": name, "config": str(find_paths().config), "reloaded": told, "readable": table.get("readable", [])}
    data |= {"server": _server_data(info) if info is not None else None}
    output.emit(data, render=lambda _: "\n".join(said), error=problem)
    if problem is not None and not output.wants_json():
        output.print_error(problem)
    return int(exits.exit_for_error(problem) if problem is not None else exits.Exit.OK)


def _build_table(command: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {"command": command[0], "args": list(command[1:])} if command else {}
    table |= {key: value for key, value in options.items() if key in ("url", "cwd", "safety") and value}
    table |= {"network": True} if options["network"] else {}
    table |= {"sandbox": "off"} if options["no_sandbox"] else {}
    table |= {"readable": list(options["readable"])} if options["readable"] else {}
    return table | {key: _parse_pairs(options[key]) for key in ("env", "headers") if options[key]}


def _require_valid(name: str, table: dict[str, Any]) -> None:
    plain = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in table.items()
        if key not in ("env", "headers")
    }
    _, problems = build_mcp_config(name, table, plain)
    if problems:
        raise BadRequest("; ".join(reason for _, reason in problems), fix="`moot mcp add --help` shows how it is done.")


def _read_surroundings(text: str) -> mcp_paths.Surroundings:
    sandbox = mcp_edit.parse_config(text).get("sandbox", {})
    return mcp_paths.Surroundings(sandbox=sandbox if isinstance(sandbox, dict) else {}, own=find_paths().own)


def _try_server(name: str) -> tuple[pb.McpServerInfo | None, MootError | None]:
    """Connect to a server; returns its tools, or the error."""
    try:
        with output.progress(f"Asking {sanitize.line(name)}"):
            (info,) = _send_request(pb.ListMcpMsg(name=name, connect=True))
    except MootError as error:
        return None, error
    return info, unusable_error(info) if info.problem else None


def unusable_error(info: pb.McpServerInfo) -> Unavailable:
    """The error for a server that cannot be used, with a fix."""
    return Unavailable(f"{info.name} cannot be used: {info.problem}", fix=suggest_fix(info))


def suggest_fix(info: pb.McpServerInfo) -> str:
    """The fix for a server that cannot be used, based on its current table."""
    text = mcp_edit.read_config(find_paths().config)
    return mcp_paths.suggest_fix(
        info.name, mcp_edit.find_server(text, info.name), info.problem, _read_surroundings(text)
    )


def _render_offer(info: pb.McpServerInfo) -> str:
    names = [tool.name for tool in info.tools if tool.state == "ready"]
    waiting = len(info.tools) - len(names)
    said = f"{len(names)} tool{'s' * (len(names) > 1)}: {', '.join(names)}." if names else "It offers no usable tools."
    return sanitize.line(said) + (f" {waiting} more: see `moot mcp test {info.name}`." if waiting else "")


@mcp.command("list")
@output.json_option
def list_servers() -> None:
    """List the servers and the number of usable tools."""
    found = _send_request(pb.ListMcpMsg())

    def render(_: Any) -> str:
        rows = [
            [info.name, _render_state(info), _render_count(info), info.sandbox or "remote", info.target]
            for info in found
        ]
        return (
            terminal.render_table(["NAME", "STATE", "TOOLS", "HELD BY", "TARGET"], rows)
            or "No MCP servers; add one with `moot mcp add`."
        )

    output.emit([_server_data(info) for info in found], render=render)


@mcp.command()
@click.argument("name")
@output.json_option
def rm(name: str) -> None:
    """Remove server NAME from the configuration and stop it."""
    write_config(find_paths().config, mcp_edit.remove_server(mcp_edit.read_config(find_paths().config), name))
    told = _reload()
    output.emit({"name": name, "removed": True, "reloaded": told}, render=lambda _: f"Removed {sanitize.line(name)}.")


@mcp.command()
@click.argument("name")
@output.json_option
def test(name: str) -> None:
    """Connect to server NAME and show its tools, including changed ones."""
    info, problem = _try_server(name)
    if info is None or problem is not None:
        raise problem or Unavailable(f"{name} did not answer")

    def render(_: Any) -> str:
        rows = [[tool.name, tool.state, tool.safety, _render_tool(tool)] for tool in info.tools]
        return (
            terminal.render_table(["TOOL", "STATE", "SAFETY", "WHAT"], rows)
            or f"{sanitize.line(info.name)} offers no tools."
        )

    output.emit(_server_data(info), render=render)


@mcp.command()
@click.argument("name")
@click.argument("tool", default="")
@output.json_option
def approve(name: str, tool: str) -> None:
    """Approve changes of the tools of NAME, or of TOOL only. Review them first with `moot mcp test`."""
    request = pb.ApproveMcpMsg(name=name, tool=tool)
    agreed = list(send_request(pb.ClientMessage(approve_mcp=request)).mcp_approved.tools)
    output.emit(
        {"name": name, "approved": agreed},
        render=lambda _: f"Approved: {sanitize.line(', '.join(agreed))}." if agreed else "Nothing has changed.",
    )


def _send_request(request: pb.ListMcpMsg) -> list[pb.McpServerInfo]:
    return list(send_request(pb.ClientMessage(list_mcp=request)).mcp_list.servers)


def _reload() -> bool:
    """Tell a running daemon to reload; otherwise the file is read at the next start."""
    with suppress(Unreachable):
        send_request(pb.ClientMessage(reload=pb.ReloadMsg()), start=False)
        return True
    return False


def _parse_pairs(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadRequest("variables and headers have the form NAME=VALUE", fix="For example: --env LEVEL=debug")
        if _SECRET_NAME.search(name) and not value.startswith(("env:", "keyring:")):
            # The value is not repeated: it is likely the secret itself.
            raise ConfigError(
                f"{name} looks like a secret, which does not belong in the configuration",
                fix=f"Put it into an environment variable of the daemon and write {name}=env:THAT_VARIABLE.",
            )
        found[name] = value
    return found


def _render_state(info: pb.McpServerInfo) -> str:
    if not info.enabled:
        return "off"
    changed = any(tool.state == "changed" for tool in info.tools)
    return info.problem or ("changed, see `moot mcp test`" if changed else "ready" if info.tools else "not asked yet")


def _render_tool(tool: pb.McpToolInfo) -> str:
    """A tool with its full description, which is what the user approves, and why it is disabled."""
    return f"({tool.reason}) {tool.description}" if tool.reason else tool.description


def _render_count(info: pb.McpServerInfo) -> str:
    return f"{sum(tool.state == 'ready' for tool in info.tools)} of {len(info.tools)}"


def _server_data(info: pb.McpServerInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "target": info.target,
        "enabled": info.enabled,
        "problem": info.problem,
        "sandbox": info.sandbox,
        "tools": [
            {
                "tool": tool.tool,
                "name": tool.name,
                "description": tool.description,
                "state": tool.state,
                "reason": tool.reason,
                "safety": tool.safety,
            }
            for tool in info.tools
        ],
    }
