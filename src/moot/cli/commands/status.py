"""`moot status`: what the daemon is doing, what waits for the owner, and which files are broken."""

import sys
from datetime import timedelta
from typing import Any

import click

from moot.cli import output
from moot.cli.commands.reload import files_error, find_config_flaws, print_flaws
from moot.cli.connect import find_paths, remote_address, run_connected
from moot.cli.exits import Exit
from moot.cli.follow import open_asks
from moot.cli.program import hint
from moot.cli.render import flow, job_lines, numbers, plain_data, sanitize, terminal
from moot.cli.render.mcp_texts import list_waiting
from moot.client.connection import Connection
from moot.domain.errors import ConfigError, Forbidden
from moot.wire import moot_pb2 as pb

# A window with fewer columns has no room for all columns of a table.
_NARROW = 80


@click.command()
@output.json_option
def status() -> int:
    """Show what the daemon is doing. Does not start it."""
    stats, active, agents, asks, jobs, servers = run_connected(_fetch_status, start=False)
    broken_agents = [info.flaw for info in agents if info.flaw]
    flaws = broken_agents + find_config_flaws() + _find_skill_flaws()
    if broken_agents:
        # Counts without the broken files would be misleading.
        stats.ClearField("registered_agents")
    data = {
        "version": stats.version,
        "pid": stats.pid,
        "uptime_seconds": stats.uptime_secs,
        "model": stats.active_model,
        "mode": stats.mode,
        "agents": stats.registered_agents or None,
        "connections": stats.connections,
        "unauthenticated_connections": stats.unauthenticated_connections,
        "rejected_connections": stats.rejected_connections,
        "max_connections": stats.max_connections,
        "open_asks": len(asks),
        "rss_bytes": stats.rss_bytes,
        "store": stats.store,
        "sandbox": stats.sandbox,
        "memory_limit": stats.memory_limit,
        "process_limit": stats.process_limit,
        "http": stats.http,
        "tcp": stats.tcp,
        "active": [plain_data.dump_active(info) for info in active],
        "commands": [plain_data.dump_job(info) for info in jobs],
        "asks": [open_asks.dump_ask(info) | {"reply": open_asks.answer_command(info)} for info in asks],
        "mcp_waiting": {name: len(waiting) for name, waiting in servers.items()},
        "flaws": flaws,
        "problems": list(stats.problems),
        "broker": _dump_broker(stats),
    }
    taken = find_port_error(stats)
    error = files_error(flaws, "Correct the file; until then its last valid version is used.") if flaws else taken
    output.emit(
        data,
        render=lambda _: "\n".join(
            [
                _render_status(stats, active, jobs),
                *(output.wrap_prose(line, sys.stdout, indent="  ") for line in render_store(stats)),
                *_render_waiting_tools(servers),
                *_render_asks(asks),
            ]
        ),
        error=error,
    )
    print_flaws(flaws)
    if taken is not None and not output.wants_json():
        output.print_error(taken)
    return int(Exit.OK if error is None else Exit.BAD_CONFIG)


async def _fetch_status(
    connection: Connection,
) -> tuple[
    pb.DaemonStats,
    list[pb.ActiveConversationInfo],
    list[pb.AgentInfo],
    list[pb.AskInfo],
    list[pb.JobInfo],
    dict[str, list[pb.McpToolInfo]],
]:
    stats = await connection.request(pb.ClientMessage(get_stats=pb.GetStats()))
    active = await connection.request(pb.ClientMessage(list_active_conversations=pb.ListActiveConversationsMsg()))
    agents = await connection.request(pb.ClientMessage(list_agents=pb.ListAgentsMsg()))
    asks = await connection.request(pb.ClientMessage(list_asks=pb.ListAsksMsg()))
    jobs = await connection.request(pb.ClientMessage(list_jobs=pb.ListJobsMsg()))
    return (
        stats.stats,
        list(active.active_conversations.conversations),
        list(agents.agent_list.agents),
        list(asks.ask_list.asks),
        list(jobs.job_list.jobs),
        await _fetch_waiting_tools(connection),
    )


async def _fetch_waiting_tools(connection: Connection) -> dict[str, list[pb.McpToolInfo]]:
    """Return the tools of each MCP server that wait for the owner; none if somebody else asks."""
    try:
        listed = await connection.request(pb.ClientMessage(list_mcp=pb.ListMcpMsg()))
    except Forbidden:
        return {}
    return {info.name: list_waiting(info) for info in listed.mcp_list.servers if list_waiting(info)}


def _render_waiting_tools(servers: dict[str, list[pb.McpToolInfo]]) -> list[str]:
    text = (
        f"MCP server {sanitize.name(name)}: {numbers.format_plural(len(waiting), 'tool')} to approve."
        f" Run: moot mcp approve {sanitize.name(name)}"
        for name, waiting in servers.items()
    )
    return [output.wrap_prose(line, sys.stdout, indent="  ") for line in text]


def _render_asks(asks: list[pb.AskInfo]) -> list[str]:
    """Render open questions with their options, approvals with their reason, and the commands that answer them."""
    lines: list[str] = []
    width = terminal.row_width(sys.stdout)
    # Full ids in a pipe; short ones on a terminal, where they are typed.
    for info in asks:
        verb = "waits for an approval" if info.kind != "question" else "asks"
        head = f"{sanitize.name(info.agent)} as {sanitize.name(info.sender)} {verb}:"
        lines += ["", terminal.paint(flow.wrap_text(head, width, indent="  "), bold=True)]
        lines += [flow.wrap_text(f"  {line}", width, indent="    ") for line in open_asks.render_ask(info)]
        advice = open_asks.render_advice(info)
        lines.append(terminal.paint(flow.wrap_text(f"  {advice}", width, indent="    "), dim=True))
    return lines


def _find_skill_flaws() -> list[str]:
    """Errors in the skills of the local home folder."""
    from moot.tools.skills.library import SkillLibrary  # noqa: PLC0415 - only this command reads them

    return [] if remote_address() else [str(flaw) for flaw in SkillLibrary(find_paths().skills).flaws]


def find_port_error(stats: pb.DaemonStats) -> ConfigError | None:
    """Return the error of a daemon that runs without listening on a port, because the port is in use."""
    if not stats.problems:
        return None
    text = " ".join(map(sanitize.line, stats.problems))
    return ConfigError(f"the daemon runs without a listener. {text}", fix="Then restart it: moot down; moot up")


def render_store(stats: pb.DaemonStats) -> list[str]:
    """Say that nothing is kept, if so."""
    warning = 'Conversations are kept in memory only and are lost when the daemon stops ([store] kind = "memory").'
    return [warning] if stats.store == "memory" else []


def _dump_broker(stats: pb.DaemonStats) -> dict[str, Any] | None:
    broker = stats.broker
    if not stats.HasField("broker"):
        return None
    return {
        "url": broker.url,
        "name": broker.name,
        "connected": broker.connected,
        "problem": broker.problem,
        "waiting": broker.waiting,
        "daemons": broker.daemons,
        "dropped": dict(broker.dropped),
    }


def _render_broker(stats: pb.DaemonStats) -> list[str]:
    """Say to which broker the daemon is connected, or why it is not. Nothing if it is on its own."""
    broker = stats.broker
    if not stats.HasField("broker"):
        return []
    if broker.connected:
        others = numbers.format_plural(broker.daemons, "other daemon")
        waiting = f" {numbers.format_plural(broker.waiting, 'message')} not received yet." if broker.waiting else ""
        lines = [f"Connected to the broker at {broker.url} as {broker.name}, with {others}.{waiting}"]
        return [*lines, f"Messages between daemons wait: {broker.problem}"] if broker.problem else lines
    return [f"Not connected to the broker: {broker.problem}"]


def _render_status(stats: pb.DaemonStats, active: list[pb.ActiveConversationInfo], jobs: list[pb.JobInfo]) -> str:
    addresses = "".join(
        f", {name} {sanitize.line(at)}" for name, at in (("http", stats.http), ("tcp", stats.tcp)) if at
    )
    counted = stats.registered_agents
    count = f"{numbers.format_plural(counted, 'agent')}, default" if counted else "Default"
    # Only the owner is told the load, and the process.
    connected = f", {numbers.format_plural(stats.connections, 'connection')}" if stats.connections else ""
    load = f"{connected}, {stats.rss_bytes // 1_048_576} MB" if stats.rss_bytes else connected
    process = f" (pid {stats.pid})" if stats.pid else ""
    heads = [
        f"Moot {sanitize.line(stats.version)}{process}, up {timedelta(seconds=stats.uptime_secs)}{addresses}",
        f"{count} model {sanitize.line(stats.active_model) or 'none'}, mode {sanitize.line(stats.mode)}{load}",
    ]
    lines = [output.wrap_prose(line, sys.stdout, indent="  ") for line in (*heads, *_render_sandbox(stats))]
    lines += [output.wrap_prose(sanitize.line(line), sys.stdout, indent="  ") for line in _render_broker(stats)]
    if stats.rejected_connections:
        rejected = numbers.format_plural(stats.rejected_connections, "connection")
        lines.append(hint(f"{rejected} rejected since the start; `moot doctor` says why."))
    table = _render_active(active)
    if table or not jobs:
        lines.append(table or "Nothing is running.")
    return "\n".join([*lines, *job_lines.render_jobs(jobs, terminal.terminal_width())])


def _render_active(active: list[pb.ActiveConversationInfo]) -> str:
    """The conversations with an active run. In a narrow window a column that says nothing new is left out."""
    columns = {
        "AGENT": [info.agent for info in active],
        "SENDER": [info.sender for info in active],
        "SPEAKER": [info.speaker for info in active],
        "MODE": [info.mode for info in active],
        "RUNNING": [
            ("waits for you" if info.waiting else numbers.format_span(info.alive_secs))
            + (f" on node {info.node}" if info.node else "")
            for info in active
        ],
        "QUEUED": [str(info.queued) for info in active],
        "LAST ACTION": [
            f"{info.last_action} ({numbers.format_span(info.idle_secs)} ago)" if info.last_action else ""
            for info in active
        ],
    }
    if 0 < terminal.terminal_width() < _NARROW:
        dull = {"SPEAKER": columns["AGENT"], "QUEUED": ["0"] * len(active)}
        columns = {head: cells for head, cells in columns.items() if cells != dull.get(head)}
    return terminal.render_table(list(columns), list(zip(*columns.values(), strict=True)))


def _render_sandbox(stats: pb.DaemonStats) -> list[str]:
    """Say what confines and limits commands. Only the owner is told."""
    if stats.sandbox == "missing":
        return [hint("Commands are refused: there is no sandbox. Run: moot doctor")]
    if stats.sandbox == "none":
        return ["Commands run without a sandbox, as configured."]
    if not stats.sandbox:
        return []
    memory, processes = sanitize.line(stats.memory_limit), sanitize.line(stats.process_limit)
    limits = f"memory and processes limited by {memory}"
    if memory != processes:
        limits = f"memory limited by {memory}, processes by {processes}"
    return [f"Sandbox {sanitize.line(stats.sandbox)}, {limits}"]
