"""What is wrong with a chat/completions request: a list of sentences, empty for a valid one."""

import json
import re
from collections.abc import Iterator
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KEYS = {
    "model": str,
    "messages": list,
    "stream": bool,
    "stream_options": dict,
    "tools": list,
    "max_tokens": int,
    "max_completion_tokens": int,
    "response_format": dict,
}
_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


def parse_strictly(raw: bytes) -> tuple[dict[str, Any] | None, list[str]]:
    try:
        body = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)
        json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        return None, [f"not strict JSON in UTF-8: {error}"]
    if not isinstance(body, dict):
        return None, ["the body is not an object"]
    return body, ["a string contains NUL"] if "\\u0000" in json.dumps(body) else []


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate keys")
    return value


def check_types(body: dict[str, Any], keys: dict[str, type]) -> Iterator[str]:
    for key, value in body.items():
        if key not in keys:
            yield f"unknown field {key}"
        elif type(value) is not keys[key]:
            yield f"{key} has the wrong type"
    if not body.get("model"):
        yield "model is missing"
    if not body.get("messages"):
        yield "messages are missing"


def check(body: dict[str, Any]) -> Iterator[str]:
    faults = list(check_types(body, _KEYS))
    if faults:
        yield from faults
        return
    yield from _check_tools(body.get("tools"))
    pending: list[str] = []
    before = ""
    for place, message in enumerate(body["messages"]):
        fault = _shape(message)
        if fault:
            yield f"messages[{place}]: {fault}"
            return
        role = message["role"]
        if role == "system" and place:
            yield f"messages[{place}]: a system message must be the first one, and the only one"
        if role in {"user", "assistant"} and role == before:
            yield f"messages[{place}]: roles must alternate"
        if role == "tool":
            if message["tool_call_id"] not in pending:
                yield f"messages[{place}]: a result without its call"
            else:
                pending.remove(message["tool_call_id"])
        elif pending:
            yield f"messages[{place}]: calls without results: {pending}"
            pending = []
        if message.get("tool_calls"):
            pending = [call["id"] for call in message["tool_calls"]]
            if "tools" not in body:
                yield "a history with calls needs tools"
        before = role
    if pending:
        yield f"calls without results: {pending}"
    if before not in {"user", "tool"}:
        yield "the last message must be the user's or a result"


def _shape(message: Any) -> str:
    if not isinstance(message, dict) or message.get("role") not in _FIELDS:
        return "no such role"
    role = message["role"]
    if extra := set(message) - _FIELDS[role]:
        return f"unknown fields {sorted(extra)}"
    if not isinstance(message.get("content"), str):
        return "content must be text"
    if not message["content"] and not message.get("tool_calls"):
        return "content is empty"
    if role == "tool" and not message.get("tool_call_id"):
        return "tool_call_id is missing"
    return _calls_shape(message["tool_calls"]) if "tool_calls" in message else ""


def _calls_shape(calls: Any) -> str:
    if not isinstance(calls, list) or not calls:
        return "tool_calls must be a list with something in it"
    for call in calls:
        if set(call) != {"id", "type", "function"} or call["type"] != "function" or not call["id"]:
            return "a call needs id, type and function"
        if set(call["function"]) != {"name", "arguments"} or not NAME.fullmatch(call["function"]["name"]):
            return "a function needs name and arguments"
        try:
            arguments = json.loads(call["function"]["arguments"], object_pairs_hook=_unique)
        except (TypeError, ValueError):
            return "arguments must be the text of a JSON object"
        if not isinstance(arguments, dict):
            return "arguments must be the text of a JSON object"
    if len({call["id"] for call in calls}) != len(calls):
        return "call ids must be unique"
    return ""


def _check_tools(tools: list[Any] | None) -> Iterator[str]:
    if tools is None:
        return
    if not tools:
        yield "tools is empty"
    names = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
        if not isinstance(function, dict) or set(function) != {"name", "description", "parameters"}:
            yield "a tool needs type and function with name, description, parameters"
            continue
        if not NAME.fullmatch(function["name"]) or function["parameters"].get("type") != "object":
            yield f"tool {function['name']!r} has a bad name or parameters"
        names.append(function["name"])
    if len(set(names)) != len(names):
        yield "tool names must be unique"
