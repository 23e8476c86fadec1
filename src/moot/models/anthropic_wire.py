"""The Anthropic Messages format: encodes each message once, decodes stream events. Pure."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from moot.domain.message import Message, Role, Thinking, ToolCall
from moot.domain.prompt import Encoding, Prompt, ToolSpec
from moot.domain.text import clean
from moot.domain.transcript_text import render_message
from moot.domain.usage import Usage, read_counts
from moot.models.openai_wire import ToolEncoder, encode_text, recent_tool_names
from moot.models.pairing import close_calls, open_calls, pair_results

# Redacted thinking: what follows the mark is sent back unchanged.
REDACTED = "redacted:"

BEGINNING = "(The conversation begins here.)"

# A message ends with its role, after its blocks. Nothing inside a block can look like that.
_ENDS = {"user": b'],"role":"user"}', "assistant": b'],"role":"assistant"}'}
_LONGEST_END = 32
_CACHE = b',"cache_control":{"type":"ephemeral"}}'

_OWN_ID = re.compile(r"toolu_[a-zA-Z0-9_-]+")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


# ---- messages -----------------------------------------------------------------------------------


def advance(encoding: Encoding, messages: list[Message], *, thinking: bool) -> None:
    """Append the new messages, with tool calls in the provider's format."""
    writer = _Writer(encoding.buffer, messages, encoding.count, thinking=thinking)
    writer.add(messages[encoding.count :])
    encoding.count = len(messages)


def advance_as_text(encoding: Encoding, messages: list[Message]) -> None:
    """Append the new messages, with tool calls rendered as text."""
    names = recent_tool_names(messages, encoding.count)
    for message in messages[encoding.count :]:
        rendered = render_message(message, names)
        if rendered is not None and rendered.content.strip():
            _add_block(encoding.buffer, _role(rendered), _encode_text_block(rendered.content))
    encoding.count = len(messages)


FORMS: dict[str, Callable[[Encoding, list[Message]], None]] = {
    "anthropic": partial(advance, thinking=False),
    "anthropic-thinking": partial(advance, thinking=True),
    "anthropic-text": advance_as_text,
}


class _Writer:
    """Appends messages after `count` others; tracks which calls have no result yet, and their ids."""

    def __init__(self, buffer: bytearray, messages: Sequence[Message], count: int, *, thinking: bool) -> None:
        self._buffer = buffer
        self._place = count
        self._thinking = thinking
        self._waiting = open_calls(messages, count)
        self._ids: dict[str, str] = {}
        for index in range(count - 1, -1, -1):
            if messages[index].role is not Role.TOOL:
                self._name_calls(messages[index], index)
                return

    def add(self, messages: Sequence[Message]) -> None:
        for message in messages:
            for whole in pair_results((message,), self._waiting):
                self._write(whole)
            self._place += 1

    def close_calls(self) -> None:
        for result in close_calls(self._waiting):
            self._write(result)

    def _write(self, message: Message) -> None:
        if message.role is Role.TOOL:
            _add_block(
                self._buffer, "user", _encode_result(message, self._ids.get(message.tool_call_id, message.tool_call_id))
            )
            return
        if message.role is Role.ASSISTANT:
            self._name_calls(message, self._place)
            # Thinking is sent back only if its own tool calls follow it.
            if self._thinking and message.tool_calls:
                for thought in filter(_is_signed, message.thinking):
                    _add_block(self._buffer, "assistant", _encode_thinking(thought))
        if message.content.strip():
            _add_block(self._buffer, _role(message), _encode_text_block(message.content))
        for call in message.tool_calls:
            _add_block(self._buffer, "assistant", _encode_call(call, self._ids[call.id]))

    def _name_calls(self, message: Message, index: int) -> None:
        """Map call ids to unique ones: ids of other providers may repeat, so positions are used for those."""
        self._ids = {
            call.id: call.id if _OWN_ID.fullmatch(call.id) else f"call_{index}_{number}"
            for number, call in enumerate(message.tool_calls)
        }


def _role(message: Message) -> str:
    return "assistant" if message.role is Role.ASSISTANT else "user"


def _add_block(buffer: bytearray, role: str, block: bytes) -> None:
    end = _ENDS[role]
    if buffer.endswith(end):
        del buffer[-len(end) :]
        buffer += b"," + block + end
        return
    if not buffer and role == "assistant":
        _add_block(buffer, "user", _encode_text_block(BEGINNING))
    if buffer:
        buffer += b","
    buffer += b'{"content":[' + block + end


def _mark_cacheable(buffer: bytearray) -> None:
    """Mark the last block, so that the provider caches everything up to it."""
    for end in _ENDS.values():
        if buffer.endswith(end):
            del buffer[-len(end) - 1 :]
            buffer += _CACHE + end
            return


def _encode_text_block(text: str) -> bytes:
    return b'{"type":"text","text":' + encode_text(text) + b"}"


def _is_signed(thought: Thinking) -> bool:
    return bool(thought.signature)


def _encode_thinking(thought: Thinking) -> bytes:
    if thought.signature.startswith(REDACTED):
        return b'{"type":"redacted_thinking","data":' + encode_text(thought.signature[len(REDACTED) :]) + b"}"
    signature = encode_text(thought.signature)
    return b'{"type":"thinking","thinking":' + encode_text(thought.text) + b',"signature":' + signature + b"}"


def _encode_call(call: ToolCall, call_id: str) -> bytes:
    name = encode_text(_NOT_IN_NAMES.sub("_", call.name)[:64] or "unnamed")
    head = b'{"type":"tool_use","id":' + encode_text(call_id) + b',"name":' + name
    return head + b',"input":' + _encode_input(call.arguments) + b"}"


def _encode_input(arguments: str) -> bytes:
    encoded = clean(arguments).encode()
    try:
        msgspec.json.decode(encoded, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return b"{}"
    return encoded


def _encode_result(message: Message, call_id: str) -> bytes:
    block = b'{"type":"tool_result","tool_use_id":' + encode_text(call_id)
    if message.content.strip():
        block += b',"content":' + encode_text(message.content)
    return block + (b',"is_error":true}' if message.is_error else b"}")


# ---- requests -----------------------------------------------------------------------------------


class AnthropicToolEncoder(ToolEncoder):
    def encode(self, tool: ToolSpec) -> bytes:
        return msgspec.json.encode(
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        )


def encode_request(head: bytes, prompt: Prompt, *, form: str, tools: bytes) -> bytes:
    """Return the body of one request; `head` is the encoded part before the messages."""
    encoding = prompt.transcript.encoding(form, FORMS[form])
    buffer = encoding.buffer
    # Messages of this request only are appended to a copy of the buffer, never to the buffer.
    place = encoding.split_place() if prompt.context else len(buffer)
    keep = max(0, place - _LONGEST_END)
    context = bytearray(buffer[keep:place])
    _mark_cacheable(context)
    for message in prompt.context:
        _add_block(context, "user", _encode_text_block(message.content))
    rest_keep = max(place, len(buffer) - _LONGEST_END)
    end = context
    if place < len(buffer):
        end = bytearray(buffer[rest_keep:])
        _mark_cacheable(end)
    if form == "anthropic-text":
        own = Encoding()
        own.buffer = end
        advance_as_text(own, list(prompt.tail))
    else:
        messages = prompt.transcript.messages
        writer = _Writer(end, messages, encoding.count, thinking=form == "anthropic-thinking")
        writer.add(prompt.tail)
        writer.close_calls()
    with memoryview(buffer) as view:
        between = () if end is context else (context, view[place:rest_keep])
        return b"".join(
            (head, tools, _encode_system(prompt.system), b'"messages":[', view[:keep], *between, end, b"]}")
        )


def _encode_system(blocks: Sequence[str]) -> bytes:
    texts = [_encode_text_block(block) for block in blocks if block.strip()]
    if not texts:
        return b""
    texts[-1] = texts[-1][:-1] + _CACHE
    return b'"system":[' + b",".join(texts) + b"],"


def can_think(messages: Sequence[Message]) -> bool:
    """Whether thinking can be enabled: not during a tool use that began without it.

    Results and what a user wrote behind them are sent as one message, so only an answer ends a tool use.
    """
    for message in reversed(messages):
        if message.role is not Role.ASSISTANT:
            continue
        if not message.tool_calls:
            break
        if not any(map(_is_signed, message.thinking)):
            return False
    return True


# ---- answers ------------------------------------------------------------------------------------


class Tokens(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class Start(msgspec.Struct, gc=False):
    usage: Tokens | None = None


class Block(msgspec.Struct, gc=False):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    input: Any = None


class Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class StreamedEvent(msgspec.Struct, gc=False):
    type: str
    index: int = 0
    message: Start | None = None
    content_block: Block | None = None
    delta: Delta | None = None
    usage: Tokens | None = None
    error: Any = None


_events = msgspec.json.Decoder(StreamedEvent)


def decode_event(data: bytes) -> StreamedEvent:
    """Decode one event of a stream. Raises ValueError if it is invalid."""
    try:
        return _events.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Bytes that are not UTF-8 and half surrogate pairs are repaired later; anything else is an error.
        return msgspec.convert(json.loads(data.decode("utf-8", "replace")), StreamedEvent, strict=False)


def parse_usage(tokens: Tokens) -> Usage:
    """Return the usage. A cache miss is what was written to the cache; the rest was not cached at all."""
    uncached, completion, hit, miss = read_counts(
        tokens.input_tokens,
        tokens.output_tokens,
        tokens.cache_read_input_tokens,
        tokens.cache_creation_input_tokens,
    )
    return Usage(prompt=uncached + hit + miss, completion=completion, cache_hit=hit, cache_miss=miss)
