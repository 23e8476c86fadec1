"""What a run is said to be blocked by: stable ids, attempts that count one cycle, and never a newer block cleared."""

from msgspec.structs import replace

from moot.domain.ask import Ask, AskKind, AskState, grant_id
from moot.domain.run_view import Block, Condition, GrantState
from moot.multiagent.blocked import current_block
from tests.unit.shelves import approval

EXEC = grant_id("arun-1", "exec")
NOBODY = ()


def grant(**changes: object) -> Ask:
    return approval(**({"id": EXEC, "kind": AskKind.GRANT, "run_id": "arun-1"} | changes))


def closed(ask: Ask, state: AskState) -> Block:
    return current_block([], NOBODY, replace(ask, state=state))


def test_a_grant_is_pending_under_an_id_of_its_run_and_tool() -> None:
    assert current_block([grant()], NOBODY) == Block(
        condition=Condition.BLOCKED,
        reason="exec waits for approval: it is dangerous",
        request_id="grant-arun-1-exec",
        attempt=1,
        state=GrantState.PENDING,
    )


def test_a_grant_nobody_decided_on_is_requested_again_as_the_next_attempt() -> None:
    assert closed(grant(), AskState.EXPIRED) == Block()
    again = current_block([grant(attempt=2)], NOBODY)
    assert (again.request_id, again.attempt, again.state) == (EXEC, 2, GrantState.PENDING)


def test_a_decision_on_a_grant_is_reported_and_the_next_attempts_count_from_one() -> None:
    assert closed(grant(), AskState.DENIED) == Block(state=GrantState.DENIED)
    assert closed(grant(), AskState.GRANTED) == Block(state=GrantState.GRANTED)
    assert current_block([grant(attempt=2, decided_attempts=1)], NOBODY).attempt == 1


def test_an_approval_of_one_call_leaves_nothing_behind() -> None:
    pending = current_block([approval()], NOBODY)
    assert (pending.condition, pending.state) == (Condition.BLOCKED, GrantState.PENDING)
    assert closed(approval(), AskState.GRANTED) == Block()


def test_what_is_still_open_is_not_cleared_with_what_is_closed() -> None:
    other = grant(id=grant_id("arun-1", "fs_write"), tool="fs_write")
    left = current_block([other], NOBODY, replace(grant(), state=AskState.GRANTED))
    assert (left.condition, left.request_id) == (Condition.BLOCKED, other.id)


def test_a_question_blocks_and_goes_before_teammates_that_are_waited_for() -> None:
    waiting_on = ("arun-2", "arun-3")
    assert current_block([approval(kind=AskKind.QUESTION)], waiting_on).condition is Condition.ASKING
    assert current_block([], waiting_on).condition is Condition.WAITING
    assert current_block([], ()) == Block()
