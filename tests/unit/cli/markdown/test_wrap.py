"""Rows end between words, and nothing of a line is lost."""

from hypothesis import given
from hypothesis import strategies as st

from moot.cli.chat.lines import render_speech
from moot.cli.markdown.styles import CODE, HANG, PROSE, Line
from moot.cli.markdown.wrap import find_break, wrap_line
from moot.cli.render import sanitize

WORDS = st.lists(st.text("abcdef世界", min_size=1, max_size=12), max_size=30).map(" ".join)


def text(shown: list[Line]) -> list[str]:
    return ["".join(piece for _, piece in line) for line in shown]


def test_a_line_is_broken_between_words_and_the_name_counts() -> None:
    line: Line = [("bold", "ada › "), (PROSE, "one two three four")]

    assert text(wrap_line(line, 14)) == ["ada › one two", "    three four"]


def test_a_word_longer_than_the_row_stands_alone() -> None:
    assert text(wrap_line([(PROSE, "see https://example.org/a/long/path now")], 12)) == [
        "see",
        "https://example.org/a/long/path",
        "now",
    ]


def test_code_is_never_broken() -> None:
    fenced = "Look:\n```\n" + "x = 1 " * 30 + "\n```\n" + "word " * 30

    shown = [row for line in render_speech("ada", fenced, "ada") for row in wrap_line(line, 40)]

    assert text(shown)[:4] == ["ada › Look:", "    ```", "    " + "x = 1 " * 30, "    ```"]
    assert all(sanitize.columns(row) <= 40 for row in text(shown)[4:])
    assert shown[2][-1][0] == CODE


def test_a_growing_line_waits_until_it_is_too_long() -> None:
    assert find_break("one two", 7) == 0
    assert find_break("one two ", 7) == 8
    assert find_break("one two t", 7) == 8


@given(WORDS, st.integers(8, 60))
def test_no_word_is_lost_or_broken(prose: str, width: int) -> None:
    shown = text(wrap_line([(PROSE, prose)], width))

    assert " ".join(row for row in shown if row) == prose
    assert all(sanitize.columns(row) <= width or " " not in row for row in shown)


def test_what_hangs_goes_on_below_its_beginning_and_a_real_new_line_has_the_mark() -> None:
    broken = wrap_line([("class:hang", "    │ "), ("class:code", "make one two three")], 16)
    assert ["".join(text for _, text in row) for row in broken] == ["    │ make one", "      two three"]
    said = wrap_line([("class:dim", "  (one two three four)")], 14)
    assert ["".join(text for _, text in row) for row in said] == ["  (one two", "    three", "    four)"]
    assert wrap_line([("class:code", "x = 1 " * 20)], 14) == [[("class:code", "x = 1 " * 20)]]


def test_what_follows_a_hanging_prefix_is_wrapped_whatever_its_styles() -> None:
    line: Line = [(HANG, "  1 "), ("", "allow make in the house"), ("class:dim", "  for this run")]
    rows = wrap_line(line, 20)
    assert ["".join(text for _, text in row) for row in rows] == [
        "  1 allow make in",
        "    the house  for",
        "    this run",
    ]
    assert rows[1] == [("", "    "), ("", "the house"), ("class:dim", "  for")]
