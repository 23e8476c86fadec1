"""Renders messages of an assistant to the person: their attachments, and which tool calls they replace. Pure."""

from collections.abc import Iterable
from typing import Any

from moot.cli.render import numbers, sanitize
from moot.wire import moot_pb2 as pb

PROACTIVE_NOTE = " (proactive)"


def render_attachments(message: pb.UserMessageInfo) -> list[str]:
    """One line for each file of a message."""
    return [f"attached: {sanitize.name(each.path)} ({numbers.format_size(each.size)})" for each in message.attachments]


def render_note(message: pb.UserMessageInfo) -> str:
    """The note beside the name of the sender; empty for an answer."""
    return PROACTIVE_NOTE if message.status == "proactive" else ""


def list_sent_calls(messages: Iterable[pb.HistoryMessage]) -> set[str]:
    """The ids of the calls that have sent a message; the message is shown instead of call and result."""
    return {sent.call_id for entry in messages for sent in entry.sent}


def dump_user_message(message: pb.UserMessageInfo) -> dict[str, Any]:
    """A message as --json prints it."""
    files = [{"path": each.path, "size": each.size} for each in message.attachments]
    return {"content": message.content, "status": message.status, "attachments": files}
