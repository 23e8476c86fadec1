"""Tool calls put together from pieces in every shape servers send them."""

import tracemalloc
from random import Random

import pytest

from moot.models.calls import MAX_CALLS, CallAssembler, parse_object

Piece = tuple[int | None, str, str, str]


def whole(*pieces: Piece, truncated: bool = False) -> list[tuple[str, str, str]]:
    calls = CallAssembler(Random(3))
    for piece in pieces:
        calls.add(*piece)
    ready = list(calls.ready(truncated=truncated))
    return [(each.call.name, each.call.arguments, each.flaw) for each in ready]


@pytest.mark.parametrize(
    "pieces",
    [
        [(0, "call_00001", "a", '{"x'), (0, "", "", '":1}'), (1, "call_00002", "b", "{}")],
        [(0, "call_00001", "a", '{"x'), (0, "call_00001", "a", '":1}'), (1, "call_00002", "b", "")],
        [(None, "call_00001", "a", '{"x'), (None, "", "", '":1}'), (None, "call_00002", "b", "{}")],
        [(None, "", "a", '{"x":1}'), (None, "", "b", "{}")],
        [(0, "call_00001", "a", '{"x":1}'), (0, "call_00002", "b", "{}")],
        [(0, "", "a", '{"x":1}'), (7, "", "b", " ")],
    ],
)
def test_pieces_become_the_same_two_calls(pieces: list[Piece]) -> None:
    assert whole(*pieces) == [("a", '{"x":1}', ""), ("b", "{}", "")]


def test_pieces_of_two_calls_may_alternate() -> None:
    pieces: list[Piece] = [(0, "call_00001", "a", "{"), (1, "call_00002", "b", "{"), (0, "", "", "}"), (1, "", "", "}")]

    assert whole(*pieces) == [("a", "{}", ""), ("b", "{}", "")]


def test_only_the_last_call_of_a_truncated_answer_is_called_cut() -> None:
    (_, _, first), (_, _, last) = whole((0, "", "a", '{"x"'), (1, "", "b", '{"x"'), truncated=True)

    assert "cut off" not in first
    assert "cut off" in last


def test_a_call_without_a_name_is_a_flaw() -> None:
    assert whole((0, "call_00001", "", "{}")) == [("unnamed", "{}", "the call names no tool")]


def test_half_a_surrogate_pair_in_an_escape_is_replaced() -> None:
    ((_, arguments, flaw),) = whole((0, "", "a", '{"x": "\\ud83d\\ude00 \\ud800!"}'))

    assert flaw == ""
    assert parse_object(arguments) == {"x": "😀 \ufffd!"}


def test_a_nul_in_an_escape_is_replaced() -> None:
    assert whole((0, "", "a", '{"x": ["a\\u0000b"]}')) == [("a", '{"x": ["a\ufffdb"]}', "")]


def test_calls_beyond_all_measure_are_dropped() -> None:
    assert len(whole(*((n, "", "a", "{}") for n in range(MAX_CALLS + 50)))) == MAX_CALLS


def test_a_call_that_is_dropped_adds_nothing_to_the_one_that_had_its_index() -> None:
    last = MAX_CALLS + 50
    opened = [(n, f"call_{n:05}", "a", "{}") for n in range(last)]
    calls = whole(*opened, (0, "call_99999", "b", '{"x"'), (0, "", "", ": 1}"))

    assert calls[0] == ("a", "{}", "")


def test_calls_beyond_all_measure_take_no_memory() -> None:
    assembler = CallAssembler(Random(0))
    tracemalloc.start()
    try:
        for number in range(100_000):
            assembler.add(number, "", "a", "{}")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 1_000_000
