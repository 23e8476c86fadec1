"""Rows measured at two commits: what got slower is marked, noise is not."""

from bench.report import compare
from bench.row import Row


def make_row(measured: float, *, noise: float = 0.0, more_is_better: bool = False) -> Row:
    return Row(name="x", what="a turn", unit="ms", measured=measured, noise=noise, more_is_better=more_is_better)


def mark_of(now: Row, then: Row) -> str:
    cells = compare([now], [then], "v0").splitlines()[1].split()
    return cells[-1] if "slower" in cells[-1].lower() else ""


def test_a_row_that_takes_more_than_three_percent_longer_is_marked() -> None:
    assert mark_of(make_row(1.05), make_row(1.0)) == "SLOWER"
    assert mark_of(make_row(1.02), make_row(1.0)) == ""
    assert mark_of(make_row(0.5), make_row(1.0)) == ""


def test_a_rate_that_falls_is_marked_and_one_that_rises_is_not() -> None:
    assert mark_of(make_row(90, more_is_better=True), make_row(100, more_is_better=True)) == "SLOWER"
    assert mark_of(make_row(110, more_is_better=True), make_row(100, more_is_better=True)) == ""


def test_a_difference_within_the_noise_is_only_a_question() -> None:
    assert mark_of(make_row(1.05, noise=0.2), make_row(1.0)) == "slower?"
