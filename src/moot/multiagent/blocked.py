"""Determines what blocks a run: its open asks, or the teammates it waits for. Used by teammates and traces. Pure."""

from collections.abc import Sequence

from moot.domain.ask import Ask, AskKind, AskState
from moot.domain.run_view import Block, Condition, GrantState

_WAITING = Block(condition=Condition.WAITING, reason="it waits for its teammates")
_DECIDED = {AskState.GRANTED: GrantState.GRANTED, AskState.DENIED: GrantState.DENIED}


def current_block(open_asks: Sequence[Ask], waiting_on: Sequence[str], closed: Ask | None = None) -> Block:
    """Return what blocks a run: the newest of its open asks, else the teammates it waits for, else nothing.

    One step may make several calls; asks take precedence over teammates. The decision on a grant that was just closed
    is included; that on an approval is not, because it concerns only one call.
    """
    if open_asks:
        return block_of(open_asks[-1])
    if waiting_on:
        return _WAITING
    is_grant = closed is not None and closed.kind is AskKind.GRANT
    return Block(state=_DECIDED.get(closed.state, GrantState.NONE)) if closed is not None and is_grant else Block()


def block_of(ask: Ask) -> Block:
    if ask.is_question:
        return Block(condition=Condition.ASKING, reason=ask.waits_for)
    return Block(
        condition=Condition.BLOCKED,
        reason=ask.waits_for,
        request_id=ask.id,
        attempt=ask.attempts_since_decision,
        state=GrantState.PENDING,
    )
