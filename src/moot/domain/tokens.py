"""Estimates of how many tokens text, messages and tools take; used for context windows and budgets. Pure."""

from typing import Any

from moot.domain.message import Message
from moot.domain.prompt import ToolSpec

BYTES_PER_TOKEN = 4
# The bytes that providers add around each message and each tool.
_AROUND_MESSAGE = 16
_AROUND_TOOL = 64
_MOST_KEPT = 64
_estimated: dict[int, tuple[tuple[ToolSpec, ...], int]] = {}


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text: one per four bytes, so that scripts with multi-byte letters count more."""
    return count_bytes(text) // BYTES_PER_TOKEN


def estimate_message(message: Message) -> int:
    """Estimate the tokens of a message, including everything that is sent with it."""
    size = _AROUND_MESSAGE + count_bytes(message.content)
    for call in message.tool_calls:
        size += _AROUND_MESSAGE + len(call.name) + count_bytes(call.arguments)
    # Thinking is sent back with the calls it led to.
    for thinking in message.thinking if message.tool_calls else ():
        size += count_bytes(thinking.text) + len(thinking.signature)
    return size // BYTES_PER_TOKEN


def estimate_tools(specs: tuple[ToolSpec, ...]) -> int:
    """Estimate the tokens of the offered tools. Turns usually offer the same ones, so the last sums are cached."""
    known = _estimated.get(id(specs))
    if known is None:
        if len(_estimated) >= _MOST_KEPT:
            _estimated.clear()
        # Kept beside their sum, so that their id() cannot be reused by other objects.
        known = _estimated[id(specs)] = specs, sum(map(tool_bytes, specs)) // BYTES_PER_TOKEN
    return known[1]


def tool_bytes(spec: ToolSpec) -> int:
    return _AROUND_TOOL + len(spec.name) + count_bytes(spec.description) + _schema_size(spec.parameters)


def count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _schema_size(value: Any) -> int:
    """Estimate the characters of a schema without encoding it."""
    if isinstance(value, dict):
        return sum(len(key) + 4 + _schema_size(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return sum(2 + _schema_size(each) for each in value)
    return len(value) + 2 if isinstance(value, str) else 5
