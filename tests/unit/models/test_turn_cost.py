"""A turn costs what is new in it, however long the history is."""

import time
from collections.abc import Callable

import pytest

from moot.domain.message import Message, assistant, user
from moot.domain.prompt import Encoding, Prompt, Transcript
from moot.models import anthropic_wire, openai_wire

Encode = Callable[[Prompt], bytes]


def openai(prompt: Prompt) -> bytes:
    return openai_wire.encode_request(b"{", prompt, form="openai", rest=b"")


def anthropic(prompt: Prompt) -> bytes:
    return anthropic_wire.encode_request(b"{", prompt, form="anthropic", tools=b"")


def history(count: int) -> list[Message]:
    return [user("a question") if n % 2 == 0 else assistant("an answer") for n in range(count)]


def seconds_of_a_turn(encode: Encode, count: int) -> float:
    transcript = Transcript(history(count))
    prompt = Prompt(system=("Be kind.",), transcript=transcript)
    encode(prompt)
    times = []
    for _ in range(20):
        transcript.extend([assistant("an answer"), user("a question")])
        start = time.perf_counter()
        encode(prompt)
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("encode", [openai, anthropic])
def test_a_turn_in_a_long_history_costs_a_copy_and_not_an_encoding(encode: Encode) -> None:
    start = time.perf_counter()
    encode(Prompt(system=(), transcript=Transcript(history(10_000))))
    whole = time.perf_counter() - start

    assert seconds_of_a_turn(encode, 10_000) < whole / 10


@pytest.mark.parametrize("wire", [openai_wire.advance, anthropic_wire.FORMS["anthropic"]])
def test_only_new_messages_are_looked_at(wire: Callable[[Encoding, list[Message]], None]) -> None:
    seen: list[int] = []

    class Watched(list[Message]):
        def __getitem__(self, place):  # type: ignore[no-untyped-def]
            span = range(*place.indices(len(self))) if isinstance(place, slice) else [place]
            seen.extend(span)
            return list.__getitem__(self, place)

    messages = Watched(history(1000))
    encoding = Encoding()
    wire(encoding, messages)
    seen.clear()
    messages.extend([assistant("new"), user("newer")])
    wire(encoding, messages)

    assert encoding.count == 1002
    assert min(seen) >= 999
