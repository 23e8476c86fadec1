"""What is left of a transcript that does not fit a context window."""

from hypothesis import given
from hypothesis import strategies as st

from moot.domain.message import Message, Role, ToolCall, assistant, tool_result, user
from moot.domain.tokens import estimate_message
from moot.engine.shortening import LEFT_OUT, shorten


def size(messages: list[Message]) -> int:
    return sum(map(estimate_message, messages))


def step(number: int, length: int) -> list[Message]:
    call = ToolCall(id=f"c{number}", name="look", arguments="{}")
    return [assistant("", tool_calls=(call,)), tool_result(f"c{number}", "r" * length)]


@st.composite
def transcripts(draw: st.DrawFn) -> list[Message]:
    lengths = st.integers(1, 4_000)
    messages: list[Message] = []
    for turn in range(draw(st.integers(1, 6))):
        messages.append(user("q" * draw(lengths)))
        for number in range(draw(st.integers(0, 3))):
            messages += step(turn * 10 + number, draw(lengths))
        if turn < 5:
            messages.append(assistant("a" * draw(lengths)))
    return messages


@given(transcripts(), st.integers(400, 8_000))
def test_it_fits_begins_with_a_question_and_keeps_every_result_with_its_call(said: list[Message], room: int) -> None:
    shown = shorten(said, room, lead=0)
    assert size(shown) <= room * 1.3
    assert shown[0].role is Role.USER
    called = [call.id for message in shown for call in message.tool_calls]
    assert called == [message.tool_call_id for message in shown if message.role is Role.TOOL]


def test_the_latest_turn_is_whole_and_earlier_ones_come_while_there_is_room() -> None:
    said = [message for n in range(10) for message in (user(f"q{n} " + "x" * 400), assistant(f"a{n} " + "y" * 400))]
    shown = shorten([*said, user("now")], 500, lead=0)
    assert shown[0].content == LEFT_OUT
    assert [message.content[:2] for message in shown[1:]] == ["q8", "a8", "q9", "a9", "no"]


def test_the_summary_stays_in_front() -> None:
    said = [user("<archived-summary>\nBread.\n</archived-summary>"), user("old " * 500), assistant("a"), user("now")]
    shown = shorten(said, 200, lead=1)
    assert [message.content for message in shown] == [said[0].content, LEFT_OUT, "now"]


def test_a_summary_that_is_too_long_takes_a_quarter_of_the_room() -> None:
    said = [user("<archived-summary>\n" + "Bread. " * 2_000 + "\n</archived-summary>"), user("now " * 400)]
    summary, latest = shorten(said, 1_000, lead=1)
    assert estimate_message(summary) <= 300
    assert summary.content.endswith("</archived-summary>")
    assert latest == said[1]


def test_a_long_message_keeps_its_beginning_and_its_end_and_says_how_much_is_missing() -> None:
    (shown,) = shorten([user("first " + "x" * 10_000 + " last")], 300, lead=0)
    assert shown.content.startswith("first ")
    assert shown.content.endswith(" last")
    assert "characters are left out here" in shown.content


def test_a_secret_is_taken_out_before_a_message_is_cut() -> None:
    message = user("x" * 700 + "hunter2" * 40 + "x" * 9_000)
    (shown,) = shorten([message], 300, lead=0, redact=lambda text: text.replace("hunter2", "*"))
    assert "hunter" not in shown.content


def test_long_arguments_are_left_out_and_stay_a_json_object() -> None:
    call = ToolCall(id="c", name="fs_write", arguments='{"content":"' + "x" * 9_000 + '"}')
    shown = shorten([user("write"), assistant("", tool_calls=(call,)), tool_result("c", "done")], 300, lead=0)
    assert shown[1].tool_calls[0].arguments.startswith('{"moot":')
    assert size(shown) <= 300


def test_letters_of_many_bytes_count_for_more() -> None:
    (latin,) = shorten([user("x" * 10_000)], 300, lead=0)
    (chinese,) = shorten([user("面" * 10_000)], 300, lead=0)
    assert chinese.content.count("面") < latin.content.count("x")
