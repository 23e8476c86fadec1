"""Approvals in the chat: only a line that is a decision, begun with the approval in sight, decides anything."""

from typing import Any

import pytest

from moot.cli.chat import lines
from moot.cli.chat.open_approvals import HeldDecision, LineReading, OpenApprovals
from moot.cli.chat.view import RunView
from moot.cli.markdown.styles import CODE, HANG
from moot.wire import moot_pb2 as pb

KEYS = "o once · r run · c conversation · a always · d deny, then Enter"


def approval(ask_id: str = "a", attempt: int = 1, *, rule: str = "allow exec: ls", **more: Any) -> pb.ApprovalEvent:
    return pb.ApprovalEvent(ask_id=ask_id, attempt=attempt, tool="exec", line="exec ls", rule=rule, **more)


def shown(approvals: OpenApprovals) -> str:
    return "\n".join("".join(text for _, text in row) for row in approvals.rows())


def test_the_chat_says_which_teammate_asks_and_what_for() -> None:
    by = pb.Asker(agent="operator", run_id="arun-deedda0912345678", spawn_reason="it has hands")
    asked = pb.ApprovalEvent(ask_id="a", attempt=1, tool="fs_write", line="write a", reason="it writes", by=by)
    who = "asked by operator (arun-deedda09): it has hands"

    assert who in shown(OpenApprovals(lambda: [asked]))
    assert any(who in "".join(text for _, text in row) for row in lines.render_approval(asked))


def test_a_yes_to_a_grant_is_said_to_hold_for_the_run() -> None:
    asked = approval("grant-arun-1-exec", rule="", kind="grant")

    assert "o yes, in this run · d deny" in shown(OpenApprovals(lambda: [asked]))
    assert "allowed in this run" in lines.render_decision(asked, "granted", "once")[0][1]


def enter(approvals: OpenApprovals, line: str) -> LineReading:
    """Type a line with the screen drawn, and press Enter."""
    approvals.rows()
    approvals.begin()
    return approvals.read(line)


@pytest.mark.parametrize(
    ("line", "decision"),
    [("o", "once"), ("once", "once"), (" O ", "once"), ("r", "run"), ("run", "run"), ("d", "deny"), ("Deny", "deny")],
)
def test_a_line_that_is_a_decision_and_nothing_else_decides(line: str, decision: str) -> None:
    approvals = OpenApprovals(lambda: [approval()])

    read = enter(approvals, line)

    message = pb.DecideAskMsg(ask_id="a", attempt=1, decision=decision)
    assert read == LineReading(taken=True, decision=message, shown=approval())


@pytest.mark.parametrize("changed", [{"attempt": 2}, {"preview": "another sandbox"}, {"line": "exec rm"}, {"rule": ""}])
def test_a_decision_holds_for_what_was_shown_and_nothing_else(changed: dict[str, Any]) -> None:
    held = HeldDecision(pb.DecideAskMsg(ask_id="a", attempt=1, decision="once"), approval())
    assert held.is_same_approval(approval())
    other = approval()
    for name, value in changed.items():
        setattr(other, name, value)
    assert not held.is_same_approval(other)


@pytest.mark.parametrize("line", ["oh no, stop", "run a command", "do it", "a b", "o\no", "oo", "yes", ""])
def test_any_other_line_is_a_message_and_decides_nothing(line: str) -> None:
    waiting = [approval()]
    approvals = OpenApprovals(lambda: waiting)

    assert enter(approvals, line) == LineReading(taken=False)
    assert approvals.current() == waiting[0]


def test_the_oldest_approval_is_decided_first_and_then_the_next() -> None:
    waiting = [approval("a"), approval("b", 3)]
    approvals = OpenApprovals(lambda: waiting)

    first, second = enter(approvals, "o").decision, enter(approvals, "d").decision

    assert first == pb.DecideAskMsg(ask_id="a", attempt=1, decision="once")
    assert second == pb.DecideAskMsg(ask_id="b", attempt=3, decision="deny")
    assert approvals.current() is None
    assert approvals.rows() == []


def test_a_line_that_was_begun_before_the_approval_was_drawn_is_a_message_and_says_so() -> None:
    waiting: list[pb.ApprovalEvent] = []
    approvals = OpenApprovals(lambda: waiting)
    approvals.rows()
    approvals.begin()
    waiting.append(approval())
    approvals.rows()

    read = approvals.read("o")

    assert not read.taken
    assert read.decision is None
    assert "started typing before" in read.note
    waiting[0] = approval("b")
    approvals.begin()
    assert approvals.read("o").decision is None


def test_a_line_that_was_begun_for_one_approval_does_not_decide_another() -> None:
    waiting = [approval("a")]
    approvals = OpenApprovals(lambda: waiting)
    approvals.rows()
    approvals.begin()
    waiting[:] = [approval("b")]
    approvals.rows()

    other = approvals.read("o")
    approvals.begin()
    waiting.clear()
    gone = approvals.read("o")

    for read in (other, gone):
        assert read.taken
        assert read.decision is None
        assert "nothing was decided" in read.note


def test_the_letters_are_words_again_once_nothing_waits() -> None:
    approvals = OpenApprovals(lambda: [])

    assert enter(approvals, "o") == LineReading(taken=False)


def test_always_shows_the_rule_and_is_said_twice_in_a_row() -> None:
    approvals = OpenApprovals(lambda: [approval()])

    assert KEYS in shown(approvals)
    assert "(always: allow exec: ls)" in shown(approvals)
    assert enter(approvals, "a") == LineReading(taken=True)
    assert "a and Enter again writes the rule: allow exec: ls" in shown(approvals)
    assert enter(approvals, "wait a moment") == LineReading(taken=False)
    assert KEYS in shown(approvals)
    assert enter(approvals, "a") == LineReading(taken=True)
    assert enter(approvals, "a").decision == pb.DecideAskMsg(ask_id="a", attempt=1, decision="always")


def test_a_pattern_is_allowed_by_a_key_and_for_good_only_when_it_is_said_twice() -> None:
    offered = [pb.PatternInfo(text="ls {path:/w}", rule="allow exec: ls ‹any path below /w›")]
    waiting = [approval(patterns=offered)]
    approvals = OpenApprovals(lambda: waiting)

    assert "p all calls like it in this conversation · p run · p always: allow exec: ls ‹any path" in shown(approvals)
    assert enter(approvals, "p always") == LineReading(taken=True)
    assert "the same and Enter again writes the rule: allow exec: ls ‹any path below /w›" in shown(approvals)
    # The confirmation of one rule does not write another.
    assert enter(approvals, "a") == LineReading(taken=True)
    expected = pb.DecideAskMsg(ask_id="a", attempt=1, decision="conversation", pattern="ls {path:/w}")
    assert enter(approvals, "p").decision == expected
    waiting[0] = approval("b")
    assert enter(approvals, "p") == LineReading(taken=False)
    assert enter(approvals, "d: use tabs").decision == pb.DecideAskMsg(
        ask_id="b", attempt=1, decision="deny", reason="use tabs"
    )


def test_a_call_that_no_rule_can_allow_is_allowed_once_or_denied() -> None:
    approvals = OpenApprovals(lambda: [approval(rule="")])

    read = enter(approvals, "r")

    assert "o once · d deny, then Enter" in shown(approvals)
    assert (read.taken, read.decision) == (True, None)
    assert "only be allowed once or denied" in read.note
    assert "only once: rules do not apply" in shown(approvals)


def test_a_pattern_that_applies_despite_untrusted_text_is_the_only_rule() -> None:
    offered = [pb.PatternInfo(text="{host:https://a.example}", rule="allow pages of https://a.example")]
    approvals = OpenApprovals(lambda: [approval(rule="", patterns=offered)])

    assert "only be allowed once, allowed with a pattern or denied" in enter(approvals, "a").note
    assert "(other rules do not apply" in shown(approvals)
    assert "only once" not in shown(approvals)


def test_behind_a_question_an_approval_is_named_and_no_line_decides_it() -> None:
    approvals = OpenApprovals(lambda: [approval()])
    (row,) = approvals.rows(behind=True)
    approvals.begin()

    assert "exec waits for your approval" in row[0][1]
    assert approvals.read("o").decision is None


def test_a_decision_the_daemon_did_not_take_is_open_again_and_a_new_attempt_is_asked_anew() -> None:
    waiting = [approval()]
    approvals = OpenApprovals(lambda: waiting)
    message = enter(approvals, "r").decision
    assert message is not None
    assert approvals.current() is None

    approvals.undo(message)
    assert approvals.current() == waiting[0]
    enter(approvals, "a")
    waiting[0] = approval(attempt=2)
    assert KEYS in shown(approvals)
    assert enter(approvals, "a") == LineReading(taken=True)


def test_a_view_shows_the_call_its_diff_and_what_became_of_it() -> None:
    view = RunView("ada", lambda: 1.0)
    view.take(pb.StreamEvent(start=pb.StreamStart(agent="ada", user_seq=1)))
    event = approval(preview="@@ -1 +1 @@\n-old\n+new \x1b[2J\n same", reason="it is dangerous")

    opened = view.take(pb.StreamEvent(approval_opened=event))
    assert view.status == "waiting for you"
    closed = view.take(pb.StreamEvent(approval_closed=pb.ApprovalClosedEvent(ask_id="a", state="granted")))

    assert opened == [
        [("class:notice", "  ⚠ exec waits for you: it is dangerous")],
        [(HANG, "    │ "), (CODE, "exec ls")],
        [(HANG, "    │ "), ("class:dim", "@@ -1 +1 @@")],
        [(HANG, "    │ "), ("class:removed", "-old")],
        [(HANG, "    │ "), ("class:added", "+new ⟨U+001B⟩[2J")],
        [(HANG, "    │ "), (CODE, " same")],
    ]
    assert closed == [[("class:dim", "  ✓ allowed: exec ls")]]
    assert view.approvals == {}


@pytest.mark.parametrize(
    ("decision", "said"),
    [("once", "✓ allowed once"), ("run", "✓ allowed in this run"), ("always", "✓ allowed from now on")],
)
def test_what_was_decided_on_this_screen_is_said_in_full(decision: str, said: str) -> None:
    view = RunView("ada", lambda: 1.0)
    view.take(pb.StreamEvent(approval_opened=approval()))
    view.decisions["a"] = pb.DecideAskMsg(decision=decision)

    closed = view.take(pb.StreamEvent(approval_closed=pb.ApprovalClosedEvent(ask_id="a", state="granted")))

    assert closed == [[("class:dim", f"  {said}: exec ls")]]


def test_a_long_preview_is_shown_whole() -> None:
    event = approval(preview="\n".join(f"+{number}" for number in range(1000)))

    shown_lines = lines.render_approval(event)

    assert shown_lines[-1][1][1] == "+999"


@pytest.mark.parametrize("cut", ["+x … 7 more characters: moot inbox show a", "f: the arguments contain all of it"])
def test_what_is_not_shown_whole_can_be_denied_and_not_allowed(cut: str) -> None:
    panel = OpenApprovals(lambda: [approval(preview=cut)])
    assert "too long to be shown and allowed here: moot inbox approve a" in shown(panel)
    for typed, decided in (("o", ""), ("a", ""), ("d", "deny")):
        panel.rows()
        panel.begin()
        reading = panel.read(typed)
        assert reading.taken
        assert (reading.decision.decision if reading.decision else "") == decided


def test_the_panel_says_why_it_asks() -> None:
    reason = "this run has read untrusted text (web), and this reaches the network"

    assert reason in shown(OpenApprovals(lambda: [approval(reason=reason)]))


def test_a_call_that_does_not_fit_the_panel_says_where_all_of_it_is() -> None:
    event = approval()
    event.line = "exec " + "x" * 200

    assert "cut; all of it: moot inbox show a" in shown(OpenApprovals(lambda: [event]))


@pytest.mark.parametrize(("line", "rows"), [("$ ls", 3), ("$ ls &", 4), ("$ ls ⏎ rm x", 4), ("$ ls -l", 4)])
def test_a_command_that_its_preview_begins_with_is_not_shown_twice(line: str, rows: int) -> None:
    event = approval(preview="ls\nin /home")
    event.line = line

    shown_lines = ["".join(text for _, text in row) for row in lines.render_approval(event)]

    assert len(shown_lines) == rows
    assert shown_lines[-2:] == ["    │ ls", "    │ in /home"]


def test_what_stands_right_above_is_not_said_again_until_something_comes_between() -> None:
    asked = approval(reason="it is dangerous")
    approvals = OpenApprovals(lambda: [asked])
    approvals.record_printed(asked, rows=4, at=10)

    near = "\n".join("".join(text for _, text in row) for row in approvals.rows(at=10))
    assert near.split("\n")[0] == f"allow exec?  {KEYS}"
    assert "dangerous" not in near
    assert "exec ls" not in near
    far = "\n".join("".join(text for _, text in row) for row in approvals.rows(at=11))
    assert "allow exec?  exec ls\n  it is dangerous\n" in far
    # Another attempt is another question, and a long one may have left the screen.
    asked.attempt = 2
    assert "it is dangerous" in shown(approvals)
    approvals.record_printed(asked, rows=100, at=12)
    assert "it is dangerous" in "".join(text for row in approvals.rows(at=12) for _, text in row)
