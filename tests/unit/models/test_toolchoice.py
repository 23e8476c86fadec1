"""Tools for models that cannot call them."""

import json
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from moot.domain.message import ToolCall, assistant, tool_result, user
from moot.domain.ports.model import CallReady, Finished, ModelEvent, TextDelta, ToolSupport
from moot.domain.prompt import MOST_BY_SCHEMA, ToolSpec
from moot.models.toolchoice import ChoiceReader, JsonStringDecoder, choice_schema, render_guidance
from tests.fake_provider.ask import LOOKUP, ask, config, model_of, prompt, run
from tests.fake_provider.client import Provider


def decode(*pieces: str, truncated: bool = False, tools: Sequence[ToolSpec] = ()) -> list[ModelEvent]:
    choice = ChoiceReader(Random(1), tools)
    events = [event for piece in pieces for event in choice.take(TextDelta(piece))]
    return events + choice.take(Finished(None, truncated))


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")), st.data())
def test_what_is_said_is_decoded_whatever_is_in_it_and_wherever_it_is_cut(text: str, data: st.DataObject) -> None:
    ascii_only = data.draw(st.booleans())
    written = json.dumps({"tool": "say", "text": text}, ensure_ascii=ascii_only)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=8)))
    places = [0, *cuts, len(written)]

    events = decode(*(written[a:b] for a, b in zip(places, places[1:], strict=False)))

    assert text_of(events) == text
    assert not any(isinstance(event, CallReady) for event in events)


def test_what_is_said_is_passed_on_while_it_is_being_written() -> None:
    choice = ChoiceReader(Random(1))

    assert choice.take(TextDelta('{ "tool" : "say",')) == []
    assert choice.take(TextDelta(' "text" : "Good \\')) == [TextDelta("Good ")]
    assert choice.take(TextDelta("u00")) == []
    assert choice.take(TextDelta("fcber \\ud83d")) == [TextDelta("über ")]
    assert choice.take(TextDelta('\\ude00!"}')) == [TextDelta("😀!")]


def test_a_lone_surrogate_and_a_bad_escape_do_no_harm() -> None:
    assert text_of(decode('{"tool":"say","text":"a\\ud800b\\uZZZZ\\q"}')) == "a\ufffdb\ufffdq"


def test_a_call_is_ready_once_it_is_whole() -> None:
    events = decode('{"tool":"loo', 'kup","arguments":{"word":"mo', 'ot"}}')

    (ready, finished) = events
    assert isinstance(ready, CallReady)
    assert (ready.call.name, json.loads(ready.call.arguments), ready.flaw) == ("lookup", {"word": "moot"}, "")
    assert finished == Finished(None)


SPAWN = replace(
    LOOKUP,
    name="spawn",
    parameters={
        "type": "object",
        "properties": {name: {} for name in ("task", "agent", "tools", "seconds", "deep", "limits")},
        "required": ["task"],
    },
)


@pytest.mark.parametrize("nothing", ['""', '" "', '"…"', "[]", '[""]', '["say"]', "{}", "0", "0.0", "null"])
def test_an_optional_argument_that_says_nothing_is_left_out(nothing: str) -> None:
    said = decode(f'{{"tool":"spawn","arguments":{{"task":{nothing},"agent":{nothing}}}}}', tools=[SPAWN])

    assert isinstance(said[0], CallReady)
    # What is required stays as it was written, for the tool to judge.
    assert json.loads(said[0].call.arguments) == {"task": json.loads(nothing)}


def test_an_argument_that_says_something_stays() -> None:
    meant = {"task": "dig", "agent": "..", "tools": ["fs_read"], "seconds": 1, "deep": False, "limits": {"a": 0}}

    written = json.dumps({"tool": "spawn", "arguments": {**meant, "tools": ["", "fs_read", "say"]}})
    said = decode(written, tools=[SPAWN])

    assert isinstance(said[0], CallReady)
    assert json.loads(said[0].call.arguments) == meant


def test_plain_text_of_a_server_that_knows_no_schema_is_passed_on() -> None:
    assert text_of(decode("Well", ", hello")) == "Well, hello"
    assert text_of(decode('{"something": "else"}')) == '{"something": "else"}'
    assert text_of(decode('{"text": "late", "tool": "say"}')) == "late"


def test_an_answer_cut_inside_a_call_says_nothing() -> None:
    assert decode('{"tool":"lookup","argu', truncated=True) == [Finished(None, truncated=True)]


def test_an_answer_cut_inside_a_reply_keeps_what_was_said() -> None:
    assert text_of(decode('{"tool":"say","text":"so far \\u00', truncated=True)) == "so far "


def test_nothing_after_the_end_of_a_string_is_read() -> None:
    string = JsonStringDecoder()

    assert string.feed('a"} trailing') == "a"
    assert string.feed("more") == ""


def test_at_most_a_dozen_tools_are_offered_in_their_order(provider: Provider) -> None:
    tools = [replace(LOOKUP, name=f"tool_{n}") for n in range(20)]
    provider.program({"text": '{"tool": "say", "text": "hi"}'})

    said = ask(config(provider, "openai", tools="schema"), prompt("x", tools=tools))

    (body,) = provider.bodies()
    offered = body["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [shape["properties"].get("tool", {}).get("const") for shape in offered] == [
        "say",
        *(f"tool_{n}" for n in range(MOST_BY_SCHEMA)),
    ]
    assert "tools" not in body
    assert said.text == "hi"
    assert provider.faults() == []


def test_parameters_for_fine_control_are_not_shown_and_others_are(provider: Provider) -> None:
    plain = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    properties = {**plain["properties"], "patience": {"type": "integer"}}  # type: ignore[dict-item]
    tool = replace(LOOKUP, parameters={**plain, "properties": properties}, fine=frozenset({"patience"}))
    provider.program({"text": '{"tool": "say", "text": "hi"}'})

    ask(config(provider, "openai", tools="schema"), prompt("x", tools=[tool]))

    (body,) = provider.bodies()
    _, call = body["response_format"]["json_schema"]["schema"]["anyOf"]
    assert call["properties"]["arguments"] == plain
    assert "patience" not in str(body)


def test_after_a_result_it_is_asked_to_look_at_the_task_and_nowhere_else(provider: Provider) -> None:
    call = ToolCall(id="call_12345", name="lookup", arguments='{"word": "moot"}')
    told = [user("look"), assistant("", tool_calls=(call,)), tool_result(call.id, "an assembly")]
    for _ in range(2):
        provider.program({"text": '{"tool": "say", "text": "bye"}'})

    ask(config(provider, "openai", tools="schema"), prompt(*told, tools=[LOOKUP]))
    ask(config(provider, "openai", tools="schema"), prompt(*told, assistant("Done."), user("thanks"), tools=[LOOKUP]))

    after, later = provider.bodies()
    assert "The task was: look" in after["messages"][-1]["content"]
    assert "is left to do" not in str(later["messages"])


def test_a_history_is_told_in_the_shapes_the_model_writes(provider: Provider) -> None:
    call = ToolCall(id="call_12345", name="lookup", arguments='{"word": "moot"}')
    history = [
        user("look"),
        assistant("I will", tool_calls=(call,)),
        tool_result(call.id, "an assembly"),
        assistant("It is an assembly"),
        user("thanks"),
    ]
    provider.program({"text": '{"tool": "say", "text": "bye"}'})

    ask(config(provider, "openai", tools="schema"), prompt(*history, tools=[LOOKUP]))

    (body,) = provider.bodies()
    assert [message["content"] for message in body["messages"][1:]] == [
        "look",
        '{"tool": "say", "text": "I will"}\n{"tool": "lookup", "arguments": {"word": "moot"}}',
        "<moot-call>\n[lookup answered]\nan assembly\n</moot-call>",
        '{"tool": "say", "text": "It is an assembly"}',
        "thanks",
    ]
    assert provider.faults() == []


def test_without_tools_it_is_the_plain_model(provider: Provider) -> None:
    said = ask(config(provider, "openai", tools="schema"), prompt("hello"))

    assert said.text == "echo: hello"
    assert "response_format" not in provider.bodies()[0]


@pytest.mark.parametrize("support", list(ToolSupport))
def test_a_model_says_how_it_takes_tools(provider: Provider, support: ToolSupport) -> None:
    async def asked() -> ToolSupport:
        async with model_of(config(provider, "openai", tools=support.value)) as model:
            return model.tools

    assert run(asked) is support


def test_a_model_without_tools_is_never_sent_any(provider: Provider) -> None:
    ask(config(provider, "openai", tools="none"), prompt("hello", tools=[LOOKUP]))

    assert "tools" not in provider.bodies()[0]


def test_the_guidance_shows_each_tool_as_the_json_that_chooses_it() -> None:
    text = render_guidance((LOOKUP,))

    assert '{"tool": "lookup", "arguments": {"word": "…"}} Look a word up.' in text
    assert choice_schema((LOOKUP,))["anyOf"][1]["properties"]["arguments"] == LOOKUP.parameters
