"""Estimates of how many tokens text, messages and tools take; used for context windows and budgets. Pure."""

from typing import Any

from moot.domain.message import Message
from moot.domain.prompt import ToolSpec

BYTES_PER_TOKEN = 4
# What providers write around each message and each tool, in bytes.
_AROUND_MESSAGE = 16
_AROUND_TOOL = 64
_MOST_KEPT = 64
_estimated: dict[int, tuple[tuple[ToolSpec, ...], int]] = {}


def estimate_text(text: str) -> int:
    """About how many tokens the text takes: one for four bytes, so that scripts of many bytes a letter count more."""
    return count_bytes(text) // BYTES_PER_TOKEN


def estimate_message(message: Message) -> int:
    """The same of a message with everything that is sent of it."""
    size = _AROUND_MESSAGE + count_bytes(message.content)
    for call in message.tool_calls:
        size += _AROUND_MESSAGE + len(call.name) + count_bytes(call.arguments)
    # Thinking is sent back with the calls it led to.
    for thinking in message.thinking if message.tool_calls else ():
        size += count_bytes(thinking.text) + len(thinking.signature)
    return size // BYTES_PER_TOKEN


def estimate_tools(specs: tuple[ToolSpec, ...]) -> int:
    """The same of the tools that are offered. Turns offer the same ones again and again, so the last sums are kept."""
    known = _estimated.get(id(specs))
    if known is None:
        if len(_estimated) >= _MOST_KEPT:
            _estimated.clear()
        # Kept beside their sum, so that their identity cannot be taken over by others.
        known = _estimated[id(specs)] = specs, sum(map(tool_bytes, specs)) // BYTES_PER_TOKEN
    return known[1]


def tool_bytes(spec: ToolSpec) -> int:
    return _AROUND_TOOL + len(spec.name) + count_bytes(spec.description) + _schema_size(spec.parameters)


def count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _schema_size(value: Any) -> int:
    """About how many characters a schema takes, without writing it out."""
    if isinstance(value, dict):
        return sum(len(key) + 4 + _schema_size(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return sum(2 + _schema_size(each) for each in value)
    return len(value) + 2 if isinstance(value, str) else 5
