"""The OpenAI chat/completions format: encodes each message once, decodes stream chunks. Pure."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from moot.domain.message import Message, Role, ToolCall
from moot.domain.prompt import Encoding, Prompt, ToolSpec
from moot.domain.text import clean, defuse
from moot.domain.transcript_text import render_message
from moot.domain.usage import Usage, read_counts
from moot.models.pairing import close_calls, open_calls, pair_results

# A text message ends with its role. Nothing inside a JSON string can look like that: its quotes are escaped.
_ENDS = {
    Role.USER: b'","role":"user"}',
    Role.INJECTED: b'","role":"user"}',
    Role.ASSISTANT: b'","role":"assistant"}',
}
_LONGEST_END = 32
_TOOL = Role.TOOL

# The choice of a tool-choosing model that means text instead of a tool.
SAY = "say"

_encoder = msgspec.json.Encoder()


def encode_text(text: str) -> bytes:
    """Encode any text as a JSON string."""
    try:
        return _encoder.encode(text if "\0" not in text else clean(text))
    except UnicodeEncodeError:
        return _encoder.encode(clean(text))


# ---- messages -----------------------------------------------------------------------------------


def advance(encoding: Encoding, messages: list[Message]) -> None:
    """Append the new messages, with tool calls in the provider's format."""
    waiting = open_calls(messages, encoding.count)
    add_messages(encoding.buffer, pair_results(messages[encoding.count :], waiting))
    encoding.count = len(messages)


def advance_as_text(encoding: Encoding, messages: list[Message]) -> None:
    """Append the new messages, with tool calls rendered as text."""
    names = recent_tool_names(messages, encoding.count)
    rendered = (render_message(message, names) for message in messages[encoding.count :])
    add_messages(encoding.buffer, (message for message in rendered if message is not None))
    encoding.count = len(messages)


def advance_as_choices(encoding: Encoding, messages: list[Message]) -> None:
    """Append the new messages, those of the assistant as the JSON that a tool-choosing model writes."""
    names = recent_tool_names(messages, encoding.count)
    for message in messages[encoding.count :]:
        rendered = render_message(message, names)
        if message.role is Role.ASSISTANT:
            rendered = to_choice(message)
        if rendered is not None:
            add_messages(encoding.buffer, (rendered,))
    encoding.count = len(messages)


def to_choice(message: Message) -> Message | None:
    lines = []
    if message.content.strip():
        lines.append(json.dumps({"tool": SAY, "text": message.content}, ensure_ascii=False))
    lines += [
        f'{{"tool": "{defuse(call.name)}", "arguments": {defuse(call.arguments)}}}' for call in message.tool_calls
    ]
    return Message(role=Role.ASSISTANT, content="\n".join(lines)) if lines else None


def recent_tool_names(messages: list[Message], count: int) -> dict[str, str]:
    """Return the tool names of the calls whose results may still follow."""
    for message in reversed(messages[max(0, count - 256) : count]):
        if message.role is not Role.TOOL:
            return {call.id: call.name for call in message.tool_calls}
    return {}


def add_messages(buffer: bytearray, messages: Iterable[Message]) -> None:
    for message in messages:
        if message.role is _TOOL:
            _add_object(buffer, _encode_result(message))
        elif message.tool_calls:
            _add_object(buffer, _encode_assistant(message))
        elif message.content:
            _add_text(buffer, message)


def _add_object(buffer: bytearray, encoded: bytes) -> None:
    if buffer:
        buffer += b","
    buffer += encoded


def _add_text(buffer: bytearray, message: Message) -> None:
    text = encode_text(message.content)
    end = _ENDS[message.role]
    if buffer.endswith(end):
        # Many chat templates refuse two consecutive messages of one role.
        del buffer[-len(end) :]
        buffer += b"\\n\\n" + text[1:-1] + end
        return
    _add_object(buffer, b'{"content":' + text[:-1] + end)


def _encode_assistant(message: Message) -> bytes:
    calls = b",".join(_encode_call(call) for call in message.tool_calls)
    return b'{"role":"assistant","content":' + encode_text(message.content) + b',"tool_calls":[' + calls + b"]}"


def _encode_call(call: ToolCall) -> bytes:
    function = b'{"name":' + encode_text(call.name) + b',"arguments":' + encode_text(call.arguments) + b"}"
    return b'{"id":' + encode_text(call.id) + b',"type":"function","function":' + function + b"}"


def _encode_result(message: Message) -> bytes:
    content = encode_text(message.content or "(no output)")
    return b'{"role":"tool","tool_call_id":' + encode_text(message.tool_call_id) + b',"content":' + content + b"}"


# ---- requests -----------------------------------------------------------------------------------


_FORMS = {"openai": advance, "openai-text": advance_as_text, "openai-choices": advance_as_choices}


def encode_request(head: bytes, prompt: Prompt, *, form: str, rest: bytes) -> bytes:
    """Return the body of one request; `head` and `rest` are the encoded parts before and after the messages."""
    encoding = prompt.transcript.encoding(form, _FORMS[form])
    buffer = encoding.buffer
    # Messages of this request only are appended to a copy of the buffer, never to the buffer.
    place = encoding.split_place() if prompt.context else len(buffer)
    keep = max(0, place - _LONGEST_END)
    context = bytearray(buffer[keep:place])
    add_messages(context, prompt.context)
    rest_keep = max(place, len(buffer) - _LONGEST_END)
    end = context if place == len(buffer) else bytearray(buffer[rest_keep:])
    if form == "openai":
        waiting = open_calls(prompt.transcript.messages, encoding.count)
        if prompt.tail:
            add_messages(end, pair_results(prompt.tail, waiting))
        if waiting:
            add_messages(end, close_calls(waiting))
    elif prompt.tail:
        own = Encoding()
        own.buffer = end
        _FORMS[form](own, list(prompt.tail))
    system = "\n\n".join(block for block in prompt.system if block.strip())
    opening = b'"messages":['
    if system:
        opening += b'{"role":"system","content":' + encode_text(system) + b"}" + (b"," if context or end else b"")
    with memoryview(buffer) as view:
        between = () if end is context else (context, view[place:rest_keep])
        return b"".join((head, opening, view[:keep], *between, end, b"]", rest, b"}"))


class ToolEncoder:
    """Encodes tools, each once: every request has the same specs."""

    def __init__(self) -> None:
        self._encoded: dict[int, tuple[ToolSpec, bytes]] = {}
        self._last: tuple[tuple[ToolSpec, ...], bytes] = ((), b"[]")

    def __call__(self, tools: tuple[ToolSpec, ...]) -> bytes:
        if tools is not self._last[0]:
            self._last = (tools, b"[" + b",".join(self._encode_cached(tool) for tool in tools) + b"]")
        return self._last[1]

    def _encode_cached(self, tool: ToolSpec) -> bytes:
        # The spec is kept beside its bytes, so that its id() cannot be reused by another object.
        found = self._encoded.get(id(tool))
        if found is not None:
            return found[1]
        if len(self._encoded) >= 1024:
            self._encoded.clear()
        encoded = self.encode(tool)
        self._encoded[id(tool)] = (tool, encoded)
        return encoded

    def encode(self, tool: ToolSpec) -> bytes:
        function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        return _encoder.encode({"type": "function", "function": function})


# ---- answers ------------------------------------------------------------------------------------


class FunctionPart(msgspec.Struct, gc=False):
    name: str | None = None
    # The text of a JSON object; a few servers send the object itself.
    arguments: Any = None


class CallPart(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionPart | None = None


class Delta(msgspec.Struct, gc=False):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[CallPart] | None = None


class Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None


class PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class Tokens(msgspec.Struct, gc=False):
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    prompt_cache_miss_tokens: int | None = None


class PromptProgress(msgspec.Struct, gc=False):
    """How many tokens of the prompt llama.cpp has processed, including those it had in its cache."""

    total: int = 0
    processed: int = 0


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: Tokens | None = None
    error: Any = None
    prompt_progress: PromptProgress | None = None


class _TextDelta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: None = None
    reasoning: None = None
    refusal: None = None
    tool_calls: None = None


class _TextChoice(msgspec.Struct, gc=False):
    delta: _TextDelta
    index: Literal[0] | None = 0
    message: None = None
    finish_reason: None = None


class _TextChunk(msgspec.Struct, gc=False):
    """A chunk with a piece of text and nothing else."""

    choices: tuple[_TextChoice]
    usage: None = None
    error: None = None
    prompt_progress: None = None


_decode_texts = msgspec.json.Decoder(list[_TextChunk]).decode
# Below this many events, decoding each is as fast. The last ones of an answer say why and how it ended.
_FEWEST_TEXTS, _LAST_EVENTS = 6, 3


def take_texts(events: Sequence[bytes]) -> tuple[str, Sequence[bytes]]:
    """Decode the events that have a piece of text each and nothing else, at once; return the text and the other events.

    A fast model sends many events in one read, and most of them are such.
    """
    if len(events) < _FEWEST_TEXTS:
        return "", events
    texts = events[:-_LAST_EVENTS]
    try:
        chunks = _decode_texts(b"[" + b",".join(texts) + b"]")
    except (ValueError, RecursionError):
        return "", events
    if len(chunks) != len(texts):
        return "", events
    return "".join([chunk.choices[0].delta.content or "" for chunk in chunks]), events[-_LAST_EVENTS:]


def share_of(progress: PromptProgress) -> float:
    """Return the share of the prompt that was processed."""
    return min(1.0, max(0.0, progress.processed / progress.total)) if progress.total > 0 else 0.0


# Decodes one event of a stream. Raises ValueError if it is invalid.
decode_chunk = msgspec.json.Decoder(Chunk).decode


def repair_chunk(data: bytes) -> Chunk:
    """Decode an event that is not valid JSON in UTF-8: bytes and half surrogate pairs are repaired.

    Raises ValueError for anything else.
    """
    return msgspec.convert(json.loads(data.decode("utf-8", "replace")), Chunk, strict=False)


def parse_usage(tokens: Tokens) -> Usage:
    hit, miss = tokens.prompt_cache_hit_tokens, tokens.prompt_cache_miss_tokens
    if hit is None and tokens.prompt_tokens_details is not None:
        hit = tokens.prompt_tokens_details.cached_tokens
    if miss is None and hit is not None:
        miss = (tokens.prompt_tokens or 0) - hit
    details = tokens.completion_tokens_details
    reasoning = details.reasoning_tokens if details else 0
    counts = read_counts(tokens.prompt_tokens, tokens.completion_tokens, hit, miss, reasoning)
    return Usage(prompt=counts[0], completion=counts[1], cache_hit=counts[2], cache_miss=counts[3], reasoning=counts[4])
