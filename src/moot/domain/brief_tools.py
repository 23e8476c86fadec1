"""What small models are told of the built-in tools: fewer tools, one short line and few parameters each. Pure data.

`engine/offer` chooses by it. A small model reads a prompt slowly and chooses worse the more it is offered.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.prompt import ToolSpec


class BriefTool(Struct, frozen=True):
    """A tool for a small model: its description, and its parameters with a sample value each; all are required."""

    description: str
    sample: Mapping[str, str]


BRIEF_TOOLS: Mapping[str, BriefTool] = MappingProxyType(
    {
        "fs_read": BriefTool("read a file", {"path": "notes.txt"}),
        "fs_list": BriefTool("list a folder", {"path": "."}),
        "fs_search": BriefTool("find files that contain a text", {"pattern": "word"}),
        "fs_write": BriefTool(
            "write a whole file, new or replaced", {"path": "notes.txt", "content": "the whole text of the file"}
        ),
        "fs_edit": BriefTool(
            "replace a text in a file; fs_read it first",
            {"path": "notes.txt", "oldText": "the text as it is", "newText": "the text as it should be"},
        ),
        "exec": BriefTool("run a shell command", {"command": "ls -l"}),
        "web_fetch": BriefTool("read a web page", {"url": "https://example.org"}),
        "recall": BriefTool("search earlier conversations", {"query": "word"}),
        "agent_spawn": BriefTool(
            "give a task to a teammate", {"agent": "operator", "instruction": "the whole task in one or two sentences"}
        ),
        "agent_wait": BriefTool("get the result of a teammate", {"agent_id": "the agent_id that agent_spawn returned"}),
        "agent_escalate": BriefTool("give back a task that your tools cannot do", {"reason": "why"}),
    }
)


def shorten_tool(spec: ToolSpec) -> ToolSpec:
    """Return the tool as a small model is told of it; a tool that is not built in is left as it is."""
    brief = BRIEF_TOOLS.get(spec.name)
    if brief is None or spec.added:
        return spec
    known = spec.parameters["properties"]
    properties = {name: {**_plain(known[name]), "examples": [value]} for name, value in brief.sample.items()}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return replace(spec, description=brief.description, parameters=parameters, fine=frozenset())


def _plain(described: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in described.items() if key != "description"}
