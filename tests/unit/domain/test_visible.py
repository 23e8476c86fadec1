"""Exact display: what cannot be seen becomes a code, no two texts look alike, and what was shown does not change."""

import re
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from moot.domain.visible import guard, guard_block, show, show_block, show_start

FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u2800\u3164\uffa0\ufe00\ufe0f\U000e0100\U000e01ef\U0001d159"
CODE = re.compile("⟨U\\+([0-9A-F]{4,6})⟩")
texts = st.text(
    st.one_of(
        st.sampled_from(" \t\n\r⏎␣⇥⟨⟩ab-+U0"),
        st.sampled_from(FILLERS + "\u202e\u200b\u00a0а\u0301\u20dd／"),
        st.characters(),
    ),
    max_size=30,
)


def hidden() -> list[str]:
    """Every character that shows nothing, or something else than it is."""
    kinds = ("Zs", "Zl", "Zp", "Cf", "Cc")
    every = [chr(point) for point in range(sys.maxunicode + 1)]
    found = [each for each in every if unicodedata.category(each) in kinds and each not in " \n\t"]
    # Of the many that are private, unassigned or half of a pair: all in the first planes would take minutes.
    many = [each for each in every if unicodedata.category(each) in ("Co", "Cn", "Cs")]
    return found + many[:2000] + many[::199] + list(FILLERS)


def read(shown: str) -> str:
    """The text that was shown on one line."""
    text = re.sub(" ?⏎ ?", "\n", shown).replace("␣", " ").replace("⇥", "\t")
    return CODE.sub(lambda match: chr(int(match[1], 16)), text)


def test_every_character_that_cannot_be_seen_is_named() -> None:
    every = hidden()
    assert len(every) > 5_000
    for write in (show, show_block, guard, guard_block):
        shown = write("".join(f"a{each}b" for each in every))
        assert shown.count("⟨U+") == len(every)
        assert all(each.isprintable() for each in shown.replace("\n", ""))


def test_spaces_that_could_be_overlooked_are_marked() -> None:
    assert show("rm  -rf   / ") == "rm␣␣-rf␣␣␣/␣"
    assert show(" a\tb") == "␣a⇥b"
    assert show("ls # look\ntouch SPOOF\n") == "ls # look ⏎ touch SPOOF ⏎"
    assert show("a \n b\r\n") == "a␣ ⏎ ␣b⟨U+000D⟩ ⏎"
    # Indentation of a row is seen as such, unless it pushes the row out of sight.
    assert show_block("+    return  x\n-\ty ") == "+    return␣␣x\n-⇥y␣"
    assert show_block(" " * 50 + "x") == "␣" * 50 + "x"


def test_what_looks_like_another_character_is_named() -> None:
    assert show("/etc/pаsswd") == "/etc/p⟨U+0430⟩sswd"
    assert show("ls\u037e rm") == "ls⟨U+037E⟩ rm"
    assert show("cafe\u0301 café") == "cafe⟨U+0301⟩ café"
    assert show("a／b") == "a⟨U+FF0F⟩b"
    # Other languages are read as they are.
    for plain in ("файл отчёт.txt", "你好，世界", "हिन्दी", "Ärger mit ß", "10 m²"):
        assert show(plain) == plain


def test_the_same_letter_written_in_another_way_is_named() -> None:
    # Letters that were joined, and letters of several characters that are drawn as one.
    assert show("con\ufb01g \u01f3 \u2167 a\u203c") == "con⟨U+FB01⟩g ⟨U+01F3⟩ ⟨U+2167⟩ a⟨U+203C⟩"
    assert show("한국 Ångström café …") == "한국 Ångström café …"
    composed, spelled = "\ud55c", "\u1112\u1161\u11ab"
    assert (show(composed), show(spelled)) == (composed, "\u1112⟨U+1161⟩\u11ab")
    # Symbols and ideographs with two code points, and marks in another order or before the one that joins.
    pairs = [("\u212b", "\u00c5"), ("\u2126", "\u03a9"), ("\uf900", "\u8c48"), ("\u03ac\u0316", "\u03b1\u0316\u0301")]
    for each, other in [*pairs, ("\u0436\u0301\u0316", "\u0436\u0316\u0301")]:
        assert unicodedata.normalize("NFC", each) == unicodedata.normalize("NFC", other)
        assert "⟨U+" in show(each) + show(other)


@given(
    st.text(st.sampled_from("a\u03b1\u03ac\u0436\u0301\u0316\u1112\u1161\u11ab\ud558\u212b\u00c5\uf900"), max_size=8)
)
def test_no_two_ways_to_write_a_text_are_shown_as_they_are(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    assert text == composed or show(text) != text
    assert guard(show(text)) == show(text)
    assert read(show(text)) == text


def test_the_notation_cannot_be_imitated() -> None:
    assert show("a ⏎ b ⟨U+200B⟩ ␣") == "a ⟨U+23CE⟩ b ⟨U+27E8⟩U+200B⟨U+27E9⟩ ⟨U+2423⟩"
    assert show(r"a\u200b") == r"a\u200b"


@given(texts)
def test_what_is_shown_can_be_read_back_and_does_not_change_when_it_is_shown_again(text: str) -> None:
    shown = show(text)
    assert read(shown) == text
    assert "\n" not in shown
    assert guard(shown) == shown
    assert guard_block(show_block(text)) == show_block(text)
    assert CODE.sub(lambda match: chr(int(match[1], 16)), show_block(text).replace("␣", " ").replace("⇥", "\t")) == text


@given(texts, texts)
def test_two_texts_never_look_alike(one: str, other: str) -> None:
    assert (show(one) == show(other)) == (one == other)
    assert (show_block(one) == show_block(other)) == (one == other)


def test_a_beginning_says_how_much_is_missing() -> None:
    assert show_start("x" * 10, 10) == "x" * 10
    assert show_start("x" * 12, 10) == "x" * 10 + " … 2 more characters"
