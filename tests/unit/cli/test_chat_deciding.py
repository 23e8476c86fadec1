"""Approvals in the chat: keys that come too soon or once too few decide nothing."""

from moot.cli.chat import lines
from moot.cli.chat.deciding import GRACE_SECONDS, Deciding
from moot.cli.chat.view import RunView
from moot.wire import moot_pb2 as pb


class Times:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def approval(ask_id: str = "a", attempt: int = 1, **more: str) -> pb.ApprovalEvent:
    return pb.ApprovalEvent(ask_id=ask_id, attempt=attempt, tool="exec", line="exec ls", rule="allow exec: ls", **more)


def shown(deciding: Deciding) -> str:
    return "\n".join("".join(text for _, text in row) for row in deciding.rows())


def test_a_key_decides_the_oldest_approval_and_then_the_next() -> None:
    times = Times()
    waiting = [approval("a"), approval("b", 3)]
    deciding = Deciding(lambda: waiting, times)
    assert deciding.current() == waiting[0]
    times.now += GRACE_SECONDS

    first = deciding.press("o")
    times.now += GRACE_SECONDS - 0.01
    too_soon = deciding.press("d")
    times.now += GRACE_SECONDS
    second = deciding.press("d")

    assert first == pb.DecideAskMsg(ask_id="a", attempt=1, decision="once")
    assert too_soon is None
    assert second == pb.DecideAskMsg(ask_id="b", attempt=3, decision="deny")
    assert deciding.current() is None
    assert deciding.rows() == []


def test_a_key_that_was_meant_for_a_message_decides_nothing() -> None:
    times = Times()
    deciding = Deciding(lambda: [approval()], times)

    assert not deciding.ready
    assert deciding.press("o") is None
    assert "o once" not in shown(deciding)
    times.now += GRACE_SECONDS
    assert deciding.ready
    assert deciding.press("x") is None
    assert "o once · r for this run · a always · d deny" in shown(deciding)


def test_always_shows_the_rule_and_takes_the_key_twice() -> None:
    times = Times()
    deciding = Deciding(lambda: [approval()], times)
    deciding.current()
    times.now += GRACE_SECONDS

    assert "(always: allow exec: ls)" in shown(deciding)
    assert deciding.press("a") is None
    assert "a again writes the rule: allow exec: ls" in shown(deciding)
    assert deciding.press("a") == pb.DecideAskMsg(ask_id="a", attempt=1, decision="always")


def test_a_decision_the_daemon_did_not_take_is_open_again_and_a_new_attempt_is_asked_anew() -> None:
    times = Times()
    waiting = [approval()]
    deciding = Deciding(lambda: waiting, times)
    deciding.current()
    times.now += GRACE_SECONDS
    message = deciding.press("r")
    assert message is not None
    assert deciding.current() is None

    deciding.undo(message)
    assert deciding.current() == waiting[0]
    waiting[0] = approval(attempt=2)
    assert deciding.current() == waiting[0]
    assert not deciding.ready


def test_a_view_shows_the_call_its_diff_and_what_became_of_it() -> None:
    view = RunView("ada", lambda: 1.0)
    view.take(pb.StreamEvent(start=pb.StreamStart(agent="ada", user_seq=1)))
    event = approval(preview="@@ -1 +1 @@\n-old\n+new \x1b[2J\n same", reason="it is dangerous")

    opened = view.take(pb.StreamEvent(approval_opened=event))
    assert view.status == "waiting for you"
    closed = view.take(pb.StreamEvent(approval_closed=pb.ApprovalClosedEvent(ask_id="a", state="granted")))

    assert opened == [
        [("class:notice", "  ⚠ exec waits for you: it is dangerous")],
        [(lines.CODE, "    exec ls")],
        [("class:dim", "    @@ -1 +1 @@")],
        [("class:removed", "    -old")],
        [("class:added", "    +new ␛[2J")],
        [(lines.CODE, "     same")],
    ]
    assert closed == [[("class:dim", "  ✓ allowed: exec ls")]]
    assert view.approvals == {}


def test_a_long_preview_is_cut_and_says_where_the_rest_is() -> None:
    event = approval(preview="\n".join(f"+{number}" for number in range(1000)))

    shown_lines = lines.approval(event)

    assert len(shown_lines) == 203
    assert shown_lines[-1][0][1] == "    … 800 more lines: moot inbox show a"


def test_the_panel_says_why_it_asks_also_while_keys_do_not_count_yet() -> None:
    times = Times()
    reason = "this run has seen words from outside (web), and this reaches egress"
    deciding = Deciding(lambda: [approval(reason=reason)], times)
    deciding.current()
    assert reason in shown(deciding)
    times.now += GRACE_SECONDS
    assert reason in shown(deciding)
