"""What a run is said to be blocked by: stable ids, attempts that count one cycle, and never a newer block cleared."""

from moot.domain.agent_run import Block, Condition, GrantState
from moot.domain.approval import Approval, AskState
from moot.domain.ask import Ask
from moot.domain.events import ApprovalClosed, ApprovalOpened, AskClosed, AskOpened, TextChunk
from moot.domain.senders import grant_id
from moot.multiagent.teammates.blocked import Blocks
from tests.unit.shelves import ADA

EXEC = grant_id("arun-1", "exec")


def asked(ask_id: str = EXEC, *, attempt: int = 1, settled: int = 0, tool: str = "exec") -> ApprovalOpened:
    return ApprovalOpened(
        Approval(
            id=ask_id,
            key=ADA,
            run_id="arun-1",
            call_id="c1",
            speaker="operator",
            tool=tool,
            arguments="{}",
            subject="",
            line="exec",
            preview="",
            reason="it is dangerous",
            attempt=attempt,
            settled=settled,
        )
    )


def test_a_grant_is_pending_under_an_id_of_its_run_and_tool() -> None:
    assert Blocks("arun-1").after(asked()) == Block(
        condition=Condition.BLOCKED,
        reason="exec waits for approval: it is dangerous",
        request_id="grant-arun-1-exec",
        attempt=1,
        state=GrantState.PENDING,
    )


def test_a_grant_nobody_decided_on_is_asked_for_again_as_the_next_attempt() -> None:
    blocks = Blocks("arun-1")
    blocks.after(asked())
    assert blocks.after(ApprovalClosed(EXEC, AskState.EXPIRED)) == Block()
    again = blocks.after(asked(attempt=2))
    assert again is not None
    assert (again.request_id, again.attempt, again.state) == (EXEC, 2, GrantState.PENDING)


def test_a_decision_ends_the_cycle_and_the_next_one_counts_from_one() -> None:
    blocks = Blocks("arun-1")
    blocks.after(asked())
    assert blocks.after(ApprovalClosed(EXEC, AskState.DENIED)) == Block(state=GrantState.DENIED)
    again = blocks.after(asked(attempt=2, settled=1))
    assert again is not None
    assert (again.request_id, again.attempt) == (EXEC, 1)
    assert blocks.after(ApprovalClosed(EXEC, AskState.GRANTED)) == Block(state=GrantState.GRANTED)


def test_an_approval_of_one_call_leaves_nothing_behind() -> None:
    blocks = Blocks("arun-1")
    pending = blocks.after(asked("ask-arun-1-c1"))
    assert pending is not None
    assert (pending.condition, pending.state) == (Condition.BLOCKED, GrantState.PENDING)
    assert blocks.after(ApprovalClosed("ask-arun-1-c1", AskState.GRANTED)) == Block()


def test_what_is_still_open_is_not_cleared_with_what_is_closed() -> None:
    blocks = Blocks("arun-1")
    blocks.after(asked())
    other = grant_id("arun-1", "fs_write")
    blocks.after(asked(other, tool="fs_write"))
    left = blocks.after(ApprovalClosed(EXEC, AskState.GRANTED))
    assert left is not None
    assert (left.condition, left.request_id) == (Condition.BLOCKED, other)
    assert blocks.after(ApprovalClosed(other, AskState.DENIED)) == Block(state=GrantState.DENIED)


def test_a_question_blocks_until_it_is_closed_and_other_events_change_nothing() -> None:
    blocks = Blocks("arun-1")
    ask = Ask(id="q1", key=ADA, run_id="arun-1", questions=(), opened_at=0.0, expires_at=1.0)
    assert (asking := blocks.after(AskOpened(ask))) is not None
    assert asking.condition is Condition.ASKING
    assert blocks.after(TextChunk("hello")) is None
    assert blocks.after(AskClosed("q1", answered=True)) == Block()
