"""What only the Anthropic wire has: signed thinking, cache marks, one message of results."""

import json
from typing import Any

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.config import ModelConfig
from moot.domain.message import Message, Role, Thinking, ToolCall, assistant, tool_result, user
from moot.domain.ports.model import ThinkingDone
from moot.models.anthropic import AnthropicModel
from moot.models.http_client import HttpClient
from tests.fake_provider.ask import LOOKUP, ask, config, prompt
from tests.fake_provider.client import Provider

CALLS = (
    ToolCall(id="toolu_one", name="lookup", arguments='{"word": "a"}'),
    ToolCall(id="call 2", name="lookup", arguments='{"word": "b"}'),
)
SIGNED = (Thinking(text="Hm.", signature="c2ln"), Thinking(text="", signature="redacted:ZGF0YQ=="))


def body_of(*messages: Message, **settings: Any) -> dict[str, Any]:
    given = ModelConfig(name="m", provider="anthropic", model="x", base_url="http://127.0.0.1:1", **settings)
    model = AnthropicModel(given, http=lambda: HttpClient(SystemClock()))
    body: dict[str, Any] = json.loads(model.encode(prompt(*messages, tools=[LOOKUP], system=["one", "two"])))
    return body


def thinking_step(*thoughts: Thinking) -> Message:
    return Message(role=Role.ASSISTANT, content="", tool_calls=CALLS, thinking=thoughts)


def test_all_results_of_a_step_are_one_message_right_after_it() -> None:
    body = body_of(
        user("go"), assistant("", tool_calls=CALLS), tool_result("call 2", "B"), tool_result("toolu_one", "A")
    )

    (_, calls, results) = body["messages"]
    assert [block["id"] for block in calls["content"]] == ["toolu_one", "call_1_1"]
    assert [block["tool_use_id"] for block in results["content"]] == ["call_1_1", "toolu_one"]


def test_thinking_goes_back_with_its_tool_use_and_nowhere_else() -> None:
    last = Message(role=Role.ASSISTANT, content="Done.", thinking=SIGNED)
    results = [tool_result(call.id, "x") for call in CALLS]

    body = body_of(user("go"), thinking_step(*SIGNED), *results, last, user("more"), thinking_tokens=2000)

    assert body["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    ]
    assert [block["type"] for block in body["messages"][3]["content"]] == ["text"]
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert body["max_tokens"] == 2000 + 8192


def test_thinking_is_off_in_the_middle_of_a_tool_use_that_began_without_it() -> None:
    results = [tool_result(call.id, "x") for call in CALLS]

    body = body_of(user("go"), thinking_step(Thinking(text="unsigned")), *results, thinking_tokens=2000)

    assert "thinking" not in body
    assert "unsigned" not in json.dumps(body)


@pytest.mark.parametrize("has_results", [True, False])
def test_thinking_is_off_behind_a_tool_use_that_was_stopped_before_its_answer(has_results: bool) -> None:
    """The next message is sent together with the results."""
    results = [tool_result(call.id, "x") for call in CALLS] if has_results else []
    stopped = [user("go"), thinking_step(), *results, user("stopped"), user("next")]

    assert "thinking" not in body_of(*stopped, thinking_tokens=2000)
    assert "thinking" in body_of(*stopped, assistant("Done."), user("more"), thinking_tokens=2000)


def test_without_the_setting_no_thinking_is_sent() -> None:
    results = [tool_result(call.id, "x") for call in CALLS]

    body = body_of(user("go"), thinking_step(*SIGNED), *results)

    assert "c2ln" not in json.dumps(body)
    assert "thinking" not in body


def test_the_end_of_the_instructions_and_of_the_history_are_marked_for_the_cache() -> None:
    body = body_of(user("a"), assistant("b"), user("c"))

    assert [("cache_control" in block) for block in body["system"]] == [False, True]
    marked = [("cache_control" in block) for message in body["messages"] for block in message["content"]]
    assert marked == [False, False, True]


def test_the_mark_stays_on_the_history_when_something_is_added_for_one_request(provider: Provider) -> None:
    asked = prompt("a")
    framed = type(asked)(system=asked.system, transcript=asked.transcript, tail=(user("framing"),))

    ask(config(provider, "anthropic"), framed)

    (message,) = provider.bodies()[0]["messages"]
    assert [("cache_control" in block) for block in message["content"]] == [True, False]


def test_a_history_that_begins_with_the_assistant_is_begun_by_the_user() -> None:
    body = body_of(assistant("Welcome"), user("hi"))

    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_broken_arguments_of_an_old_history_become_an_empty_object() -> None:
    bad = ToolCall(id="toolu_bad", name="lookup", arguments="{oops")

    body = body_of(user("go"), assistant("", tool_calls=(bad,)), tool_result(bad.id, "x"))

    assert body["messages"][1]["content"][0]["input"] == {}


def test_redacted_thinking_is_kept_for_the_way_back(provider: Provider) -> None:
    provider.program({"redacted": "ZGF0YQ==", "thinking": "Hm.", "text": "ok"})

    said = ask(config(provider, "anthropic"), prompt("x"))

    kept = [event.thinking for event in said.events if isinstance(event, ThinkingDone)]
    assert kept == [Thinking(text="", signature="redacted:ZGF0YQ=="), Thinking(text="Hm.", signature="c2lnbmVk")]


def test_a_whole_turn_with_thinking_and_tools_is_accepted(provider: Provider) -> None:
    provider.program({"thinking": "Look.", "calls": [{"name": "lookup", "arguments": {"word": "a"}}]}, {"text": "Done"})
    settings = config(provider, "anthropic", thinking_tokens=1024)
    asked = prompt("go", tools=[LOOKUP])

    first = ask(settings, asked)
    thoughts = tuple(event.thinking for event in first.events if isinstance(event, ThinkingDone))
    call = first.calls[0].call
    step = Message(role=Role.ASSISTANT, content="", tool_calls=(call,), thinking=thoughts)
    asked.transcript.extend([step, tool_result(call.id, "found")])
    second = ask(settings, asked)

    assert second.text == "Done"
    assert provider.faults() == []
    assert provider.bodies()[1]["messages"][1]["content"][0]["type"] == "thinking"
