"""Notices for agents whose model is offered no tools or only some of them."""

import sys

from moot.cli import output
from moot.cli.render import sanitize, terminal
from moot.client.connection import Connection
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb

# The way to a model that can use tools.
FIX = "`moot init --provider local --model qwen` (1.1 GB, no key), or a provider's key and `moot init`"
_NAMED = 3


def _has_none(info: pb.AgentInfo) -> bool:
    """Whether the agent may use tools and its model cannot."""
    return info.model_tools == "none" and (info.all_tools or bool(info.prefixes))


def model_name(info: pb.AgentInfo) -> str:
    """The agent's model as it stands in a line of facts."""
    return f"{info.model} · no tools" if _has_none(info) else info.model


async def warn_missing_tools(connection: Connection, agent: str) -> bool:
    """Say on stderr where an agent has tools and its model cannot use them; whether it is so. JSON has a field."""
    try:
        info = (await connection.request(pb.ClientMessage(get_agent=pb.GetAgentMsg(name=agent)))).agent_info
    except MootError:
        # That there is no such agent is said by whoever talks to it.
        return False
    if not _has_none(info):
        return False
    if not output.wants_json():
        agent, model = sanitize.line(info.name), sanitize.line(info.model)
        said = f"{model} does not support tools, so {agent} cannot read files or web pages. For tools: {FIX}."
        output.print_note(terminal.paint(said, sys.stderr, dim=True))
    return True


def render_left_out_tools(info: pb.ModelInfo) -> str:
    """How many tools a model is offered where that is not all of them, and why; else nothing."""
    # What a scripted model calls is in its script, whatever it is offered.
    if not info.left_out or info.tools == "none" or info.provider == "scripted":
        return ""
    why = "it selects tools by a schema" if info.tools == "schema" else f"its context window is {info.window}"
    more = len(info.left_out) - _NAMED
    named = ", ".join(info.left_out[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    counted = f"{info.tools_there - len(info.left_out)} of {info.tools_there} tools"
    return sanitize.line(f"{info.name}: {counted} are offered, because {why}; left out: {named}.")


def render_assumed_window(info: pb.ModelInfo) -> str:
    """A warning where nobody says how much a model can read; else nothing."""
    if not info.window_is_assumed:
        return ""
    name = sanitize.line(info.name)
    return (
        f"The context window of {name} is unknown: its server does not say. {info.window} tokens are assumed; "
        f"set `window` in [models.{name}] if that is wrong."
    )


def render_wider_window(info: pb.ModelInfo) -> str:
    """What can be done about that."""
    name = sanitize.line(info.name)
    first = "List the tools an agent needs in its file (prefixes)"
    if info.tools == "schema":
        return f"{first}; they come first, then your own and those of MCP servers."
    larger = f"If its context window is larger, set `window` in [models.{name}], then `moot reload`."
    return f"{larger} {first}; they come first."
