"""The model that does what a file says."""

import asyncio
from pathlib import Path

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.config import ModelConfig
from moot.domain.errors import ConfigError
from moot.domain.message import assistant, tool_result, user
from moot.domain.ports.model import Finished, TextDelta, ThinkingDelta
from moot.domain.text import COMPACTION_MARK
from moot.domain.title import title_of
from moot.domain.usage import Usage
from moot.models.scripted import ScriptedModel
from tests.fake_provider.ask import Said, hear, model_of, prompt, run


def scripted(tmp_path: Path, script: str) -> ScriptedModel:
    file = tmp_path / "script.toml"
    file.write_text(script, encoding="utf-8")
    return ScriptedModel(ModelConfig(name="s", provider="scripted", script=str(file)), clock=SystemClock())


def say(model: ScriptedModel, *messages: str, system: str = "Be kind.") -> Said:
    said: Said = run(lambda: hear(model, prompt(*messages, system=[system])))
    return said


def test_the_first_rule_that_matches_answers_word_by_word(tmp_path: Path) -> None:
    model = scripted(
        tmp_path,
        """
        [[rule]]
        match = "weather in (?P<place>\\\\w+)"
        reply = "Rain in {place}, you said {user} {unknown}"
        [[rule]]
        reply = "Anything else"
        """,
    )

    said = say(model, "the weather in Oslo?")

    assert said.text == "Rain in Oslo, you said the weather in Oslo? {unknown}"
    assert [event.text for event in said.events if isinstance(event, TextDelta)][:3] == ["Rain", " in", " Oslo,"]
    assert say(model, "hello").text == "Anything else"


def test_rules_can_be_for_one_agent(tmp_path: Path) -> None:
    model = scripted(
        tmp_path, '[[rule]]\nagent = "critic"\nreply = "Hm."\n[[rule]]\nsystem = "writer"\nreply = "Once upon."'
    )

    assert say(model, "x", system="You are the critic").text == "Hm."
    assert say(model, "x", system="You are the writer").text == "Once upon."


def test_a_rule_calls_tools_and_answers_once_the_result_is_there(tmp_path: Path) -> None:
    model = scripted(
        tmp_path,
        '[[rule]]\nafter_tool = "It says {result}"\n'
        'calls = [{name = "read", arguments = {path = "a"}}, {name = "read"}]',
    )

    first = say(model, "go")
    calls = tuple(ready.call for ready in first.calls)
    asked = prompt("go", assistant("", tool_calls=calls), *(tool_result(call.id, "42") for call in calls))
    second: Said = run(lambda: hear(model, asked))

    assert [call.arguments for call in calls] == ['{"path": "a"}', "{}"]
    assert len({call.id for call in calls}) == 2
    assert second.text == "It says 42"
    assert second.calls == []


def test_thinking_usage_and_emptiness_are_as_written(tmp_path: Path) -> None:
    model = scripted(
        tmp_path,
        """
        [[rule]]
        match = "think"
        thinking = "Let me see."
        reply = "Yes."
        usage = { prompt = 10, completion = 3, reasoning = 2 }
        [[rule]]
        empty = true
        """,
    )

    thought = say(model, "think")
    assert thought.events[0] == ThinkingDelta("Let me see.")
    assert thought.events[-1] == Finished(Usage(prompt=10, completion=3, reasoning=2))
    assert say(model, "x").text == ""


def test_failures_can_be_counted_and_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[[rule]]\nerror = "too busy"\nretryable = true\ntimes = 1\n[[rule]]\nreply = "ok"')

    async def one() -> Said:
        async with model_of(ModelConfig(name="s", provider="scripted", script=str(file))) as model:
            return await hear(model, prompt("x"))

    said: Said = run(one)

    assert len(said.retries) == 1
    assert said.text == "ok"


def test_a_hanging_rule_waits_until_it_is_cancelled(tmp_path: Path) -> None:
    model = scripted(tmp_path, "[[rule]]\nhang = true")

    async def impatient() -> None:
        async with asyncio.timeout(0.05):
            await hear(model, prompt("x"))

    with pytest.raises(TimeoutError):
        run(impatient)


@pytest.mark.parametrize(
    "script", ["[[rule]]\nreplay = 1", "[[rule]\n", '[[rule]]\nmatch = "("', "[[rule]]\nreply = 3", "rule = 7"]
)
def test_a_wrong_script_is_reported_with_its_file(tmp_path: Path, script: str) -> None:
    with pytest.raises(ConfigError) as raised:
        scripted(tmp_path, script)

    assert "script.toml" in raised.value.message


def test_a_missing_script_is_reported() -> None:
    with pytest.raises(ConfigError):
        ScriptedModel(ModelConfig(name="s", provider="scripted", script="/nonexistent/x.toml"), clock=SystemClock())


def test_without_a_script_it_repeats_what_it_was_told() -> None:
    model = ScriptedModel(ModelConfig(name="s", provider="scripted"), clock=SystemClock())

    assert "I like tea" in say(model, "I like tea").text
    assert say(model, "same").events == say(model, "same").events
    assert model.window == 8192


def test_without_a_script_it_uses_the_result_of_a_tool() -> None:
    model = ScriptedModel(ModelConfig(name="s", provider="scripted"), clock=SystemClock())

    said: Said = run(lambda: hear(model, prompt("go", assistant("x"), tool_result("1", "42"))))

    assert "42" in said.text


def test_without_a_script_it_summarises_with_a_title_first() -> None:
    model = ScriptedModel(ModelConfig(name="s", provider="scripted"), clock=SystemClock())

    text = say(model, "Plan the garden party", system=f"({COMPACTION_MARK}) Summarise.").text

    assert title_of(text) == "A conversation about Plan the garden party."
    assert len(text) > 60


def test_what_is_only_for_this_request_does_not_hide_what_the_person_said() -> None:
    model = ScriptedModel(ModelConfig(name="s", provider="scripted"), clock=SystemClock())
    asked = prompt("the question")
    framed = type(asked)(system=(), transcript=asked.transcript, tail=(user("some framing"),))

    said: Said = run(lambda: hear(model, framed))

    assert "the question" in said.text
