"""Events with a piece of text each are decoded together; what is assembled is the same as one by one."""

import json
from random import Random
from typing import Any

import pytest

from moot.domain.ports.model import Finished, TextDelta, ThinkingDelta
from moot.models.openai import OpenAIAnswer
from moot.models.openai_wire import take_texts
from moot.models.sse import SseDecoder


def encode(delta: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"id": "x", "choices": [{"index": 0, "delta": delta, **more}]}).encode()


WORDS = [encode({"role": "assistant", "content": ""}), *(encode({"content": f"word{number} "}) for number in range(9))]
END = [encode({}, finish_reason="stop"), b'{"choices":[],"usage":{"prompt_tokens":7}}', b"[DONE]"]
TEXT = "".join(f"word{number} " for number in range(9))


def assemble(events: list[bytes], size: int) -> list[Any]:
    answer = OpenAIAnswer("m", Random(1))
    found: list[Any] = []
    for start in range(0, len(events), size):
        answer.take(events[start : start + size])
        found += answer.drain()
    return [*found, *answer.finish()]


def spoken(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7, 13])
def test_the_text_does_not_depend_on_how_many_events_come_together(size: int) -> None:
    found = assemble([*WORDS, *END], size)
    assert spoken(found) == TEXT
    assert isinstance(found[-1], Finished)
    assert found[-1].usage is not None
    assert found[-1].usage.prompt == 7


def test_texts_are_taken_at_once_and_the_last_events_are_left() -> None:
    text, others = take_texts([*WORDS, *END])
    assert text == TEXT
    assert list(others) == END


@pytest.mark.parametrize(
    "other",
    [
        encode({"reasoning_content": "hm"}),
        encode({"tool_calls": [{"index": 0, "id": "call_12345678", "function": {"name": "f", "arguments": "{}"}}]}),
        encode({"content": "cut"}, finish_reason="length"),
        b'{"choices":[],"usage":{"prompt_tokens":7}}',
        b'{"choices":[{"index":1,"delta":{"content":"second choice"}}]}',
        b'{"error":{"message":"overloaded"}}',
        b"",
        b"[DONE]",
        b"{",
    ],
)
def test_events_with_anything_else_are_left_to_be_taken_one_by_one(other: bytes) -> None:
    events = [*WORDS[:4], other, *WORDS[4:], *END]
    assert take_texts(events) == ("", events)


def test_an_event_that_holds_two_is_not_taken_for_two() -> None:
    joined = WORDS[1] + b"," + WORDS[2]
    events = [joined, *WORDS[3:], *END]
    assert take_texts(events) == ("", events)


def test_thinking_between_texts_keeps_its_place() -> None:
    events = [*WORDS[:4], encode({"reasoning_content": "hm"}), *WORDS[4:], *END]
    found = assemble(events, len(events))
    kinds = [type(event) for event in found if isinstance(event, TextDelta | ThinkingDelta)]
    assert kinds == [TextDelta, ThinkingDelta, TextDelta]
    assert spoken(found) == TEXT


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\ndata: b\n\ndata: c\n\n", [b"a\nb", b"c"]),
        (b"data: a\n\n: comment\n\ndata: b\n\n", [b"a", b"b"]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: \n\ndata: b\n\n", [b"", b"b"]),
    ],
)
def test_events_are_split_the_same_however_they_are_written(stream: bytes, data: list[bytes]) -> None:
    assert SseDecoder().feed(stream) == data
