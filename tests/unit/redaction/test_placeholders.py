"""Personal data has placeholders for a model: the same every time, put back afterwards, and not to be had by asking."""

import re

from hypothesis import given
from hypothesis import strategies as st

from moot.redaction.masks import ModelMasks
from moot.redaction.placeholders import PlaceholderRestorer, Placeholders, restore
from moot.redaction.redactor import Redactor

TEXT = "Write to ada@example.org and bob@example.org, then ada@example.org again: +49 171 2345678."
SHAPE = re.compile(r"\[(EMAIL|PHONE)_[0-9]{8}\]")


def make(key: bytes = b"k" * 32) -> Placeholders:
    return Placeholders(lambda: key)


def test_placeholders_come_back_as_what_they_stand_for() -> None:
    known: dict[str, str] = {}
    shown = make().hide(TEXT, known)
    ada, bob, again, phone = (match[0] for match in SHAPE.finditer(shown))
    assert shown == f"Write to {ada} and {bob}, then {again} again: {phone}."
    assert ada == again != bob
    assert known == {ada: "ada@example.org", bob: "bob@example.org", phone: "+49 171 2345678"}
    assert restore(shown, known) == TEXT


def test_a_value_has_its_placeholder_wherever_and_whenever_it_turns_up() -> None:
    assert make().hide("ada@example.org", {}) == make().hide("x bob@example.org, ada@example.org", {}).split()[-1]


def test_another_daemon_has_other_placeholders() -> None:
    assert make().hide("ada@example.org", {}) != make(b"other").hide("ada@example.org", {})


def test_two_values_never_share_a_placeholder() -> None:
    first: dict[str, str] = {}
    taken = make().hide("ada@example.org", first)
    known = {taken: "bob@example.org"}
    shown = make().hide("ada@example.org", known)
    assert shown != taken
    assert known == {taken: "bob@example.org", shown: "ada@example.org"}


def test_nobody_gets_data_by_writing_its_placeholder() -> None:
    known: dict[str, str] = {}
    placeholder = make().hide("ada@example.org", known)
    shown = make().hide(f"please send {placeholder} to me", known)
    assert restore(shown, known) == f"please send {placeholder.replace('_', ' ')} to me"


def test_a_placeholder_that_stands_for_nothing_here_stays() -> None:
    assert restore("[EMAIL_00000001] [EMAIL_x] [", {"[EMAIL_00000002]": "a@b.org"}) == "[EMAIL_00000001] [EMAIL_x] ["


@given(
    st.lists(st.sampled_from(["[EMAIL_00000002]", "[EMAIL_", "[", "[[", "]", "A", "text ", "_1"]), max_size=8),
    st.data(),
)
def test_text_in_pieces_is_restored_like_the_whole(parts: list[str], data: st.DataObject) -> None:
    known = {"[EMAIL_00000002]": "ada@example.org"}
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    stream = PlaceholderRestorer(known)
    heard = [stream.feed(text[start:end]) for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join((*heard, stream.rest())) == restore(text, known)


def test_only_what_may_be_the_beginning_of_a_placeholder_waits() -> None:
    stream = PlaceholderRestorer({"[EMAIL_00000002]": "ada@example.org"})
    assert stream.feed("a list [1] and [EM") == "a list [1] and "
    assert stream.feed("PTY] then [EMAIL_000") == "[EMPTY] then "
    assert stream.feed("00002]!") == "ada@example.org!"
    assert stream.feed("[see below") == "[see below"


def test_what_was_restored_is_still_looked_through_for_secrets() -> None:
    redactor = Redactor()
    masks = ModelMasks(redactor, wanted=lambda: True, key=lambda: b"k")
    known: dict[str, str] = {}
    placeholder = masks.mask_personal("ada@example.org", known)
    redactor.register("mail", "to ada@example.org")
    assert masks.unmask(f"to {placeholder}!", known) == "[SECRET:mail]!"
    hearing = masks.unmask_stream(known)
    assert "".join([hearing.feed(each) for each in f"to {placeholder}!"]) + hearing.rest() == "[SECRET:mail]!"


def test_the_masks_are_of_another_edition_whenever_they_hide_something_else() -> None:
    redactor, wanted = Redactor(), [False]
    masks = ModelMasks(redactor, wanted=lambda: wanted[0], key=lambda: b"k")
    seen = [masks.edition]
    wanted[0] = True
    seen.append(masks.edition)
    redactor.register("one", "value-of-one")
    seen.append(masks.edition)
    wanted[0] = False
    seen.append(masks.edition)
    redactor.forget("one")
    seen.append(masks.edition)
    assert seen[0] == 0
    assert len(set(seen)) == len(seen)
