"""Calls and results: each call has one result, however many calls there are."""

from moot.domain.message import Message, ToolCall, assistant, tool_result, user
from moot.models.pairing import NO_RESULT, close_calls, open_calls, pair_results


def calling(*ids: str) -> Message:
    return assistant("", tool_calls=tuple(ToolCall(id=each, name="read", arguments="{}") for each in ids))


def left(call_id: str) -> Message:
    return tool_result(call_id, NO_RESULT, is_error=True)


def test_a_call_left_open_is_closed_before_the_next_message() -> None:
    messages = [calling("a", "b", "c"), tool_result("b", "x"), user("go on")]

    assert list(pair_results(messages, {})) == [*messages[:2], left("a"), left("c"), messages[2]]


def test_a_result_answers_one_of_two_calls_with_the_same_id() -> None:
    messages = [calling("a", "a", "b"), tool_result("a", "x")]
    waiting = open_calls(messages, 2)

    assert list(close_calls(waiting)) == [left("a"), left("b")]
    assert waiting == {}


def test_what_is_open_is_the_same_whether_read_back_or_gone_through() -> None:
    messages = [calling("a", "b", "a"), tool_result("b", "x"), tool_result("a", "y"), tool_result("z", "no call")]
    waiting: dict[str, int] = {}

    assert list(pair_results(messages, waiting)) == messages[:3]
    assert waiting == open_calls(messages, 4) == {"a": 1}


def test_a_result_without_any_call_becomes_words() -> None:
    assert list(pair_results([tool_result("z", "x")], {})) == [user("(A result without its call: x)")]


def test_very_many_calls_are_paired() -> None:
    ids = [f"call-{number}" for number in range(20_000)]
    messages = [calling(*ids), *(tool_result(each, "") for each in reversed(ids))]

    assert open_calls(messages, len(messages)) == {}
    assert len(list(pair_results(messages, {}))) == len(messages)
