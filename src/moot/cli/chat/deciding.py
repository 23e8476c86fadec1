"""Approvals in the chat: which one is before the person, and what the keys o r a d make of it. No I/O."""

from collections.abc import Callable, Iterable

from moot.cli import safe
from moot.cli.approvals import DECISIONS
from moot.cli.chat.lines import Line
from moot.wire import moot_pb2 as pb

# A key on its way to a message when the approval appears must not decide anything.
GRACE_SECONDS = 0.4


def approval_of(info: pb.AskInfo) -> pb.ApprovalEvent:
    """What waits in the inbox, as a run would have told of it."""
    return pb.ApprovalEvent(
        ask_id=info.ask_id,
        attempt=info.attempt,
        tool=info.tool,
        line=info.line,
        preview=info.preview,
        reason=f"{info.speaker}: {info.reason}",
        rule=info.rule,
        expires_at=info.expires_at,
    )


class Deciding:
    """One approval at a time, the oldest first. `always` takes the key twice, since it writes a rule."""

    def __init__(self, waiting: Callable[[], Iterable[pb.ApprovalEvent]], clock: Callable[[], float]) -> None:
        self._waiting = waiting
        self._clock = clock
        self._decided: set[tuple[str, int]] = set()
        self._before: tuple[str, int] | None = None
        self._since = 0.0
        self._sure = False

    def current(self) -> pb.ApprovalEvent | None:
        for approval in self._waiting():
            which = (approval.ask_id, approval.attempt)
            if which in self._decided:
                continue
            if which != self._before:
                self._before, self._since, self._sure = which, self._clock(), False
            return approval
        self._before = None
        return None

    @property
    def ready(self) -> bool:
        """Whether the keys decide by now."""
        return self.current() is not None and self._clock() - self._since >= GRACE_SECONDS

    def press(self, key: str) -> pb.DecideAskMsg | None:
        """What the key decides; nothing for the first `a`, and for any key that comes too soon."""
        approval = self.current()
        decision = DECISIONS.get(key, "")
        if approval is None or not decision or not self.ready:
            return None
        if decision == "always" and not self._sure:
            self._sure = True
            return None
        self._decided.add((approval.ask_id, approval.attempt))
        return pb.DecideAskMsg(ask_id=approval.ask_id, attempt=approval.attempt, decision=decision)

    def undo(self, message: pb.DecideAskMsg) -> None:
        """The daemon did not take it: the approval is open as before."""
        self._decided.discard((message.ask_id, message.attempt))

    def rows(self) -> list[Line]:
        """The approval and its keys, for the lines above the input."""
        approval = self.current()
        if approval is None:
            return []
        head: list[Line] = [
            [("class:question", f"allow {safe.line(approval.tool)}?  "), ("", safe.line(approval.line, 100))],
            [("class:notice", f"  {safe.line(approval.reason, 160)}")],
        ]
        if not self.ready:
            return [*head, [("class:dim", "  …")]]
        rule = safe.line(approval.rule)
        if self._sure:
            return [*head, [("class:notice", f"  a again writes the rule: {rule}")]]
        keys = "  o once · r for this run · a always · d deny"
        return [*head, [("", keys)], [("class:dim", f"  (always: {rule})")]]
