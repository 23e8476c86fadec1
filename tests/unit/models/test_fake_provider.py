"""The fake provider refuses what a real one would; a test against it means something only then."""

import copy
from typing import Any

import pytest

from tests.fake_provider import check_anthropic, check_openai

USER = {"role": "user", "content": "hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}}
CALLING = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "x"}


def openai(*messages: Any, **more: Any) -> list[str]:
    return list(check_openai.check({"model": "m", "messages": copy.deepcopy(list(messages)), "tools": [TOOL], **more}))


def test_good_openai_requests_have_no_faults() -> None:
    assert openai({"role": "system", "content": "s"}, USER, CALLING, RESULT) == []


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [USER, {"role": "system", "content": "late"}],
        [USER, USER],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": None}],
        [{"role": "robot", "content": "x"}],
        [{**USER, "agent": "x"}],
        [USER, CALLING],
        [USER, CALLING, USER],
        [USER, RESULT],
        [USER, CALLING, RESULT, RESULT],
        [USER, {**CALLING, "tool_calls": [CALL, CALL]}, RESULT, RESULT],
        [USER, {**CALLING, "tool_calls": []}],
        [USER, {**CALLING, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "nope"}}]}, RESULT],
        [USER, {**CALLING, "tool_calls": [{**CALL, "function": {"name": "f g", "arguments": "{}"}}]}, RESULT],
        [USER, {"role": "assistant", "content": "last word"}],
    ],
)
def test_bad_openai_messages_are_refused(messages: list[Any]) -> None:
    assert openai(*messages)


@pytest.mark.parametrize("more", [{"surprise": 1}, {"max_tokens": "9"}, {"tools": []}, {"tools": [TOOL, TOOL]}])
def test_bad_openai_fields_are_refused(more: dict[str, Any]) -> None:
    assert openai(USER, **more)


@pytest.mark.parametrize("raw", [b"\xff{}", b"{", b"[]", b'{"a":1,"a":2}', b'{"a":"\\ud800"}', b'{"a":"\\u0000"}'])
def test_what_is_not_strict_json_is_refused(raw: bytes) -> None:
    assert check_openai.parse_strictly(raw)[1]


TEXT = {"type": "text", "text": "hi"}
SAID = {"role": "user", "content": [TEXT]}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
USING = {"role": "assistant", "content": [USE]}
GIVEN = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
GIVING = {"role": "user", "content": [GIVEN]}
ANSWER = {"role": "assistant", "content": [TEXT]}
SPEC = {"name": "f", "description": "", "input_schema": {"type": "object"}}


def anthropic(*messages: Any, **more: Any) -> list[str]:
    body = {"model": "m", "max_tokens": 9000, "messages": copy.deepcopy(list(messages)), "tools": [SPEC], **more}
    return list(check_anthropic.check(body))


def test_good_anthropic_requests_have_no_faults() -> None:
    assert anthropic(SAID, USING, {"role": "user", "content": [GIVEN, TEXT]}, system=[TEXT]) == []


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [ANSWER, SAID],
        [SAID, SAID],
        [SAID, ANSWER],
        [{"role": "user", "content": []}],
        [{"role": "user", "content": [{"type": "text", "text": "  "}]}],
        [{"role": "system", "content": [TEXT]}],
        [SAID, USING, SAID],
        [SAID, USING],
        [GIVING],
        [SAID, USING, {"role": "user", "content": [TEXT, GIVEN]}],
        [SAID, USING, {"role": "user", "content": [GIVEN, GIVEN]}],
        [SAID, USING, GIVING, USING, GIVING],
        [SAID, {"role": "assistant", "content": [{**USE, "id": "bad id"}]}, GIVING],
        [SAID, {"role": "assistant", "content": [{**USE, "input": "{}"}]}, GIVING],
        [SAID, {"role": "assistant", "content": [TEXT, {"type": "redacted_thinking", "data": "x"}]}, SAID],
        [SAID, {"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": ""}, TEXT]}, SAID],
    ],
)
def test_bad_anthropic_messages_are_refused(messages: list[Any]) -> None:
    assert anthropic(*messages)


@pytest.mark.parametrize(
    "more",
    [
        {"max_tokens": 0},
        {"surprise": 1},
        {"system": [{"type": "text", "text": ""}]},
        {"thinking": {"type": "enabled", "budget_tokens": 9000}},
        {"tools": [SPEC, SPEC]},
    ],
)
def test_bad_anthropic_fields_are_refused(more: dict[str, Any]) -> None:
    assert anthropic(SAID, **more)


def test_a_tool_use_without_its_thinking_is_refused_while_thinking_is_on() -> None:
    assert anthropic(SAID, USING, GIVING, thinking={"type": "enabled", "budget_tokens": 1024})
