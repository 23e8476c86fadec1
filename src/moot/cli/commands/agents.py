"""`moot agents`: lists and shows agents, their tools, and the agent files that failed to load."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from moot.cli import exits, output
from moot.cli.command_group import CommandGroup
from moot.cli.commands.agent_files import import_, keep, new, validate
from moot.cli.commands.agent_vocabulary import describe_vocabulary, dump_vocabulary, find_vocabulary, vocabulary
from moot.cli.commands.hooks import hooks
from moot.cli.connect import run_connected, send_request
from moot.cli.follow import tool_notices
from moot.cli.name_completion import complete_agents
from moot.cli.render import flow, plain_data, sanitize, terminal
from moot.client.connection import Connection
from moot.domain.errors import ConfigError, NotFound
from moot.wire import moot_pb2 as pb

# The narrowest terminal on which roles are listed.
_ROLE_WIDTH = 80


@click.group(cls=CommandGroup, invoke_without_command=True)
@output.json_option
@click.pass_context
def agents(context: click.Context) -> int | None:
    """List, show, create and check agents and their tools."""
    return _list() if context.invoked_subcommand is None else None


@agents.command("list")
@output.json_option
def list_agents() -> int:
    """List the agents. Broken files are listed with line and reason (exit 78)."""
    return _list()


def _list() -> int:
    answer = send_request(pb.ClientMessage(list_agents=pb.ListAgentsMsg())).agent_list
    found = answer.agents

    def render(_: Any) -> str:
        usable = [info for info in found if not info.flaw]
        columns = {
            "NAME": [info.name for info in usable],
            "SOURCE": [info.source for info in usable],
            "STATUS": ["inactive" if info.missing else info.status for info in usable],
            "ROLE": [info.role for info in usable],
            "MODEL": [info.model or "(default)" for info in usable],
            "DESCRIPTION": [info.description for info in usable],
        }
        # Most people have no agent with a role, and the column takes room from the descriptions.
        has_roles = any(columns["ROLE"]) and not 0 < terminal.terminal_width() < _ROLE_WIDTH
        shown = {head: cells for head, cells in columns.items() if head != "ROLE" or has_roles}
        return terminal.render_table(list(shown), list(zip(*shown.values(), strict=True)))

    code = _emit([plain_data.dump_agent(info) for info in found], render, [info.flaw for info in found if info.flaw])
    for warning in (each for info in found for each in info.warnings):
        output.print_note(terminal.paint("warning: ", sys.stderr, fg="yellow") + sanitize.clean(warning))
    _note_without_tools(found)
    if answer.hidden_examples:
        names = ", ".join(map(sanitize.line, answer.hidden_examples))
        output.print_note(output.wrap_prose(f"Hidden examples: {names}. Keep them: moot agents keep", indent="  "))
    return code


def _note_without_tools(found: Sequence[pb.AgentInfo]) -> None:
    """Say on stderr which agents have no tools, and why."""
    by_reason: dict[str, list[str]] = {}
    for info in found:
        if info.missing:
            by_reason.setdefault(sanitize.line(info.missing), []).append(sanitize.line(info.name))
    inactive = [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
    if inactive:
        output.print_note(output.wrap_prose(f"Inactive, can only chat: {'; '.join(inactive)}.", indent="  "))
    without = [sanitize.line(info.name) for info in found if tool_notices.lacks_tools(info) and not info.missing]
    if without:
        text = f"Without tools, because the model uses none: {', '.join(without)}. For tools: {tool_notices.FIX}."
        output.print_note(output.wrap_prose(text, indent="  "))


@agents.command()
@click.argument("name", shell_complete=complete_agents)
@output.json_option
def show(name: str) -> None:
    """Show agent NAME with its instruction."""
    info, written = run_connected(lambda connection: _fetch_agent(connection, name))

    def render(_: Any) -> str:
        width, name = terminal.row_width(sys.stdout), sanitize.name(info.name)
        about = flow.wrap_text(f"{name}  {sanitize.line(info.description)}", width, indent="  ")
        lines = [terminal.paint(name, bold=True) + about.removeprefix(name)]
        facts = [f"{key:12} {sanitize.line(value)}" for key, value in _agent_facts(info, written) if value]
        lines += [flow.wrap_text(fact, width, indent=" " * 13) for fact in facts]
        lines += [flow.wrap_text(row, width, indent=" " * 13) for row in _render_levels(info)]
        lines += ["", flow.wrap_text(sanitize.clean(info.instruction), width)] if info.instruction else []
        return "\n".join(lines)

    levels = {each.level: {"meaning": each.meaning, "tools": list(each.tools)} for each in info.levels}
    data = plain_data.dump_agent(info) | {"levels": levels}
    output.emit(data | {"vocabulary": dump_vocabulary(written) if written else None}, render=render)


async def _fetch_agent(connection: Connection, name: str) -> tuple[pb.AgentInfo, pb.VocabularyInfo | None]:
    info = (await connection.request(pb.ClientMessage(get_agent=pb.GetAgentMsg(name=name)))).agent_info
    return info, await find_vocabulary(connection, info.name)


def _render_levels(info: pb.AgentInfo) -> list[str]:
    """Say what each auto-approve level approves without asking; the one of the agent is marked."""
    current = info.auto_approve or "none"
    rows = [f"{'auto-approve':12} {sanitize.name(current)}{'' if info.auto_approve else ' (not stated)'}"]
    for each in info.levels:
        tools = ", ".join(map(sanitize.name, each.tools))
        mark = "*" if each.level == current else " "
        rows.append(f"  {mark} {sanitize.name(each.level):8} {sanitize.line(each.meaning)}{tools and f': {tools}'}")
    return rows


def _describe_status(info: pb.AgentInfo) -> str:
    """Say whether the agent is inactive, and why; empty if it is active."""
    if info.missing:
        return f"inactive, can only chat: {info.missing}"
    return "" if info.status == "active" else info.status


def _agent_facts(info: pb.AgentInfo, written: pb.VocabularyInfo | None) -> list[tuple[str, str]]:
    return [
        ("model", tool_notices.model_name(info) or "(default)"),
        ("source", info.source),
        ("status", _describe_status(info)),
        ("role", info.role),
        ("file", info.path),
        ("tools", "all" if info.all_tools else ", ".join(info.prefixes) or "none"),
        ("denied", ", ".join(info.denied)),
        ("keywords", ", ".join(info.keywords)),
        ("capabilities", ", ".join(info.capabilities)),
        ("accepts", info.accepts),
        ("returns", info.returns),
        ("cannot", ", ".join(info.cannot_do)),
        ("cannot yet", ", ".join(info.cannot_yet)),
        ("vocabulary", describe_vocabulary(written) if written else ""),
    ]


@agents.command()
@output.json_option
def status() -> int:
    """Show how agents work together: mode, teammates, sources; broken files are listed (exit 78)."""
    info = send_request(pb.ClientMessage(get_agent_status=pb.GetAgentStatusMsg())).agent_status

    def render(_: Any) -> str:
        counted = ", ".join(f"{count} {source}" for source, count in sorted(info.sources.items()))
        rows = [
            ("mode", info.mode),
            ("model", f"{info.default_model} ({info.provider})"),
            ("runtime", info.teammate_runtime or f"off: {info.runtime_off_reason}"),
            # Counts without the broken files would be misleading.
            ("teammates", "" if info.flaws else ", ".join(info.teammates) or "none"),
            ("delegation", f"at most {info.max_delegation_rounds} rounds a turn"),
            ("agents", "" if info.flaws else f"{counted}; {info.active} active"),
            ("folder", info.agents_dir),
            ("others", ", ".join(info.foreign_dirs)),
            ("memory", "on" if info.agent_memory else "off"),
            ("run ledger", "on" if info.run_ledger else "off"),
            ("hooks", ", ".join(info.hooks)),
        ]
        return "\n".join(f"{key:11} {sanitize.line(value)}" for key, value in rows if value)

    return _emit(_status_data(info), render, info.flaws)


def _status_data(info: pb.AgentStatus) -> dict[str, Any]:
    return {
        "mode": info.mode,
        "multi_agent": info.mode == "multi-agent",
        "teammate_runtime": info.teammate_runtime or None,
        "runtime_off_reason": info.runtime_off_reason or None,
        "max_delegation_rounds": info.max_delegation_rounds,
        "model": info.default_model,
        "provider": info.provider,
        "run_ledger": info.run_ledger,
        "agent_memory": info.agent_memory,
        "registry": ({} if info.flaws else {**dict(info.sources), "active": info.active})
        | {"agents_dir": info.agents_dir},
        "foreign_dirs": list(info.foreign_dirs),
        "teammates": None if info.flaws else list(info.teammates),
        "hooks": list(info.hooks),
        "flaws": list(info.flaws),
    }


@agents.command()
@click.argument("name", default="", shell_complete=complete_agents)
@click.option("--partition", is_flag=True, help="Show which agent has which tools as a teammate.")
@output.json_option
def tools(name: str, partition: bool) -> None:
    """Show the categories of tools: which are enabled, and why the others are not.

    With NAME, or with --partition, show the tools of that agent, or of each agent, as a teammate, and the tools no
    agent has.
    """
    found = send_request(pb.ClientMessage(list_agent_tools=pb.ListAgentToolsMsg())).agent_tool_list
    if name or partition:
        _show_partition(found, name)
    else:
        output.emit(_categories_data(found), render=lambda _: _render_categories(found))


def _render_categories(found: pb.AgentToolList) -> str:
    rows = [
        [each.name, "enabled" if each.enabled else "disabled", _describe_category(each)] for each in found.categories
    ]
    parts = [terminal.render_wrapped_table(["CATEGORY", "STATE", "TOOLS OR REASON"], rows)]
    if found.no_tools_reason:
        note = f"Agents with the default model use none of them: {sanitize.line(found.no_tools_reason)}."
        parts.append(output.wrap_prose(note, sys.stdout))
    return "\n\n".join(parts)


def _describe_category(category: pb.ToolCategory) -> str:
    if not category.enabled:
        return category.reason
    return ", ".join(category.tools) + (f" ({category.reason})" if category.reason else "")


def _categories_data(found: pb.AgentToolList) -> dict[str, Any]:
    return {
        "categories": [
            {
                "name": each.name,
                "description": each.description,
                "enabled": each.enabled,
                "reason": each.reason or None,
                "tools": list(each.tools),
            }
            for each in found.categories
        ],
        "no_tools_reason": found.no_tools_reason or None,
    }


def _show_partition(found: pb.AgentToolList, name: str) -> None:
    wanted = [info for info in found.agents if name in ("", info.agent)]
    if not wanted:
        fix = "`moot agents tools` lists all tools by category, `moot agents` all agents."
        raise NotFound(f"{name!r} is not an agent with tools of its own", fix=fix)

    def render(_: Any) -> str:
        rows = [[info.agent, "yes" if info.teammate else "no", ", ".join(info.tools) or "(none)"] for info in wanted]
        parts = [_render_left_out(info) for info in wanted if info.left_out]
        if not name:
            parts.append("Available to every agent with tools: " + sanitize.line(", ".join(found.shared)))
            parts.append("Available to no agent: " + (", ".join(map(_render_unmatched, found.unmatched)) or "(none)"))
        table = terminal.render_wrapped_table(["AGENT", "TEAMMATE", "TOOLS"], rows)
        return "\n\n".join([table, *(output.wrap_prose(part, sys.stdout) for part in parts)])

    output.emit(_tools_data(found, wanted), render=render)


def _render_left_out(info: pb.AgentTools) -> str:
    return sanitize.line(f"{info.agent} is not offered {', '.join(info.left_out)}: {info.left_out_reason}.")


def _render_unmatched(tool: pb.UnmatchedTool) -> str:
    return sanitize.line(f"{tool.name} (near {', '.join(tool.near)})" if tool.near else tool.name)


def _tools_data(found: pb.AgentToolList, wanted: Sequence[pb.AgentTools]) -> dict[str, Any]:
    return {
        "agents": [
            {
                "agent": info.agent,
                "source": info.source,
                "teammate": info.teammate,
                "tools": list(info.tools),
                "left_out": list(info.left_out),
                "left_out_reason": info.left_out_reason,
            }
            for info in wanted
        ],
        "shared": list(found.shared),
        "unmatched": [{"name": tool.name, "near": list(tool.near)} for tool in found.unmatched],
    }


def _emit(data: Any, render: Any, flaws: Sequence[str]) -> int:
    """Print the answer and the broken files, which also set the exit code."""
    broken = (
        ConfigError("\n".join(flaws), fix="Correct the file; it takes effect with the next message.") if flaws else None
    )
    output.emit(data, render=render, error=broken)
    for flaw in flaws:
        output.print_note(terminal.paint("error: ", sys.stderr, fg="red") + sanitize.clean(flaw))
    return int(exits.exit_for_error(broken)) if broken else 0


for command in (hooks, new, keep, validate, import_, vocabulary):
    agents.add_command(command)
