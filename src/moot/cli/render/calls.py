"""Renders a tool call and its result on one line. Pure."""

import re

from moot.cli.render import sanitize, teammate_lines
from moot.wire import moot_pb2 as pb

# How a command that did not end well begins what it tells the model.
_FAILED = re.compile(r"Command failed with exit code (-?\d+)\s*(?:Output:\s*)?")


def render_call(call: pb.ToolCallInfo, width: int) -> str:
    return sanitize.line(call.line or f"{call.name} {call.arguments}", width)


def render_result(output: str, width: int, *, is_error: bool) -> tuple[str, str]:
    """How a call failed, never cut, and what it brought in so many columns with that; the first is empty if it did not.

    A command that ends with another number than 0 has brought something, and has failed all the same.
    """
    failed = _FAILED.match(output)
    if is_error or failed is None:
        return ("✗" if is_error else ""), teammate_lines.render_result(output, max(1, width - 2) if is_error else width)
    mark = f"✗ exit {failed[1]}"
    return mark, teammate_lines.render_result(output[failed.end() :], max(1, width - len(mark) - 3))
