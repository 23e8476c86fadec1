"""What blocks a run: the asks it has open (engine/asks.py) and the teammates it waits for. Used by teammates. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from moot.domain.agent_run import Block, Condition, GrantState
from moot.domain.ask import Ask, AskKind, AskState

_WAITING = Block(condition=Condition.WAITING, reason="it waits for its teammates")
_DECIDED = {AskState.GRANTED: GrantState.GRANTED, AskState.DENIED: GrantState.DENIED}


@dataclass(slots=True)
class Waits:
    """The runs that one run waits for, by the call that waits."""

    _by_call: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, call: str, run_ids: Sequence[str]) -> None:
        self._by_call[call] = tuple(run_ids)

    def remove(self, call: str) -> None:
        self._by_call.pop(call, None)

    def __bool__(self) -> bool:
        return bool(self._by_call)

    @property
    def run_ids(self) -> str:
        return ", ".join(dict.fromkeys(run_id for run_ids in self._by_call.values() for run_id in run_ids))


def current_block(open_asks: Sequence[Ask], waits: Waits, closed: Ask | None = None) -> Block:
    """What a run is blocked by: the newest of its open asks, else its teammates, else nothing.

    One step may make several calls: what a person is asked goes before those that are waited for meanwhile. A decision
    on a grant that was just closed is reported; an approval is about one call, which goes on or does not.
    """
    if open_asks:
        return block_of(open_asks[-1])
    if waits:
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
