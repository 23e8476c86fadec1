"""What every model must do, whether it is behind a wire or answers by a script."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from moot.domain.config import ModelConfig
from moot.domain.message import Thinking, ToolCall, assistant, tool_result, user
from moot.domain.ports.model import CallReady, Finished, TextDelta, ThinkingDelta, ThinkingDone
from moot.domain.prompt import Prompt
from tests.fake_provider.ask import LOOKUP, Said, ask, config, hear, model_of, prompt, run
from tests.fake_provider.client import Provider
from tests.scripting import script


class Programmable:
    """A model of one kind that gives the answers it is programmed with."""

    def __init__(self, kind: str, provider: Provider, folder: Path) -> None:
        self.kind = kind
        self._provider = provider
        self._script = folder / "script.toml"

    def program(self, **answer: Any) -> None:
        """The answer to the next request. Any other repeats the last result of a tool."""
        if self.kind != "scripted":
            self._provider.program(answer)
            return
        if "text" in answer:
            answer["reply"] = answer.pop("text")
        rules = [{"times": 1, **answer}, {"reply": "", "after_tool": "tool said: {result}"}]
        self._script.write_text(script(*rules))

    def ask(self, asked: Prompt) -> Said:
        return ask(self.settings, asked)

    @property
    def settings(self) -> ModelConfig:
        if self.kind != "scripted":
            return config(self._provider, self.kind)
        return ModelConfig(name="m", provider="scripted", script=str(self._script))


@pytest.fixture(params=["openai", "anthropic", "scripted"])
def model(request: pytest.FixtureRequest, provider: Provider, tmp_path: Path) -> Programmable:
    return Programmable(request.param, provider, tmp_path)


def test_an_answer_is_streamed_and_ends_with_its_usage(model: Programmable) -> None:
    model.program(text="Good day to you", usage={"prompt": 40, "completion": 4})

    said = model.ask(prompt("Hello"))

    assert said.text == "Good day to you"
    assert isinstance(said.events[0], TextDelta)
    last = said.events[-1]
    assert isinstance(last, Finished)
    assert last.usage is not None
    assert (last.usage.prompt, last.usage.completion, last.truncated) == (40, 4, False)
    assert said.endings == 1


def test_thinking_comes_before_the_text_and_is_kept_whole(model: Programmable) -> None:
    model.program(thinking="Two and two. Four.", text="Four")

    said = model.ask(prompt("2+2?"))

    signature = "c2lnbmVk" if model.kind == "anthropic" else ""
    assert said.thinking == "Two and two. Four."
    assert ThinkingDone(Thinking(text="Two and two. Four.", signature=signature)) in said.events
    assert said.text == "Four"
    kinds = [type(event) for event in said.events]
    assert kinds.index(ThinkingDelta) < kinds.index(ThinkingDone) < kinds.index(TextDelta)


def test_tool_calls_and_their_results_go_round(model: Programmable) -> None:
    model.program(text="Let me see", calls=[{"name": "lookup", "arguments": {"word": "moot"}}])
    asked = prompt("What is a moot?", tools=[LOOKUP])

    async def two_steps() -> tuple[Said, Said]:
        async with model_of(model.settings) as one:
            first = await hear(one, asked)
            call = first.calls[0].call
            asked.transcript.extend([assistant(first.text, tool_calls=(call,)), tool_result(call.id, "an assembly")])
            return first, await hear(one, asked)

    first, again = run(two_steps)
    (ready,) = first.calls
    assert (first.text, ready.flaw) == ("Let me see", "")
    assert (ready.call.name, ready.call.arguments) == ("lookup", '{"word": "moot"}')
    assert again.text == "tool said: an assembly"
    assert first.endings == again.endings == 1


def test_a_hundred_parallel_calls_keep_their_order_and_have_ids_of_their_own(model: Programmable) -> None:
    model.program(calls=[{"name": "lookup", "arguments": {"word": str(n)}} for n in range(100)])

    said = model.ask(prompt("all", tools=[LOOKUP]))

    assert [ready.call.arguments for ready in said.calls] == [f'{{"word": "{n}"}}' for n in range(100)]
    assert len({ready.call.id for ready in said.calls}) == 100


@pytest.mark.parametrize(
    ("arguments", "flaw"),
    [
        ('{"word": ', "not valid JSON"),
        ('{"word": "a", "word": "b"}', "twice"),
        ('["word"]', "must be a JSON object"),
        ('{"word": "' + "x" * 1_000_001 + '"}', "longer than"),
        ('{"word": NaN}', "NaN"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested too deeply"),
    ],
)
def test_unusable_arguments_are_named_and_replaced_by_none(model: Programmable, arguments: str, flaw: str) -> None:
    model.program(calls=[{"name": "lookup", "arguments": arguments}])

    (ready,) = model.ask(prompt("x", tools=[LOOKUP])).calls

    assert flaw in ready.flaw
    assert ready.call.arguments == "{}"


def test_a_name_no_provider_takes_back_is_a_flaw(model: Programmable) -> None:
    model.program(calls=[{"name": "look up!"}, {"name": "unknown_tool"}])

    first, second = model.ask(prompt("x", tools=[LOOKUP])).calls

    assert first.call.name == "look_up_"
    assert "not the name" in first.flaw
    assert second == CallReady(ToolCall(id=second.call.id, name="unknown_tool", arguments="{}"))


def test_an_empty_completion_ends_once_and_says_nothing(model: Programmable) -> None:
    model.program(text="")

    said = model.ask(prompt("x"))

    assert (said.text, said.endings) == ("", 1)


def test_a_request_changes_nothing_of_its_prompt(model: Programmable) -> None:
    asked = prompt("one")
    framed = type(asked)(system=asked.system, transcript=asked.transcript, tail=(user("(framing)"),))
    model.program(text="Yes.")

    assert model.ask(framed).text == "Yes."
    assert [message.content for message in asked.transcript.messages] == ["one"]


def test_closing_the_generator_ends_the_call(model: Programmable) -> None:
    model.program(text="one two three four")

    async def leave_early() -> int:
        async with model_of(model.settings) as one:
            async with aclosing(one.stream(prompt("x"))) as events:
                await anext(events)
            return len(asyncio.all_tasks())

    assert run(leave_early) == 1
