"""moot agents: which agents there are, and what is wrong with those that did not load."""

import sys
from typing import Any

import click

from moot.cli import exits, output, safe, shapes
from moot.cli.connect import ask_daemon
from moot.cli.hooks import hooks
from moot.domain.errors import ConfigError
from moot.wire import moot_pb2 as pb


@click.group(invoke_without_command=True)
@output.json_option
@click.pass_context
def agents(context: click.Context) -> int | None:
    """List and show agents, and the hooks that their tool calls pass."""
    return _list() if context.invoked_subcommand is None else None


@agents.command("list")
@output.json_option
def list_agents() -> int:
    """List the agents; a file that could not be read is named with the line and the reason (exit 78)."""
    return _list()


def _list() -> int:
    found = ask_daemon(pb.ClientMessage(list_agents=pb.ListAgentsMsg())).agent_list.agents

    def render(_: Any) -> str:
        rows = [[info.name, info.source, info.model or "(default)", info.description] for info in found]
        return output.table(["NAME", "SOURCE", "MODEL", "DESCRIPTION"], rows)

    flaws = [info.flaw for info in found if info.flaw]
    broken = ConfigError("\n".join(flaws), fix="Mend the file; it holds from the next message on.") if flaws else None
    output.emit([shapes.agent(info) for info in found], render=render, error=broken)
    for flaw in flaws:
        output.note(output.paint("flaw: ", sys.stderr, fg="red") + safe.clean(flaw))
    return int(exits.for_error(broken)) if broken else 0


@agents.command()
@click.argument("name")
@output.json_option
def show(name: str) -> None:
    """Show agent NAME with its instruction."""
    info = ask_daemon(pb.ClientMessage(get_agent=pb.GetAgentMsg(name=name))).agent_info

    def render(_: Any) -> str:
        facts = [("model", info.model or "(default)"), ("source", info.source), ("file", info.path)]
        lines = [output.paint(safe.line(info.name), bold=True) + f"  {safe.line(info.description)}"]
        lines += [f"{key:7} {safe.line(value)}" for key, value in facts if value]
        lines += ["", safe.clean(info.instruction)] if info.instruction else []
        return "\n".join(lines)

    output.emit(shapes.agent(info), render=render)


agents.add_command(hooks)
