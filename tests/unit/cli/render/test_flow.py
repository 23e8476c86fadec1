"""Words are broken between each other, however they arrive."""

import pytest

from moot.cli.render import sanitize
from moot.cli.render.flow import Flow

TEXT = "The sea keeps coming back to the shore,\nas if it had forgotten 日本語 something there."


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_pieces_of_any_size_give_the_same_rows_and_no_broken_word(size: int) -> None:
    flow = Flow(20, used=5, indent="  ")
    printed = "".join(flow.feed(TEXT[at : at + size]) for at in range(0, len(TEXT), size)) + flow.end()

    assert printed == (
        "The sea keeps\n  coming back to the\n  shore,\n  as if it had\n  forgotten 日本語\n  something there."
    )
    assert printed.split() == TEXT.split()


def test_without_a_width_the_text_stays_as_it_is() -> None:
    flow = Flow(0)

    assert flow.feed("one  two ") + flow.feed("three") + flow.end() == "one  two three"


def test_a_word_longer_than_a_row_stands_alone() -> None:
    flow = Flow(10)

    assert flow.feed("go to averyveryverylongplace now") + flow.end() == "go to\naveryveryverylongplace\nnow"


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [("one two three", 20, "one two three"), ("one two three", 9, "one two …"), ("one two three", 8, "one two …")],
)
def test_a_line_is_cut_between_words(text: str, width: int, expected: str) -> None:
    assert sanitize.cut_at_word(text, width) == expected
