"""Renders what MCP servers say of their tools for the owner to approve, or how it differs from before. Pure."""

import json
from collections.abc import Iterable, Sequence
from difflib import unified_diff
from typing import Any

from moot.cli.render import sanitize
from moot.domain.mcp import WAITING, decode_text
from moot.wire import moot_pb2 as pb

# Unchanged lines around a change. What is left out was approved before.
_CONTEXT = 3


def list_waiting(info: pb.McpServerInfo) -> list[pb.McpToolInfo]:
    """Return the tools that the owner has not decided about."""
    return [tool for tool in info.tools if tool.state in WAITING]


def render_texts(tools: Iterable[pb.McpToolInfo]) -> str:
    """Return the texts of tools, exactly as models are told them: new ones whole, changed ones as differences.

    Every line of a server's begins with a mark, so that it cannot pass for a line of Moot.
    """
    return "\n\n".join("\n".join(_render_tool(tool)) for tool in tools)


def _render_tool(tool: pb.McpToolInfo) -> Sequence[str]:
    # The name for models consists of plain characters only.
    head = f"{tool.name} ({tool.state})"
    lines = _list_lines(tool.text)
    if not tool.approved_text:
        return [head, *(f"  | {line}" for line in lines)]
    changes = [*unified_diff(_list_lines(tool.approved_text), lines, n=_CONTEXT, lineterm="")][2:]
    return [head, *(f"  {'…' if line.startswith('@@') else line}" for line in changes)]


def _list_lines(encoded: str) -> list[str]:
    """Return a text as lines. What the server wrote is indented, so that it cannot pass for a heading."""
    text = decode_text(encoded)
    # The strings are made visible, not the layout of the JSON.
    parameters = json.dumps(_make_visible(text.parameters), ensure_ascii=False, indent=2)
    lines = ["name at the server:", f"  {ascii(text.tool)}"]
    # Made visible first and split afterwards: some characters become line ends.
    for heading, part in (("description:", sanitize.exact(text.description)), ("parameters:", parameters)):
        lines += [heading, *(f"  {line}" for line in part.split("\n"))]
    return lines


def _make_visible(value: Any) -> Any:
    if isinstance(value, str):
        return sanitize.exact(value)
    if isinstance(value, dict):
        return {sanitize.exact(key): _make_visible(inner) for key, inner in value.items()}
    return [_make_visible(inner) for inner in value] if isinstance(value, list) else value
