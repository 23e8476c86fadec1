"""What a run is held up by: approvals, grants and questions that are open, and others it waits for. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from moot.domain.agent_run import Block, Condition, GrantState
from moot.domain.approval import Approval, AskState
from moot.domain.events import ApprovalClosed, ApprovalOpened, AskClosed, AskOpened, EventBody
from moot.domain.senders import is_grant

_NOTHING = Block()
_WAITING = Block(condition=Condition.WAITING, reason="it waits for its teammates")
_DECIDED = {AskState.GRANTED: GrantState.GRANTED, AskState.DENIED: GrantState.DENIED}


@dataclass(slots=True)
class Blocks:
    """Everything open that one run waits for; the newest is what it is said to be blocked by.

    One step may make several calls: what a person is asked goes before those that are waited for meanwhile.

    A run also announces what those it set to work ask, and that holds up them, not it.
    """

    _run_id: str
    _open: dict[str, Block] = field(default_factory=dict)
    # The runs that are waited for, by the call that waits.
    _waits: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def after(self, event: EventBody) -> Block | None:
        """What holds the run up from this event on; None where the event changes nothing about that."""
        left = _NOTHING
        match event:
            case ApprovalOpened(approval) if approval.run_id == self._run_id:
                self._open[approval.id] = self._asked(approval)
            case AskOpened(ask) if ask.run_id == self._run_id:
                reason = "a question to the person is open"
                self._open[ask.id] = Block(condition=Condition.ASKING, reason=reason)
            case ApprovalClosed(ask_id, state) if ask_id in self._open:
                left = self._closed(ask_id, state)
            case AskClosed(ask_id) if ask_id in self._open:
                del self._open[ask_id]
            case _:
                return None
        return self._now(left)

    def waits(self, call: str, run_ids: Sequence[str]) -> Block:
        """What holds the run up once a call of it waits for others."""
        self._waits[call] = tuple(run_ids)
        return self._now()

    def waits_no_more(self, call: str) -> Block:
        self._waits.pop(call, None)
        return self._now()

    @property
    def waiting_on(self) -> str:
        return ", ".join(dict.fromkeys(run_id for run_ids in self._waits.values() for run_id in run_ids))

    def _now(self, left: Block = _NOTHING) -> Block:
        return next(reversed(self._open.values()), _WAITING if self._waits else left)

    def _asked(self, approval: Approval) -> Block:
        return Block(
            condition=Condition.BLOCKED,
            reason=f"{approval.tool} waits for approval: {approval.reason}",
            request_id=approval.id,
            attempt=approval.asked,
            state=GrantState.PENDING,
        )

    def _closed(self, ask_id: str, state: AskState) -> Block:
        """A decision on a grant is told on; an approval is about one call, which goes on or does not."""
        del self._open[ask_id]
        return Block(state=_DECIDED[state]) if is_grant(ask_id) and state in _DECIDED else Block()
