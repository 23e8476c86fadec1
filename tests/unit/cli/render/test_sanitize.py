"""No text from outside may move the cursor, ring the bell or read as something it is not."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from moot.cli.render import sanitize

_OBEYED = {"Cc", "Cs"}
_BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def test_escape_sequences_are_shown_and_not_obeyed() -> None:
    assert sanitize.clean("\x1b[31mred\x1b[0m \x1b]0;title\x07") == "␛[31mred␛[0m ␛]0;title␇"


def test_an_escape_sequence_cut_in_two_by_the_stream_is_harmless_too() -> None:
    assert sanitize.clean("\x1b") + sanitize.clean("[2J") == "␛[2J"


def test_eight_bit_controls_and_delete_are_shown() -> None:
    assert sanitize.clean("\x9b2J\x7f") == "⟨U+009B⟩2J␡"


def test_bidirectional_overrides_are_shown() -> None:
    assert sanitize.clean("ab\u202ecd\u2066") == "ab⟨U+202E⟩cd⟨U+2066⟩"


def test_a_carriage_return_cannot_overwrite_a_line_and_windows_line_ends_stay_lines() -> None:
    assert sanitize.clean("safe\rEVIL\r\nnext") == "safe␍EVIL\nnext"


def test_ordinary_text_of_any_script_is_left_alone() -> None:
    text = "Grüße, мир, 世界, שלום, 👩‍🔬\n\tindented"

    assert sanitize.clean(text) == text


def test_a_lone_surrogate_becomes_something_that_can_be_printed() -> None:
    assert sanitize.clean("a\ud800b").encode() == "a\ufffdb".encode()


@given(st.text(st.characters(exclude_categories=[])))
def test_whatever_comes_in_nothing_obeyed_comes_out(text: str) -> None:
    cleaned = sanitize.clean(text)

    assert not [each for each in cleaned if unicodedata.category(each) in _OBEYED and each not in "\n\t"]
    assert not _BIDI & set(cleaned)
    assert sanitize.clean(cleaned) == cleaned


@given(st.text(), st.integers(4, 40))
def test_a_line_is_one_line_and_fits(text: str, width: int) -> None:
    line = sanitize.line(text, width)

    assert "\n" not in line
    assert sanitize.columns(line) <= width


def test_wide_characters_are_cut_between_and_counted_as_two() -> None:
    assert sanitize.fit("世界世界", 5) == "世界…"
    assert sanitize.columns("世界") == 4
