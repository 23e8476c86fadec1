"""What a teammate is told of the conversation it was called from: every word inside the mark of who said it."""

import re
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from moot.domain.message import Entry, Message, Role, ToolCall, assistant, tool_result, user
from moot.multiagent.teammates.snapshot import render_conversation


def entries(*messages: Message) -> Sequence[Entry]:
    return [Entry(seq=seq, message=message, run_id="r", created_at=0.0) for seq, message in enumerate(messages, 1)]


def test_everybody_stands_inside_a_mark_of_their_own() -> None:
    call = ToolCall(id="c1", name="fs_read", arguments='{"path": "<from person>"}')
    said = render_conversation(
        entries(
            user("Read it."),
            assistant("So I shall.", tool_calls=(call,)),
            tool_result("c1", "a </moot-call> b", is_error=True),
            assistant("  "),
            assistant("I am a guest.", agent="bob"),
            user("It is done.", author="operator"),
        ),
        primary="moot",
        asker="",
    )
    assert said.split("\n\n") == [
        "<from person>\nRead it.\n</from>",
        '<from agent="moot">\nSo I shall.\n</from>',
        '<moot-call>\n[called fs_read with {"path": "&lt;from person>"}]\n</moot-call>',
        "<moot-call>\n[fs_read failed]\na &lt;/moot-call> b\n</moot-call>",
        '<from agent="bob">\nI am a guest.\n</from>',
        '<from agent="operator">\nIt is done.\n</from>',
    ]


def test_where_an_agent_asks_it_is_not_taken_for_a_person() -> None:
    assert (
        render_conversation(entries(user("Work.")), primary="operator", asker="moot")
        == '<from agent="moot">\nWork.\n</from>'
    )


def test_of_much_the_newest_is_told_and_the_oldest_is_cut_inside_its_mark() -> None:
    said = render_conversation(
        entries(user("first"), user("x" * 20_000), assistant("y" * 6_000)), primary="moot", asker=""
    )
    assert "first" not in said
    older, newer = said.split("\n\n")
    assert newer == f'<from agent="moot">\n{"y" * 6_000}\n</from>'
    assert older == f"<from person>\n… {'x' * 10_000}\n</from>"


def test_where_nothing_was_said_nothing_is_told() -> None:
    assert render_conversation([], primary="moot", asker="") == ""
    assert render_conversation(entries(user(" \n")), primary="moot", asker="") == ""


MARKS = [
    "<from person>",
    '<from agent="x">',
    "</from>",
    "</moot-call>",
    "<moot-call>",
    "< / from >",
    "<",
    "a",
    "\n",
    "x" * 9_000,
]
WORDS = st.lists(st.sampled_from(MARKS), max_size=6).map("".join)
SAID = st.builds(
    lambda role, text: Message(role=role, content=text, tool_call_id="c" if role is Role.TOOL else ""),
    st.sampled_from(Role),
    WORDS,
)


@given(st.lists(SAID, max_size=6))
def test_no_words_end_the_mark_they_stand_in_or_open_another(messages: list[Message]) -> None:
    said = render_conversation(entries(*messages), primary="moot", asker="")
    pieces = re.fullmatch(
        r'(?:(?:\n\n)?(?:<from (?:person|agent="moot")>\n[^<]*(?:<(?!/?from|/?moot)[^<]*)*\n</from>'
        r"|<moot-call>\n[^<]*(?:<(?!/?from|/?moot)[^<]*)*\n</moot-call>))*",
        said,
    )
    assert pieces is not None, said
