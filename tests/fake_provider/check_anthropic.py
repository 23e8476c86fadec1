"""What is wrong with a Messages request: a list of sentences, empty for a valid one."""

import re
from collections.abc import Iterator
from typing import Any

from tests.fake_provider.check_openai import NAME, check_types

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_KEYS = {
    "model": str,
    "messages": list,
    "stream": bool,
    "system": list,
    "tools": list,
    "max_tokens": int,
    "thinking": dict,
}
_FIELDS = {
    "text": {"type", "text", "cache_control"},
    "tool_use": {"type", "id", "name", "input", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
_ROLES = {"user": {"text", "tool_result"}, "assistant": {"text", "tool_use", "thinking", "redacted_thinking"}}
_THOUGHTS = {"thinking", "redacted_thinking"}


def check(body: dict[str, Any]) -> Iterator[str]:
    faults = list(check_types(body, _KEYS))
    if faults:
        yield from faults
        return
    if body.get("max_tokens", 0) < 1:
        yield "max_tokens is required"
    thinking = body.get("thinking")
    if thinking is not None:
        budget = thinking.get("budget_tokens", 0)
        if thinking.get("type") != "enabled" or not 1024 <= budget < body.get("max_tokens", 0):
            yield "thinking needs a budget from 1024 to below max_tokens"
    yield from _check_tools(body.get("tools"))
    for block in body.get("system", []):
        if fault := _block_fault(block, {"text"}):
            yield f"system: {fault}"
    yield from _check_messages(body)
    marks = str(body.get("system")).count("'cache_control'") + str(body["messages"]).count("'cache_control'")
    if marks > 4:
        yield "more than four cache marks"


def _check_messages(body: dict[str, Any]) -> Iterator[str]:
    pending: list[str] = []
    used: set[str] = set()
    before = "assistant"
    for place, message in enumerate(body["messages"]):
        if fault := _message_fault(message):
            yield f"messages[{place}]: {fault}"
            return
        role, blocks = message["role"], message["content"]
        if role == before:
            yield f"messages[{place}]: roles must alternate and begin with user"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(pending):
            yield f"messages[{place}]: results {results} do not answer the calls {pending}"
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            yield f"messages[{place}]: results must come first"
        pending = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if used & set(pending) or len(set(pending)) != len(pending):
            yield f"messages[{place}]: tool_use ids must be unique"
        used.update(pending)
        before = role
    if pending:
        yield f"calls without results: {pending}"
    if before != "user":
        yield "the last message must be the user's"
    if used and "tools" not in body:
        yield "a history with tool_use needs tools"
    if "thinking" in body:
        yield from _check_thinking(body["messages"])


def _check_thinking(messages: list[dict[str, Any]]) -> Iterator[str]:
    """While a tool use goes on, each of its assistant messages must begin with thinking."""
    for message in reversed(messages):
        blocks = message["content"]
        if message["role"] == "user" and not any(block["type"] == "tool_result" for block in blocks):
            return
        if message["role"] == "assistant" and blocks[0]["type"] not in _THOUGHTS:
            yield "with thinking on, a tool use must begin with its thinking"


def _message_fault(message: Any) -> str:
    if not isinstance(message, dict) or set(message) != {"role", "content"} or message["role"] not in _ROLES:
        return "a message needs a role and content"
    if not isinstance(message["content"], list) or not message["content"]:
        return "content must be a list with something in it"
    spoken = False
    for block in message["content"]:
        if fault := _block_fault(block, _ROLES[message["role"]]):
            return fault
        if block["type"] in _THOUGHTS and spoken:
            return "thinking must come first"
        spoken = spoken or block["type"] not in _THOUGHTS
    return ""


def _block_fault(block: Any, kinds: set[str]) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in kinds:
        return f"a block of type {kind} cannot be here"
    if extra := set(block) - _FIELDS[kind]:
        return f"unknown fields {sorted(extra)}"
    faults = {
        "text": lambda: not isinstance(block.get("text"), str) or not block["text"].strip(),
        "tool_use": lambda: (
            not _ID.fullmatch(block.get("id", ""))
            or not NAME.fullmatch(block.get("name", ""))
            or not isinstance(block.get("input"), dict)
        ),
        "tool_result": lambda: (
            not _ID.fullmatch(block.get("tool_use_id", ""))
            or ("content" in block and (not isinstance(block["content"], str) or not block["content"].strip()))
        ),
        "thinking": lambda: not block.get("signature") or not isinstance(block.get("thinking"), str),
        "redacted_thinking": lambda: not block.get("data"),
    }
    return f"a bad {kind} block" if faults[kind]() else ""


def _check_tools(tools: list[Any] | None) -> Iterator[str]:
    if tools is None:
        return
    names = [tool.get("name", "") for tool in tools if isinstance(tool, dict)]
    for tool in tools:
        if set(tool) != {"name", "description", "input_schema"} or not NAME.fullmatch(tool["name"]):
            yield "a tool needs name, description and input_schema"
        elif tool["input_schema"].get("type") != "object":
            yield "input_schema must be an object's"
    if not tools or len(set(names)) != len(tools):
        yield "tools must be there and have unique names"
