"""Rejects calls of tools that a run does not have: what its model is told instead. Used by gate.py."""

from collections.abc import Sequence

import msgspec

from moot.domain.message import ToolCall
from moot.domain.ports.tool import ExplainsRefusals, RunContext, ToolResult
from moot.domain.prompt import ToolSpec
from moot.domain.text import clean


def explain_refusal(call: ToolCall, tool: object, context: RunContext) -> ToolResult | None:
    """Return what the tool itself says to a caller that does not have it, if it says anything."""
    if not isinstance(tool, ExplainsRefusals):
        return None
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        arguments = {}
    return tool.explain_refusal(arguments if isinstance(arguments, dict) else {}, context)


def describe_unknown(name: str, offered: Sequence[ToolSpec], owner: str) -> str:
    """Return the error for a tool that the run does not have; `owner` says who has it, if anybody does."""
    names = ", ".join(sorted(spec.name for spec in offered)) or "none"
    return f"There is no tool {clean(name)!r} here. {owner or f'There are: {names}.'}"
