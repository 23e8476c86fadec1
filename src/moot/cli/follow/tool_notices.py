"""Notices for agents whose model is offered no tools or only some of them."""

import sys

from moot.cli import output
from moot.cli.connect import send_request
from moot.cli.render import sanitize, terminal
from moot.client.connection import Connection
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb

# How to set up a model that supports tools.
FIX = "`moot init --provider local --model qwen` (1.1 GB, no key), or a provider's key and `moot init`"
# Follows the name of a model that does not support the tools of its agent.
NO_TOOLS = " · no tools"
_NAMED = 3


def lacks_tools(info: pb.AgentInfo) -> bool:
    """Whether the agent has tools but its model does not support them."""
    return info.model_tools == "none" and (info.all_tools or bool(info.prefixes))


def model_name(info: pb.AgentInfo) -> str:
    """The agent's model, for display."""
    return f"{info.model}{NO_TOOLS}" if lacks_tools(info) else info.model


def explain_inactive(info: pb.AgentInfo) -> str:
    """That the agent lacks the tools it is there for; empty if it has some, or if its model supports none."""
    if not info.missing or lacks_tools(info):
        return ""
    return f"{sanitize.name(info.name)} is inactive, it can only chat: {sanitize.line(info.missing)}."


async def warn_missing_tools(connection: Connection, agent: str) -> bool:
    """Return whether the agent has tools that its model does not support; warn on stderr unless --json is set."""
    try:
        info = (await connection.request(pb.ClientMessage(get_agent=pb.GetAgentMsg(name=agent)))).agent_info
    except MootError:
        # A missing agent is reported by the request itself.
        return False
    if not lacks_tools(info):
        if (text := explain_inactive(info)) and not output.wants_json():
            output.print_note(terminal.paint(text, sys.stderr, dim=True))
        return False
    if not output.wants_json():
        agent, model = sanitize.name(info.name), sanitize.name(info.model)
        text = f"{model} does not support tools, so {agent} cannot read files or web pages. For tools: {FIX}."
        output.print_note(terminal.paint(text, sys.stderr, dim=True))
    return True


def render_left_out_tools(info: pb.ModelInfo) -> str:
    """How many tools the model is offered and why not all of them; otherwise empty."""
    # A scripted model calls the tools of its script, whatever it is offered.
    if not info.left_out or info.tools == "none" or info.provider == "scripted":
        return ""
    why, rest = "it selects tools by a schema", "left out"
    if info.tools != "schema":
        rest = "found with tool_search"
        why = f"of its context window ({info.window}) or max_offered in [tool_search]"
    more = len(info.left_out) - _NAMED
    named = ", ".join(info.left_out[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    counted = f"{info.tools_there - len(info.left_out)} of {info.tools_there} tools"
    return sanitize.line(f"{info.name}: {counted} are offered, because {why}; {rest}: {named}.")


def list_searched_tools() -> list[str]:
    """Ask the daemon whether its default model has to search for tools, and say which; otherwise nothing."""
    models = send_request(pb.ClientMessage(list_models=pb.ListModelsMsg())).model_list.models
    return [notice for info in models if info.is_default and (notice := render_left_out_tools(info))]


def render_assumed_window(info: pb.ModelInfo) -> str:
    """A warning that the model's context window is unknown; otherwise empty."""
    if not info.window_is_assumed:
        return ""
    name = sanitize.name(info.name)
    return (
        f"The context window of {name} is unknown: its server does not say. {info.window} tokens are assumed; "
        f"set `window` in [models.{name}] if that is wrong."
    )


def render_wider_window(info: pb.ModelInfo) -> str:
    """How a model could be offered more tools."""
    name = sanitize.name(info.name)
    first = "List the tools an agent needs in its file (prefixes)"
    if info.tools == "schema":
        return f"{first}; they come first, then your own and those of MCP servers."
    larger = f"If its context window is larger, set `window` in [models.{name}], then `moot reload`."
    return f"{larger} {first}; they come first."
