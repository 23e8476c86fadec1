"""A key is kept out of what is said, however the text is cut; all other text arrives whole."""

import asyncio
from collections.abc import AsyncGenerator

from hypothesis import given
from hypothesis import strategies as st

from moot.domain.errors import ModelError
from moot.domain.message import Thinking
from moot.domain.ports import Finished, ModelEvent, TextDelta, ThinkingDelta, ThinkingDone
from moot.models.secrecy import hide_key

KEY = "sk-sk-secret"


def heard(*events: ModelEvent, secret: str = KEY, error: ModelError | None = None) -> list[ModelEvent | ModelError]:
    async def given_events() -> AsyncGenerator[ModelEvent, None]:
        for event in events:
            yield event
        if error is not None:
            raise error

    async def listen() -> list[ModelEvent | ModelError]:
        out: list[ModelEvent | ModelError] = []
        try:
            async for event in hide_key(secret, given_events()):
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

    assert "".join(event.text for event in out if isinstance(event, TextDelta)) == text.replace(KEY, "…")
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


def test_a_placeholder_is_a_word_like_any_other() -> None:
    assert heard(TextDelta("ollama is a program"), secret="ollama") == [TextDelta("ollama is a program")]
