"""What a person types becomes the answer the run gets."""

import json

import pytest

from moot.cli.chat.outgoing import format_typed, parse_outgoing
from moot.cli.render import questions
from moot.wire import moot_pb2 as pb

COLOUR = pb.AskQuestion(
    question="Which colour?", header="Colour", options=[pb.AskOption(label="Red"), pb.AskOption(label="Blue")]
)
SEVERAL = pb.AskQuestion(question="Which ones?", options=COLOUR.options, multi_select=True)
FREE = pb.AskQuestion(question="Why?")


@pytest.mark.parametrize(
    ("question", "typed", "expected"),
    [
        (COLOUR, "2", "Blue"),
        (COLOUR, " 1 ", "Red"),
        (COLOUR, "3", "3"),
        (COLOUR, "0", "0"),
        (COLOUR, "1,2", "1,2"),
        (COLOUR, "green, please", "green, please"),
        (COLOUR, "1 of them", "1 of them"),
        (SEVERAL, "1,2", "Red, Blue"),
        (SEVERAL, "2 2", "Blue"),
        (SEVERAL, "", ""),
        (FREE, "7", "7"),
        (COLOUR, "²", "²"),
    ],
)
def test_numbers_are_options_and_everything_else_is_the_persons_own_words(
    question: pb.AskQuestion, typed: str, expected: str
) -> None:
    assert questions.parse_answer(question, typed) == expected


def test_one_question_is_answered_in_plain_words_and_several_by_name() -> None:
    assert questions.build_reply([COLOUR], ["Blue"]) == "Blue"
    assert json.loads(questions.build_reply([COLOUR, FREE], ["Blue", "warm"])) == {
        "Which colour?": "Blue",
        "Why?": "warm",
    }


def test_a_question_is_shown_with_numbers_and_without_raw_control_characters() -> None:
    nasty = pb.AskQuestion(question="\x1b[2JWhich?", options=[pb.AskOption(label="a\nb", description="c")])

    assert questions.render_prompt(nasty) == ["⟨U+001B⟩[2JWhich?", "  1. a ⏎ b — c", "  A number, or free text."]


@pytest.mark.parametrize(
    ("typed", "guest", "content"),
    [
        ("hello", "", "hello"),
        ("@bob what do you think?", "bob", "what do you think?"),
        ("@bob\nover\nlines", "bob", "over\nlines"),
        ("@ada you yourself", "", "you yourself"),
        ("@bob", "", "@bob"),
        ("mail me@home now", "", "mail me@home now"),
    ],
)
def test_a_mention_at_the_start_names_the_guest(typed: str, guest: str, content: str) -> None:
    outgoing = parse_outgoing(typed, primary="ada")

    assert (outgoing.guest, outgoing.content, outgoing.typed) == (guest, content, typed)


def test_a_standing_guest_answers_unless_somebody_is_named() -> None:
    assert parse_outgoing("hello", primary="ada", guest="bob").guest == "bob"
    assert parse_outgoing("@ada hello", primary="ada", guest="bob").guest == ""


@pytest.mark.parametrize("content", ["hello", "@bob hello", "@ada hello", "hello @bob", "@bob"])
@pytest.mark.parametrize("speaker", ["ada", "bob", "cyd"])
@pytest.mark.parametrize("guest", ["", "bob"])
def test_what_is_written_as_it_is_typed_is_put_to_the_same_speaker(content: str, speaker: str, guest: str) -> None:
    typed = format_typed(content, speaker=speaker, primary="ada", guest=guest)
    outgoing = parse_outgoing(typed, primary="ada", guest=guest)
    assert (outgoing.content, outgoing.guest or "ada") == (content, speaker)
    assert parse_outgoing("@cyd hello", primary="ada", guest="bob").guest == "cyd"
