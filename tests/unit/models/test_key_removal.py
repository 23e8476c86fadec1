"""A key is kept out of what is said, however the text is cut; all other text arrives whole."""

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.domain.errors import ModelError
from moot.domain.message import Thinking, ToolCall
from moot.domain.ports.model import CallReady, Finished, ModelEvent, TextDelta, ThinkingDelta, ThinkingDone
from moot.models.key_removal import hide_key
from tests.fake_provider import Provider
from tests.fake_provider.ask import LOOKUP, ask, config, prompt

KEY = "sk-sk-secret"


def heard(*events: ModelEvent, secret: str = KEY, error: ModelError | None = None) -> list[ModelEvent | ModelError]:
    async def given_events() -> AsyncGenerator[ModelEvent, None]:
        for event in events:
            yield event
        if error is not None:
            raise error

    async def get_secret() -> str:
        return secret

    async def listen() -> list[ModelEvent | ModelError]:
        out: list[ModelEvent | ModelError] = []
        try:
            async for event in hide_key(get_secret, given_events()):
                out.append(event)  # noqa: PERF401  what came before a failure is kept
        except ModelError as failure:
            out.append(failure)
        return out

    return asyncio.run(listen())


@given(
    st.lists(st.sampled_from([KEY, "sk-", "s", "sk-sk-secre", "plain", " "]), max_size=8),
    st.integers(min_value=1, max_value=9),
)
def test_a_key_is_hidden_however_the_text_is_cut(parts: list[str], size: int) -> None:
    text = "".join(parts)
    pieces = [TextDelta(text[at : at + size]) for at in range(0, len(text), size)]

    out = heard(*pieces, Finished(None))

    shown = text.replace(KEY, "…")
    # Most of a key is as good as the key.
    cut = max((size for size in range(8, len(KEY)) if shown.endswith(KEY[:size])), default=0)
    expected = shown[:-cut] + "…" if cut else shown
    assert "".join(event.text for event in out if isinstance(event, TextDelta)) == expected
    assert out[-1] == Finished(None)


def test_what_waited_comes_before_what_follows() -> None:
    assert heard(ThinkingDelta("its"), TextDelta("yes"), ThinkingDone(Thinking(text="a", signature="b"))) == [
        ThinkingDelta("it"),
        ThinkingDelta("s"),
        TextDelta("ye"),
        TextDelta("s"),
        ThinkingDone(Thinking(text="a", signature="b")),
    ]


def test_what_waited_is_said_when_the_model_fails() -> None:
    error = ModelError("broken")

    assert heard(TextDelta("yes"), error=error) == [TextDelta("ye"), TextDelta("s"), error]


def test_a_key_that_is_cut_off_is_hidden_and_its_first_letters_are_not() -> None:
    assert heard(TextDelta("it is sk-sk-sec"), error=ModelError("cut"))[1] == TextDelta("…")
    assert heard(TextDelta("it is sk-sk-s"), Finished(None))[1] == TextDelta("sk-sk-s")


def test_a_placeholder_is_a_word_like_any_other() -> None:
    assert heard(TextDelta("ollama is a program"), secret="ollama") == [TextDelta("ollama is a program")]


def escaped(text: str, every: int) -> str:
    """The text as JSON may write it, each so-many-th character as an escape."""
    return "".join(f"\\u{ord(each):04X}" if at % every == 0 else each for at, each in enumerate(text))


@pytest.mark.parametrize("every", [1, 2, 5])
def test_a_key_written_in_escapes_is_kept_out_of_arguments_and_of_what_is_wrong_with_them(every: int) -> None:
    key = escaped(KEY, every)
    call = ToolCall(id="call_12345678", name="lookup", arguments=f'{{"word": "it is {key}", "{key}": [1, "{key}"]}}')

    (said,) = heard(CallReady(call, f"they began '{{{key}'"))

    assert isinstance(said, CallReady)
    assert json.loads(said.call.arguments) == {"word": "it is …", "…": [1, "…"]}
    assert said.flaw == "they began '{…'"


def test_arguments_without_a_key_are_the_text_the_model_wrote() -> None:
    call = ToolCall(id="call_12345678", name="lookup", arguments='{ "word":"caf\\u00e9",  "n": 1.50 }')

    assert heard(CallReady(call)) == [CallReady(call)]


def test_an_error_that_quotes_the_key_in_escapes_does_not_show_it() -> None:
    (error,) = heard(error=ModelError(f"you sent {escaped(KEY, 3)}", fix=f"not {escaped(KEY, 1)}"))

    assert isinstance(error, ModelError)
    assert (error.message, error.fix, error.args) == ("you sent …", "not …", ("you sent …",))


@pytest.mark.parametrize("every", [1, 3])
def test_a_model_held_to_a_schema_cannot_say_the_key_in_escapes(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.setenv("SCHEMA_KEY", KEY)
    settings = config(provider, "openai", tools="schema", api_key="env:SCHEMA_KEY")
    say = '{"tool": "say", "text": "it is ' + escaped(KEY, every) + ', yes"}'
    call = '{"tool": "lookup", "arguments": {"word": "' + escaped(KEY, every) + '"}}'
    provider.program({"tokens": list(say)}, {"tokens": list(call)})

    assert ask(settings, prompt("what is the key?", tools=[LOOKUP])).text == "it is …, yes"
    (made,) = ask(settings, prompt("look it up", tools=[LOOKUP])).calls
    assert json.loads(made.call.arguments) == {"word": "…"}
