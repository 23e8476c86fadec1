"""`moot mcp`: adds, lists, tests, approves, denies and removes MCP servers. Edits config.toml with `setup.mcp_edit`."""

import sys
from contextlib import suppress
from typing import Any

import click

from moot.cli import exits, output, prompts
from moot.cli.command_group import CommandGroup
from moot.cli.connect import find_paths, send_request
from moot.cli.follow import tool_notices
from moot.cli.options import cwd_option
from moot.cli.program import hint
from moot.cli.render import sanitize, terminal
from moot.cli.render.mcp_texts import list_waiting, render_texts
from moot.cli.setup import mcp_edit, mcp_paths
from moot.cli.setup.config_edit import write_config
from moot.cli.setup.mcp_options import AddCommand
from moot.client.errors import Unreachable
from moot.daemon.config.mcp_keys import build_mcp_config
from moot.domain.errors import BadRequest, Conflict, MootError, NotFound, Unavailable
from moot.domain.mcp import join_digests, text_digest
from moot.domain.prompt import Safety
from moot.wire import moot_pb2 as pb

_INTRODUCTION = "This text is part of every prompt of the agents that have the tool. It was written by the server."


@click.group(cls=CommandGroup, invoke_without_command=True)
@output.json_option
@click.pass_context
def mcp(context: click.Context) -> None:
    """Manage MCP servers: add, list, rm, test, approve, deny. Without a command: list."""
    if context.invoked_subcommand is None:
        _list()


@mcp.command(cls=AddCommand)
@click.argument("name")
@click.argument("command", nargs=-1)
@click.option("--url", default="", help="The address of a server over streamable HTTP, instead of a command.")
@click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="A variable; the value may be secret:NAME.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="Likewise for a header.")
@cwd_option("Working directory of the command, the only folder it can write to.")
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
@click.option("--approve", "digest", default="", metavar="DIGEST", help="Approve its texts if they have this digest.")
@output.json_option
def add(name: str, command: tuple[str, ...], **options: Any) -> int:
    """Add the server NAME: `moot mcp add files -- npx some-server --flag`, or with --url. Then test it.

    Its tools are named mcp__NAME__tool, and ask before they run unless --safety says otherwise. Its descriptions of
    the tools are shown, and agents are offered a tool only after you have approved it. A command runs in the
    sandbox, without network and with a folder of its own, unless you say otherwise; npx and uvx need --network. The
    folder of a script among its arguments becomes readable. Exits with 69 if it was added but cannot be used yet.
    """
    text = mcp_edit.read_config(find_paths().config)
    around = _read_surroundings(text)
    table, lent = mcp_paths.add_script_folders(_build_table(command, options), around)
    _require_valid(name, table)
    table |= _offer_network(table, around)
    if options["replace"] and mcp_edit.find_server(text, name):
        text = mcp_edit.remove_server(text, name)
    write_config(find_paths().config, mcp_edit.add_server(text, name, table))
    done = _reload()
    info, problem = (None, None) if options["no_test"] else _try_server(name)
    lines = [f"Added {name} to {find_paths().config}."]
    lines += [
        f"readable: {sanitize.line(folder)} (the folder of {sanitize.line(script)})" for folder, script in lent.items()
    ]
    if info is not None and problem is None:
        info = _review(info, options["digest"])
        lines.append(_render_offer(info))
        lines += tool_notices.list_searched_tools()
    lines += [hint(f"`moot mcp test {name}` shows its tools.")] if options["no_test"] else []
    data = {"name": name, "config": str(find_paths().config), "reloaded": done, "readable": table.get("readable", [])}
    data |= {"server": _server_data(info) if info is not None else None}
    output.emit(data, render=lambda _: "\n".join(lines), error=problem)
    if problem is not None and not output.wants_json():
        output.print_error(problem)
    return int(exits.exit_for_error(problem) if problem is not None else exits.Exit.OK)


def _build_table(command: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {"command": command[0], "args": list(command[1:])} if command else {}
    table |= {key: value for key, value in options.items() if key in ("url", "cwd", "safety") and value}
    table |= {"network": True} if options["network"] else {}
    table |= {"sandbox": "off"} if options["no_sandbox"] else {}
    table |= {"readable": list(options["readable"])} if options["readable"] else {}
    return table | {key: mcp_edit.parse_pairs(options[key]) for key in ("env", "headers") if options[key]}


def _offer_network(table: dict[str, Any], around: mcp_paths.Surroundings) -> dict[str, Any]:
    """Ask whether a command that downloads its package may use the network; without a terminal, say that it cannot."""
    runner = around.lacks_network(table)
    if not runner:
        return {}
    text = f"{sanitize.name(runner)} downloads what it runs, and the sandbox has no network."
    if sys.stdin.isatty() and not output.wants_json():
        return {"network": True} if prompts.confirm(f"{text} Allow network access?") else {}
    if not output.wants_json():
        output.print_prose(f"{text} Add --network to allow it.")
    return {}


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
        with output.progress(f"Asking {sanitize.name(name)}"):
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
    unfit = sum(tool.state == "refused" for tool in info.tools)
    parts = [f"{len(names)} tool{'s' * (len(names) > 1)}: {sanitize.line(', '.join(names))}."] if names else []
    parts += [hint(f"{unfit} more: see `moot mcp test {info.name}`.")] if unfit else []
    return " ".join([*parts, *_render_waiting(info)]) or "It offers no tools."


def _render_waiting(info: pb.McpServerInfo) -> list[str]:
    waiting = list_waiting(info)
    if not waiting:
        return []
    digest = join_digests(tool.digest for tool in waiting)
    few = f"{len(waiting)} tools wait" if len(waiting) > 1 else "1 tool waits"
    return [hint(f"{few} for your approval: moot mcp approve {info.name} --digest {digest}")]


def _review(info: pb.McpServerInfo, digest: str) -> pb.McpServerInfo:
    """Let the person at the terminal approve the texts of a new server, or approve those that have the digest."""
    waiting = list_waiting(info)
    if not waiting:
        return info
    if not digest and (output.wants_json() or not sys.stdin.isatty()):
        if not output.wants_json():
            output.print_note(render_texts(waiting))
        return info
    _decide(info, waiting, digest, approved=True, is_required=False)
    return _find_info(info.name)


@mcp.command("list")
@output.json_option
def list_servers() -> None:
    """List the servers, the number of usable tools, and what waits for approval."""
    _list()


def _list() -> None:
    found = _send_request(pb.ListMcpMsg(refresh=True))

    def render(_: Any) -> str:
        rows = [
            [info.name, _render_state(info), _render_count(info), info.sandbox or "remote", info.target]
            for info in found
        ]
        table = terminal.render_table(["NAME", "STATE", "TOOLS", "SANDBOX", "TARGET"], rows)
        waiting = [part for info in found if list_waiting(info) for part in ("", _render_review(info))]
        return "\n".join([table or hint("No MCP servers; add one with `moot mcp add`."), *waiting])

    output.emit([_server_data(info) for info in found], render=render)


@mcp.command()
@click.argument("name")
@output.json_option
def rm(name: str) -> None:
    """Remove server NAME from the configuration and stop it."""
    write_config(find_paths().config, mcp_edit.remove_server(mcp_edit.read_config(find_paths().config), name))
    done = _reload()
    output.emit({"name": name, "removed": True, "reloaded": done}, render=lambda _: f"Removed {sanitize.name(name)}.")


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
        table = terminal.render_table(["TOOL", "STATE", "SAFETY", "WHAT"], rows)
        review = ["", _render_review(info)] if list_waiting(info) else []
        return "\n".join([table or f"{sanitize.name(info.name)} offers no tools.", *review])

    output.emit(_server_data(info), render=render)


_DIGEST = click.option("--digest", default="", help="Decide without being asked, if the texts have this digest.")


@mcp.command()
@click.argument("name")
@click.argument("tool", default="")
@_DIGEST
@output.json_option
def approve(name: str, tool: str, digest: str) -> None:
    """Approve the descriptions of new and changed tools of server NAME, or of TOOL only.

    The exact texts are shown first, changes as differences. Without a terminal, --digest names the texts: `moot mcp
    test NAME` prints it.
    """
    _decide_command(name, tool, digest, approved=True)


@mcp.command()
@click.argument("name")
@click.argument("tool", default="")
@_DIGEST
@output.json_option
def deny(name: str, tool: str, digest: str) -> None:
    """Deny the new and changed tools of server NAME, or TOOL only, which may also be an approved one.

    Agents are not offered the tool, and it is not reported as waiting, until its text changes or you approve it.
    """
    _decide_command(name, tool, digest, approved=False)


def _decide_command(name: str, tool: str, digest: str, *, approved: bool) -> None:
    info = _find_info(name, connect=True)
    selected = _select(info, tool, approved=approved)
    decided = _decide(info, selected, digest, approved=approved) if selected else []
    word = "approved" if approved else "denied"
    lines = [f"{word.capitalize()}: {sanitize.line(', '.join(decided))}." if decided else "Nothing waits."]
    if decided and approved and not output.wants_json():
        lines += tool_notices.list_searched_tools()
    output.emit({"name": name, word: decided}, render=lambda _: "\n".join(lines))


def _select(info: pb.McpServerInfo, tool: str, *, approved: bool) -> list[pb.McpToolInfo]:
    """Return the waiting tools; or the named one, whose decision may be changed."""
    if not tool:
        return list_waiting(info)
    named = [each for each in info.tools if tool in (each.tool, each.name)]
    if not named:
        raise NotFound(f"{info.name} has no tool {tool!r}", fix=f"`moot mcp test {info.name}` lists them.")
    if named[0].state == "refused":
        raise BadRequest(f"{tool} cannot be used: {named[0].reason}")
    done = "ready" if approved else "denied"
    return [each for each in named if each.state != done]


def _decide(
    info: pb.McpServerInfo, tools: list[pb.McpToolInfo], digest: str, *, approved: bool, is_required: bool = True
) -> list[str]:
    """Show the texts and ask, or compare them with the digest; then decide about exactly these texts."""
    shown = join_digests(tool.digest for tool in tools)
    if any(tool.digest != text_digest(tool.text) for tool in tools):
        raise Conflict("the digests do not belong to the texts", fix="Restart the daemon, then try again.")
    if digest and digest != shown:
        raise Conflict(
            f"the tool descriptions of {info.name} do not match the digest {digest[:64]}",
            fix=f"Read it with `moot mcp test {info.name}`.",
        )
    if not digest:
        verb = "approve" if approved else "deny"
        if output.wants_json() or not sys.stdin.isatty():
            if not output.wants_json():
                output.print_note(render_texts(tools))
            raise BadRequest(
                f"nothing was decided: there is no terminal to confirm on; the digest of the texts is {shown}",
                fix=f"Read them, then add --digest {shown}",
            )
        output.print_note(f"{_INTRODUCTION}\n\n{render_texts(tools)}\n")
        if not prompts.confirm(f"{verb.capitalize()} {_count(tools)}?"):
            if is_required:
                raise click.Abort
            return []
    request = pb.ApproveMcpMsg(name=info.name, digests=[tool.digest for tool in tools], deny=not approved)
    return list(send_request(pb.ClientMessage(approve_mcp=request)).mcp_approved.tools)


def _count(tools: list[pb.McpToolInfo]) -> str:
    return f"{len(tools)} tools" if len(tools) > 1 else tools[0].name


def _render_review(info: pb.McpServerInfo) -> str:
    return "\n".join([render_texts(list_waiting(info)), "", *_render_waiting(info)])


def _find_info(name: str, *, connect: bool = False) -> pb.McpServerInfo:
    (info,) = _send_request(pb.ListMcpMsg(name=name, connect=connect))
    if info.problem:
        raise unusable_error(info)
    return info


def _send_request(request: pb.ListMcpMsg) -> list[pb.McpServerInfo]:
    return list(send_request(pb.ClientMessage(list_mcp=request)).mcp_list.servers)


def _reload() -> bool:
    """Tell a running daemon to reload; otherwise the file is read at the next start."""
    with suppress(Unreachable):
        send_request(pb.ClientMessage(reload=pb.ReloadMsg()), start=False)
        return True
    return False


def _render_state(info: pb.McpServerInfo) -> str:
    if not info.enabled:
        return "off"
    waiting = f"{len(list_waiting(info))} to approve" if list_waiting(info) else ""
    return hint(info.problem) or waiting or ("ready" if info.tools else "not asked yet")


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
                "digest": tool.digest,
                "text": tool.text,
                "approved_text": tool.approved_text,
            }
            for tool in info.tools
        ],
        "waiting": join_digests(tool.digest for tool in list_waiting(info)) if list_waiting(info) else "",
    }
