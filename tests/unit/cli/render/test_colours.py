"""Lengths of time, as people say them."""

import pytest

from moot.cli.render import numbers


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (1204, "20 min"), (7_199, "119 min"), (7_200, "2 h")],
)
def test_a_span_is_told_in_what_a_person_counts_in(seconds: int, said: str) -> None:
    assert numbers.format_span(seconds) == said
