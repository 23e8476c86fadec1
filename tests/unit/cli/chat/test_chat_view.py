"""What a chat shows of a run's events."""

from moot.cli.chat import lines
from moot.cli.chat.view import RunView
from moot.cli.markdown.styles import Line
from moot.cli.markdown.text_format import TextFormat
from moot.wire import moot_pb2 as pb
from tests.frame_server import event, said


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def text(shown: list[Line]) -> list[str]:
    return ["".join(piece for _, piece in line) for line in shown]


def play(view: RunView, *events: pb.StreamEvent) -> list[str]:
    return text([line for each in events for line in view.take(each)])


def view(echo: str = "") -> RunView:
    return RunView("ada", Clock(), echo=echo)


def test_an_answer_is_named_once_and_printed_line_by_line() -> None:
    assert play(view("hi"), *said("one\ntwo")) == ["", "you › hi", "ada › one", "    two"]


def test_a_guest_is_marked_and_has_another_colour_than_the_primary() -> None:
    shown = play(view(), *said("hello", agent="bob"))

    assert shown == ["bob (guest · text only) › hello"]
    assert all(lines.name_style(name, "ada") != lines.name_style("ada", "ada") for name in map(str, range(100)))


def test_the_growing_line_is_live_until_it_ends() -> None:
    running = view()
    play(running, *said("x")[:2], event(chunk=pb.StreamChunk(content="Hel")), event(chunk=pb.StreamChunk(content="lo")))

    assert text(running.tail) == ["ada › Hello"]
    assert play(running, event(text_end=pb.TextEndEvent(agent="ada"))) == ["ada › Hello"]
    assert running.tail == []


def test_a_paragraph_without_an_end_does_not_grow_over_the_screen() -> None:
    running = view()
    shown = play(running, said("x")[0], *(event(chunk=pb.StreamChunk(content="word " * 50)) for _ in range(20)))

    assert len(shown) >= 3
    assert len(text(running.tail)[0]) < 1300
    assert "".join(shown).count("word") + text(running.tail)[0].count("word") == 1000


def test_own_words_wait_until_their_turn_comes() -> None:
    waiting = view("later")

    assert play(waiting, event(queued=pb.QueuedEvent(position=2))) == []
    assert (waiting.position, waiting.echo, waiting.acknowledged) == (2, "later", True)
    assert play(waiting, said("x")[0]) == ["", "you › later"]
    assert waiting.position == 0


def test_thinking_is_one_dim_line() -> None:
    clock = Clock()
    running = RunView("ada", clock)
    play(running, event(thinking_start=pb.ThinkingStartEvent(agent="ada")))
    play(running, event(thinking=pb.StreamThinking(content="First this,\nthen " + "that " * 50)))
    clock.now += 3
    shown = running.take(event(thinking_end=pb.ThinkingEndEvent(agent="ada")))

    assert text(shown)[0].startswith("∴ thought for 3s · First this, then that")
    assert len(shown) == 1
    assert shown[0][0][0] == "class:dim"


def test_a_tool_call_is_one_line_with_its_result() -> None:
    call = pb.ToolCallInfo(name="look", arguments='{"at": "it"}', call_id="1")
    good = pb.ToolResultEvent(call_id="1", output="seen\nwell", duration_ms=12, name="look")
    bad = pb.ToolResultEvent(call_id="2", output="no", duration_ms=2500, is_error=True, name="touch")
    shown = play(
        view(), event(tool_start=pb.ToolStartEvent(calls=[call])), event(tool_result=good), event(tool_result=bad)
    )

    assert shown == ['  ⚒ look {"at": "it"} → seen well · 12 ms', "  ⚒ touch ✗ no · 2.5 s"]


def test_a_tool_call_and_its_result_take_no_more_columns_than_there_are() -> None:
    call = pb.ToolCallInfo(name="look", call_id="1", line="look at all of it, from the beginning to the end, twice")
    result = pb.ToolResultEvent(call_id="1", output="seen, and it was a lot to see " * 3, duration_ms=12, name="look")
    narrow = RunView("ada", Clock(), text_format=TextFormat(lambda: 80))

    (shown,) = play(narrow, event(tool_start=pb.ToolStartEvent(calls=[call])), event(tool_result=result))

    assert 70 < len(shown) <= 80
    assert shown.endswith("… · 12 ms")


def test_a_command_that_failed_says_its_exit_code_which_is_never_cut() -> None:
    call = pb.ToolCallInfo(name="exec", call_id="1", line="$ " + "echo out; " * 20 + "exit 137")
    output = "Command failed with exit code 137\nOutput:\n" + "words " * 50
    result = pb.ToolResultEvent(call_id="1", output=output, duration_ms=120, name="exec")
    narrow = RunView("ada", Clock(), text_format=TextFormat(lambda: 40))
    narrow.take(event(tool_start=pb.ToolStartEvent(calls=[call])))
    (shown,) = narrow.take(event(tool_result=result))

    assert ("class:error", "✗ exit 137") in shown
    assert len("".join(text([shown]))) <= 40
    past = pb.HistoryMessage(role="tool", content="Command failed with exit code 3\nOutput:\nout\n")
    assert lines.render_history([past], "ada") == [[("class:error", "  ✗ exit 3 "), ("class:dim", "out")]]
    # Only what a failed command begins with, and nothing that a command could print after it, is taken for it.
    fine = pb.HistoryMessage(role="tool", content="all of it:\nCommand failed with exit code 3\nOutput:\n")
    assert text(lines.render_history([fine], "ada"))[0].startswith("  → all of it:")


def test_what_runs_is_said_in_the_words_of_its_tools_until_it_comes_back() -> None:
    first = pb.ToolCallInfo(name="exec", call_id="1", line="$ sleep 1")
    second = pb.ToolCallInfo(name="exec", call_id="2", line="$ make")
    running = view()
    running.take(event(tool_start=pb.ToolStartEvent(calls=[first, second])))
    assert running.status == "$ sleep 1 · $ make"
    running.take(event(tool_result=pb.ToolResultEvent(call_id="1", output="", name="exec")))
    assert running.status == "$ make"
    running.take(event(approval_opened=pb.ApprovalEvent(ask_id="a", tool="exec", line="$ make")))
    assert running.status == "waiting for you"
    running.take(event(approval_closed=pb.ApprovalClosedEvent(ask_id="a", state="granted")))
    assert running.status == "$ make"


def test_a_tool_call_is_told_in_the_words_of_its_tool() -> None:
    call = pb.ToolCallInfo(name="look", arguments='{"at": "it"}', call_id="1", line="look at\x1b it")
    result = pb.ToolResultEvent(call_id="1", output="seen", duration_ms=12, name="look")
    past = pb.HistoryMessage(role="assistant", tool_calls=[call])

    shown = play(view(), event(tool_start=pb.ToolStartEvent(calls=[call])), event(tool_result=result))

    assert shown == ["  ⚒ look at⟨U+001B⟩ it → seen · 12 ms"]
    assert text(lines.render_history([past], "ada")) == ["  ⚒ look at⟨U+001B⟩ it"]


def test_words_that_are_taken_back_are_said_to_be_only_if_they_were_seen() -> None:
    seen, unseen = view(), view()
    play(seen, event(chunk=pb.StreamChunk(content="gone\nand")))
    play(unseen, event(chunk=pb.StreamChunk(content="gone")))

    assert play(seen, event(discarded=pb.DiscardedEvent())) == ["  (the text above was discarded)"]
    assert play(unseen, event(discarded=pb.DiscardedEvent())) == []
    assert seen.tail == unseen.tail == []


def test_retries_compactions_and_bad_ends_are_told() -> None:
    shown = play(
        view(),
        event(retrying=pb.RetryingEvent(attempt=1, delay_ms=1500, reason="overloaded")),
        event(compacted=pb.CompactedEvent(number=2, title="The plan")),
        event(end=pb.StreamEnd(agent="ada", outcome="model_error", error="it failed")),
    )

    assert shown == [
        "· the model failed (overloaded); again in 1.5s",
        "── compacted into archive 2: The plan ──",
        "  (model error: it failed)",
    ]


def test_nothing_a_model_or_a_tool_says_reaches_the_screen_raw() -> None:
    nasty = "\x1b[2J\x07\u202e\r"
    running = view(nasty)
    call = pb.ToolCallInfo(name=nasty, arguments=nasty, call_id="1")
    shown = play(
        running,
        event(start=pb.StreamStart(agent=nasty)),
        event(thinking=pb.StreamThinking(content=nasty)),
        event(thinking_end=pb.ThinkingEndEvent()),
        event(chunk=pb.StreamChunk(content=nasty + "\n" + nasty)),
        event(tool_start=pb.ToolStartEvent(calls=[call])),
        event(tool_result=pb.ToolResultEvent(call_id="1", output=nasty)),
        event(retrying=pb.RetryingEvent(reason=nasty)),
        event(compacted=pb.CompactedEvent(title=nasty)),
        event(chunk=pb.StreamChunk(content=nasty)),
    )
    shown += text([*running.tail, [("", running.status)]])
    shown += play(running, event(end=pb.StreamEnd(outcome=nasty, error=nasty)))

    assert not set("".join(shown)) & set("\x1b\x07\u202e\r")


def test_history_is_attributed_and_says_how_a_turn_ended() -> None:
    messages = [
        pb.HistoryMessage(role="user", content="hi", outcome="cancelled"),
        pb.HistoryMessage(role="assistant", content="", tool_calls=[pb.ToolCallInfo(name="look", arguments="{}")]),
        pb.HistoryMessage(role="tool", content="seen"),
        pb.HistoryMessage(role="assistant", content="hello"),
        pb.HistoryMessage(role="assistant", content="me too", agent="bob"),
    ]

    assert text(lines.render_history(messages, "ada")) == [
        "",
        "you › hi",
        "  (cancelled)",
        "  ⚒ look {}",
        "  → seen",
        "ada › hello",
        "bob (guest · text only) › me too",
    ]


def test_a_line_that_the_person_wrote_is_broken_by_the_window_alone() -> None:
    long = "a line of many words " * 20

    assert play(view(long), *said("yes"))[1] == f"you › {long.rstrip()}"
