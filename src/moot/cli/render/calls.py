"""Renders a tool call and its result on one line. Pure."""

import re

from moot.cli.render import sanitize, teammate_lines
from moot.wire import moot_pb2 as pb

# The start of the result of a failed command.
_FAILED = re.compile(r"Command failed with exit code (-?\d+)\s*(?:Output:\s*)?")


def render_call(call: pb.ToolCallInfo, width: int) -> str:
    made = sanitize.exact_line(call.line) if call.line else sanitize.name(f"{call.name} {call.arguments}".strip())
    return sanitize.cut_with_count(made, width)


def render_result(output: str, width: int, *, is_error: bool) -> tuple[str, str]:
    """Return the failure of a call, never cut, and its result cut to the remaining columns; the first may be empty.

    A command with a non-zero exit code has both.
    """
    failed = _FAILED.match(output)
    if is_error or failed is None:
        return ("✗" if is_error else ""), teammate_lines.render_result(output, max(1, width - 2) if is_error else width)
    mark = f"✗ exit {failed[1]}"
    return mark, teammate_lines.render_result(output[failed.end() :], max(1, width - len(mark) - 3))
