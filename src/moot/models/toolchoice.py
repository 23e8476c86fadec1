"""Tool calls for models without tool support: the model answers in JSON that follows a schema."""

import json
import re
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from functools import partial
from random import Random
from typing import Any, Protocol

from msgspec.structs import replace

from moot.domain.message import Message, Role, user
from moot.domain.ports.model import CallReady, Finished, Model, ModelEvent, TextDelta, ToolSupport
from moot.domain.prompt import MOST_BY_SCHEMA, Prompt, Safety, ToolSpec
from moot.domain.text import defuse
from moot.models.calls import CallAssembler
from moot.models.openai_wire import SAY
from moot.models.scrub import TextScrubber
from moot.models.wrapped import ModelWrapper

_REPLY = re.compile(r'\s*\{\s*"tool"\s*:\s*"say"\s*,\s*"text"\s*:\s*"')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_AFTER_RESULT = (
    "That was the result. The task was: {task}\n"
    "{failed}Is something of it left to do? Then choose the tool for that now. "
    f'If nothing is, choose "{SAY}" and tell what was done or found.'
)
_AFTER_ERROR = (
    "That call failed, and nothing was done by it. The task was: {task}\n"
    f'Choose the tool that the error asks for, or make the call again as it should be. Choose "{SAY}" only if '
    "it cannot be done."
)
_FAILED_BEFORE = "But {tool} failed before, and what it was to do is not done yet. "
# The most characters of the task in a reminder.
_TASK = 400
# The most characters of a tool's name in it.
_NAME = 64
_SPECIAL = re.compile(r'[\\"]')


class ConstrainedModel(Model, Protocol):
    """A model whose server can enforce a JSON schema."""

    def stream_constrained(
        self, prompt: Prompt, schema: dict[str, Any], read: "Read"
    ) -> AsyncGenerator[ModelEvent, None]: ...
    def encode(self, prompt: Prompt) -> bytes: ...
    def encode_constrained(self, prompt: Prompt, schema: dict[str, Any]) -> bytes: ...


# Decodes the JSON a model writes into events, before secrets are removed from them.
Read = Callable[[AsyncGenerator[ModelEvent, None]], AsyncGenerator[ModelEvent, None]]


class ToolChoice(ModelWrapper[ConstrainedModel]):
    """Offers at most twelve tools, the first ones. Without tools it behaves like the model it wraps."""

    def __init__(self, inner: ConstrainedModel, *, rng: Random | None = None) -> None:
        super().__init__(inner)
        self.tools = ToolSupport.SCHEMA
        self._rng = rng or Random()

    async def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        if not prompt.tools:
            async with aclosing(self.inner.stream(prompt)) as events:
                async for event in events:
                    yield event
            return
        guided, offered = _add_guidance(prompt)
        chosen = partial(self._choose, offered)
        async with aclosing(self.inner.stream_constrained(guided, choice_schema(offered), chosen)) as events:
            async for event in events:
                yield event

    def encode(self, prompt: Prompt) -> bytes:
        """Return the body of the request."""
        if not prompt.tools:
            return self.inner.encode(prompt)
        guided, offered = _add_guidance(prompt)
        return self.inner.encode_constrained(guided, choice_schema(offered))

    async def _choose(
        self, offered: tuple[ToolSpec, ...], events: AsyncGenerator[ModelEvent, None]
    ) -> AsyncGenerator[ModelEvent, None]:
        choice = ChoiceReader(self._rng, offered)
        async with aclosing(events):
            async for event in events:
                for decoded in choice.take(event):
                    yield decoded


def _add_guidance(prompt: Prompt) -> tuple[Prompt, tuple[ToolSpec, ...]]:
    """Return the prompt with a description of the tools as text, and the tools to choose from."""
    offered = tuple(map(_simplify_tool, prompt.tools[:MOST_BY_SCHEMA]))
    system, tail = (*prompt.system, render_guidance(offered)), (*prompt.tail, *_build_reminder(prompt))
    return replace(prompt, system=system, tail=tail, tools=()), offered


def _build_reminder(prompt: Prompt) -> tuple[Message, ...]:
    """Return a reminder of the task, because after a result a small model tends to make arbitrary calls."""
    messages = prompt.transcript.messages
    last = messages[-1:]
    if not last or last[0].role is not Role.TOOL or prompt.tail:
        return ()
    begin = next((at for at in reversed(range(len(messages))) if messages[at].role is Role.USER), -1)
    request = messages[begin].content if begin >= 0 else ""
    note = _AFTER_ERROR if last[0].is_error else _AFTER_RESULT
    # A failed read may have been needless; a model told of it makes it again and again.
    changing = {spec.name for spec in prompt.tools if spec.safety is not Safety.SAFE}
    tool = _find_failed_tool(messages[begin + 1 :], changing)
    note = note.replace("{failed}", _FAILED_BEFORE.replace("{tool}", tool) if tool else "")
    return (user(note.replace("{task}", " ".join(request.split())[:_TASK])),)


def _find_failed_tool(messages: Sequence[Message], changing: Collection[str]) -> str:
    """Return which of the tools that change something failed last and has not succeeded since, or ""."""
    names: dict[str, str] = {}
    failed: dict[str, None] = {}
    for message in messages:
        names.update((call.id, call.name) for call in message.tool_calls)
        if message.role is Role.TOOL:
            name = names.get(message.tool_call_id, "")
            failed.pop(name, None)
            if message.is_error and name in changing:
                failed[name] = None
    return defuse(next(reversed(failed), ""))[:_NAME]


def _simplify_tool(tool: ToolSpec) -> ToolSpec:
    """Return the tool without its parameters for fine control."""
    if not tool.fine:
        return tool
    shown = {name: each for name, each in tool.parameters["properties"].items() if name not in tool.fine}
    return replace(tool, parameters={**tool.parameters, "properties": shown})


def choice_schema(tools: tuple[ToolSpec, ...]) -> dict[str, Any]:
    """Return the schema for text or one call.

    Text is one of the choices, so that a model compares it with the tools.
    """
    return {"anyOf": [_object_schema({"tool": {"const": SAY}, "text": {"type": "string"}}), *map(_call_schema, tools)]}


def _call_schema(tool: ToolSpec) -> dict[str, Any]:
    return _object_schema({"tool": {"const": tool.name}, "arguments": tool.parameters or {"type": "object"}})


def _object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def render_guidance(tools: tuple[ToolSpec, ...]) -> str:
    """Return the instructions for answering: each tool as the JSON that chooses it, with what it is for."""
    listed = "\n".join(f"{_render_choice(tool)} {tool.description.strip()}" for tool in tools)
    return f"""Every answer of yours is one JSON object that chooses a tool:
{{"tool": "{SAY}", "text": "…"}} talk to the person: greet, say what you know for certain, report results
{listed}

If a tool can do or find what the person asks for, choose it; do not explain or announce it. One tool at a time. Its \
result is the next message; never invent one. When everything is done, choose "{SAY}" and tell the result."""


def _render_choice(tool: ToolSpec) -> str:
    properties = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    arguments = {name: _sample_value(properties.get(name)) for name in required}
    optional = [name for name in properties if name not in required]
    chosen = json.dumps({"tool": tool.name, "arguments": arguments}, ensure_ascii=False)
    return f"{chosen} (optional: {', '.join(optional)})" if optional else chosen


def _sample_value(spec: Any) -> Any:
    if not isinstance(spec, dict):
        return "…"
    for key in ("examples", "enum"):
        if isinstance(spec.get(key), list) and spec[key]:
            return spec[key][0]
    kind = spec.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    samples: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None}
    return samples.get(str(kind), "…")


class ChoiceReader:
    """Decodes the JSON as it arrives: text is passed on immediately, a call once it is complete.

    Plain text from a server that does not enforce the schema is passed on.
    """

    def __init__(self, rng: Random, tools: Sequence[ToolSpec] = ()) -> None:
        self._rng = rng
        self._tools = {tool.name: tool for tool in tools}
        self._text = ""
        self._string: JsonStringDecoder | None = None
        self._plain = False

    def take(self, event: ModelEvent) -> list[ModelEvent]:
        if isinstance(event, TextDelta):
            text = self._read(event.text)
            return [TextDelta(text)] if text else []
        if isinstance(event, Finished):
            return [*self._end(truncated=event.truncated), event]
        return [event]

    def _read(self, text: str) -> str:
        if self._plain:
            return text
        if self._string is not None:
            return self._string.feed(text)
        self._text += text
        if match := _REPLY.match(self._text):
            self._string = JsonStringDecoder()
            return self._string.feed(self._text[match.end() :])
        started = self._text.lstrip()
        if started and not started.startswith("{"):
            self._plain = True
            return self._text
        return ""

    def _end(self, *, truncated: bool) -> list[ModelEvent]:
        if self._string is not None:
            rest = self._string.rest()
            return [TextDelta(rest)] if rest else []
        if self._plain or not self._text.strip():
            return []
        return self._call(truncated=truncated)

    def _call(self, *, truncated: bool) -> list[ModelEvent]:
        try:
            value = json.loads(self._text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and value.get("tool") == SAY and isinstance(value.get("text"), str):
            return [TextDelta(value["text"])]
        if not isinstance(value, dict) or not isinstance(value.get("tool"), str):
            # Neither form: all of it is shown as text, unless it was cut inside a call.
            return [] if truncated else [TextDelta(self._text)]
        calls = CallAssembler(self._rng)
        arguments = drop_filler(value.get("arguments", {}), self._tools.get(value["tool"]))
        calls.add(0, "", value["tool"], json.dumps(arguments, ensure_ascii=False))
        made: list[CallReady] = list(calls.ready(truncated=False))
        return [*made]


def drop_filler(arguments: Any, tool: ToolSpec | None) -> Any:
    """Return the arguments without meaningless optional ones.

    With a schema, a small model fills in every field, with zero or an empty text if it means none.
    """
    if tool is None or not isinstance(arguments, dict):
        return arguments
    required = tool.parameters.get("required", ())
    text = {name: value if name in required else _without_filler(value) for name, value in arguments.items()}
    return {name: value for name, value in text.items() if name in required or not _is_filler(value)}


def _without_filler(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    # Text is a tool only for this model; in a list of tools it means none.
    return [each for each in value if each != SAY and not _is_filler(each)]


def _is_filler(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip() in ("", "…", "...")
    return value in (None, [], {}) or (value == 0 and not isinstance(value, bool))


class JsonStringDecoder:
    """Decodes the inside of one JSON string from chunks that may be split anywhere, also inside an escape."""

    def __init__(self) -> None:
        self._held = ""
        self._scrub = TextScrubber()
        self._ended = False

    def feed(self, text: str) -> str:
        if self._ended:
            return ""
        text, self._held = self._held + text, ""
        pieces: list[str] = []
        start = 0
        while match := _SPECIAL.search(text, start):
            pieces.append(text[start : match.start()])
            if match[0] == '"':
                self._ended = True
                return self._scrub("".join(pieces)) + self._scrub.rest()
            length = 6 if text[match.end() : match.end() + 1] == "u" else 2
            escape = text[match.start() : match.start() + length]
            if len(escape) < length:
                self._held = escape
                return self._scrub("".join(pieces))
            pieces.append(_unescape(escape))
            start = match.start() + length
        pieces.append(text[start:])
        return self._scrub("".join(pieces))

    def rest(self) -> str:
        """Return what is left if the text ends inside the string."""
        self._held = ""
        return self._scrub.rest()


def _unescape(escape: str) -> str:
    if escape[1] != "u":
        return _ESCAPES.get(escape[1], escape[1])
    try:
        return chr(int(escape[2:], 16))
    except ValueError:
        return "\ufffd"
