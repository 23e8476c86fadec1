"""A run that goes in circles is noticed; one that looks at things that change is not."""

from moot.domain.message import ToolCall
from moot.engine.outcome import REPEATS, Repetition


def call(name: str, arguments: str = "{}") -> list[ToolCall]:
    return [ToolCall(id="c", name=name, arguments=arguments)]


def test_the_same_calls_in_a_row_are_a_circle_whatever_comes_of_them() -> None:
    repetition = Repetition()
    assert [repetition.add_step(call("look"), [str(n)]) for n in range(REPEATS)] == [False] * (REPEATS - 1) + [True]
    # It stays one until something else is done.
    assert repetition.add_step(call("look"), ["again"])
    assert not repetition.add_step(call("other"), [""])


def test_two_or_three_calls_in_turn_that_come_to_the_same_are_a_circle() -> None:
    for names in (("wait", "stop"), ("wait", "stop", "list")):
        repetition = Repetition()
        seen = [repetition.add_step(call(name), [f"{name} failed"]) for name in names * REPEATS]
        assert seen == [False] * (len(seen) - 1) + [True]


def test_calls_in_turn_whose_results_change_are_no_circle() -> None:
    repetition = Repetition()
    assert not any(repetition.add_step(call(name), [str(n)]) for n in range(20) for name in ("wait", "look"))


def test_calls_in_turn_with_other_arguments_are_no_circle() -> None:
    repetition = Repetition()
    assert not any(
        repetition.add_step(call(name, f'{{"n": {n}}}'), ["x"]) for n in range(20) for name in ("read", "write")
    )
