"""A history with tool calls, told without them."""

from moot.domain.message import Message, Role, ToolCall, assistant, tool_result, user
from moot.domain.transcript_text import as_text

READ = ToolCall(id="1", name="read", arguments='{"path": "a"}')
WRITE = ToolCall(id="2", name="write", arguments="{}")


def test_calls_become_lines_and_results_become_the_users() -> None:
    history = [
        user("look"),
        assistant("On it.", tool_calls=(READ, WRITE)),
        tool_result("1", "text of a"),
        tool_result("2", "no space", is_error=True),
        assistant("Done."),
    ]

    assert as_text(history) == [
        user("look"),
        assistant('On it.\n[called read with {"path": "a"}]\n[called write with {}]'),
        user("[read answered]\ntext of a\n\n[write failed]\nno space"),
        assistant("Done."),
    ]


def test_attribution_is_kept_and_voices_are_not_mixed() -> None:
    history = [user("hi"), assistant("mine"), assistant("yours", agent="critic"), assistant("more", agent="critic")]

    assert as_text(history) == [user("hi"), assistant("mine"), assistant("yours\n\nmore", agent="critic")]


def test_nothing_empty_is_left_and_roles_still_alternate() -> None:
    history = [
        user("a"),
        assistant("  "),
        user("b"),
        assistant("", tool_calls=(READ,)),
        tool_result("1", ""),
        user("interrupted that"),
    ]

    told = as_text(history)

    assert [message.role for message in told] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert told[0] == user("a\n\nb")
    assert told[2] == user("[read answered]\nnothing\n\ninterrupted that")


def test_a_result_without_its_call_is_told_too() -> None:
    assert as_text([tool_result("9", "stray")]) == [Message(role=Role.USER, content="[a tool answered]\nstray")]
