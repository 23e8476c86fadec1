"""A tool call on one line: as its tool says it, else by its name and arguments. Pure."""

from moot.cli import safe
from moot.wire import moot_pb2 as pb


def said(call: pb.ToolCallInfo, width: int) -> str:
    return safe.line(call.line or f"{call.name} {call.arguments}", width)
