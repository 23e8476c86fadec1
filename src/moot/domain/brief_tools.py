"""What small models are told of the built-in tools: fewer tools, one short line and few parameters each. Pure data.

`engine/offer` chooses by it. A small model reads a prompt slowly and chooses worse the more it is offered.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.prompt import ToolSpec

# A model would copy a description of the value, such as "the text of the file", as the value.
_OPEN = "…"
# Where it cannot be a value. In an edit it can.
_NEVER_OPEN = frozenset({("fs_write", "content"), ("agent_spawn", "instruction"), ("agent_escalate", "reason")})


class BriefTool(Struct, frozen=True):
    """A tool for a small model: its description, and its parameters with a sample value each; all are required.

    A value that only the task says is left open.
    """

    description: str
    sample: Mapping[str, str]


BRIEF_TOOLS: Mapping[str, BriefTool] = MappingProxyType(
    {
        "fs_read": BriefTool("read a file", {"path": "notes.txt"}),
        "fs_list": BriefTool("list a folder", {"path": "."}),
        "fs_search": BriefTool("find files that contain a text", {"pattern": "word"}),
        "fs_write": BriefTool("write a whole file, new or replaced", {"path": "notes.txt", "content": _OPEN}),
        "fs_edit": BriefTool(
            "replace a text in a file; fs_read it first",
            {"path": "notes.txt", "oldText": _OPEN, "newText": _OPEN},
        ),
        "exec": BriefTool("run a shell command", {"command": "ls -l"}),
        "web_fetch": BriefTool("read a web page", {"url": "https://example.org"}),
        "recall": BriefTool("search earlier conversations", {"query": "word"}),
        "agent_spawn": BriefTool("give a task to a teammate", {"agent": "operator", "instruction": _OPEN}),
        "agent_wait": BriefTool("get the result of a teammate by its agent_id", {"agent_id": _OPEN}),
        "agent_escalate": BriefTool("give back a task that your tools cannot do", {"reason": _OPEN}),
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


def is_placeholder(shown: ToolSpec, parameter: str, value: str) -> bool:
    """Whether the value is what the model was shown instead of one, if it was shown the tool like this."""
    if value != _OPEN or shown.added or (shown.name, parameter) not in _NEVER_OPEN:
        return False
    described = shown.parameters["properties"].get(parameter, {})
    return _OPEN in described.get("examples", ())


def _plain(described: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in described.items() if key != "description"}
