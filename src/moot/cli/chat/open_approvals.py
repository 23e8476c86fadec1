"""State of the approvals shown in a chat: which one is current and which lines decide it. No I/O. Used by `controller`.

Only a line that consists of a decision decides, and only what was displayed when the line was started.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from moot.cli.markdown.styles import Line
from moot.cli.program import hint
from moot.cli.render import approvals, asker_lines, sanitize
from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb

_LINE_COLUMNS = 100
_REASON_COLUMNS = 160
# The beginning of one with more rows may be above the screen.
_BLOCK_ROWS = 15

ApprovalKey = tuple[str, int]


class LineReading(Struct, frozen=True, kw_only=True):
    """The interpretation of a line: a decision, or none yet and why. If it is not `taken`, it is a message."""

    taken: bool
    decision: pb.DecideAskMsg | None = None
    # What stood on the screen when it was decided.
    shown: pb.ApprovalEvent = field(default_factory=pb.ApprovalEvent)
    note: str = ""


class HeldDecision(Struct, frozen=True):
    """A decision with the approval as it was shown."""

    message: pb.DecideAskMsg
    shown: pb.ApprovalEvent

    def is_same_approval(self, approval: pb.ApprovalEvent) -> bool:
        """Whether the approval is unchanged in everything that is displayed."""
        return _visible_fields(approval) == _visible_fields(self.shown)


def approval_from_ask(info: pb.AskInfo) -> pb.ApprovalEvent:
    """Convert an approval of the inbox to the event of a run."""
    return pb.ApprovalEvent(
        ask_id=info.ask_id,
        kind=info.kind,
        attempt=info.attempt,
        tool=info.tool,
        line=info.line,
        preview=info.preview,
        reason=info.reason,
        rule=info.rule,
        whole_rule=info.whole_rule,
        patterns=info.patterns,
        expires_at=info.expires_at,
        by=info.by if info.HasField("by") else None,
    )


def question_from_ask(info: pb.AskInfo) -> pb.AskUserEvent:
    """The same for a question."""
    by = info.by if info.HasField("by") else None
    return pb.AskUserEvent(questions=info.questions, ask_id=info.ask_id, attempt=info.attempt, by=by)


class OpenApprovals:
    """Shows one approval at a time, oldest first. `always` must be confirmed, since it writes a rule."""

    def __init__(self, waiting: Callable[[], Iterable[pb.ApprovalEvent]]) -> None:
        self._waiting = waiting
        self._decided: set[ApprovalKey] = set()
        self._displayed: ApprovalKey | None = None
        self._begun: ApprovalKey | None = None
        # What `always` was typed for once, and the pattern of the rule; it has to be typed again.
        self._to_confirm: tuple[ApprovalKey, str] | None = None
        self._printed: tuple[ApprovalKey, int] | None = None
        # Those that stand in the scrollback with their preview.
        self._printed_keys: set[ApprovalKey] = set()

    def current(self) -> pb.ApprovalEvent | None:
        return next((approval for approval in self._waiting() if _approval_key(approval) not in self._decided), None)

    def count(self) -> int:
        """How many approvals are not decided yet."""
        return sum(_approval_key(approval) not in self._decided for approval in self._waiting())

    def list_unprinted(self) -> list[pb.ApprovalEvent]:
        """The open approvals that no followed run has printed."""
        known = self._printed_keys | self._decided
        return [approval for approval in self._waiting() if _approval_key(approval) not in known]

    def begin(self) -> None:
        """A line was started: it can only decide what is displayed now."""
        self._begun = self._displayed

    def read(self, line: str) -> LineReading:
        """Interpret a finished line."""
        begun, self._begun = self._begun, None
        confirmed, self._to_confirm = self._to_confirm, None
        approval = self.current()
        typed = approvals.parse_decision(line, approval)
        decision = typed.decision
        if not decision or (approval is None and begun is None):
            return LineReading(taken=False)
        if begun is None:
            return LineReading(taken=False, note="sent as a message: you started typing before the approval was shown")
        if approval is None or begun != _approval_key(approval):
            return LineReading(taken=True, note="nothing was decided: the call is no longer waiting")
        if decision != "deny" and not approvals.is_complete(approval):
            return LineReading(taken=True, note="nothing was decided: the call is too long to be shown here")
        if decision in approvals.RULE_DECISIONS and not (approval.rule or typed.pattern):
            allowed = "allowed once, allowed with a pattern" if approval.patterns else "allowed once"
            return LineReading(taken=True, note=f"nothing was decided: this call can only be {allowed} or denied")
        if decision == "always" and confirmed != (begun, typed.pattern):
            self._to_confirm = (begun, typed.pattern)
            return LineReading(taken=True)
        self._decided.add(begun)
        return LineReading(taken=True, decision=typed.build_message(approval), shown=approval)

    def undo(self, message: pb.DecideAskMsg) -> None:
        """The daemon rejected the decision: the approval is open again."""
        self._decided.discard((message.ask_id, message.attempt))

    def record_printed(self, approval: pb.ApprovalEvent, *, rows: int, at: int) -> None:
        """Record that it was printed completely in this many rows; `at` is the number of lines printed so far."""
        self._printed_keys.add(_approval_key(approval))
        self._printed = (_approval_key(approval), at) if rows <= _BLOCK_ROWS else None

    def rows(self, *, behind: bool = False, at: int = 0) -> list[Line]:
        """The approval and its keys, for the lines above the input. `behind` a question it has to wait.

        What is printed completely right above is not repeated.
        """
        approval = self.current()
        self._displayed = None if approval is None or behind else _approval_key(approval)
        if approval is None:
            return []
        if behind:
            return [[("class:dim", f"  ({sanitize.exact_line(approval.tool)} waits for your approval after that)")]]
        question = ("class:question", f"allow {sanitize.exact_line(approval.tool)}?  ")
        keys, more = self._choices(approval)
        if self._printed == (_approval_key(approval), at):
            return [[question, ("class:keys", keys)], *more]
        head: list[Line] = [
            [question, ("class:call", sanitize.exact_line(approval.line, _LINE_COLUMNS))],
            *(
                [("class:notice", f"  {sanitize.fit(line, _REASON_COLUMNS)}")]
                for line in asker_lines.render_asker(approval)
            ),
            [("class:notice", f"  {sanitize.exact_line(approval.reason, _REASON_COLUMNS)}")],
        ]
        if len(sanitize.exact_line(approval.line)) > _LINE_COLUMNS:
            head.append(
                [("class:notice", hint(f"  cut; all of it: moot inbox show {shorten_ask_id(approval.ask_id)}"))]
            )
        return [*head, [("class:keys", f"  {keys}")], *more]

    def _choices(self, approval: pb.ApprovalEvent) -> tuple[str, list[Line]]:
        """The keys, and the lines that explain them."""
        if not approvals.is_complete(approval):
            keys, why = approvals.explain_incomplete(approval)
            return f"{keys}, then Enter", [[("class:dim", f"  {why}")]]
        other = "d: REASON gives a reason; anything else is sent as a message"
        if (written := self._find_rule_to_confirm(approval)) is not None:
            return written, [[("class:dim", f"  ({other})")]]
        offered: list[Line] = [[("class:dim", f"  {line}")] for line in approvals.render_patterns(approval)]
        once = approvals.render_keys(approval)
        if not approval.rule:
            why = "".join(f" ({line})" for line in approvals.explain_once_only(approval, in_chat=True))
            return f"{once} · d deny, then Enter", [*offered, [("class:dim", f" {why} ({other})")]]
        keys = f"{once} · r run · c conversation · a always · d deny, then Enter"
        return keys, [*offered, [("class:dim", f"  (always: {sanitize.exact_line(approval.rule)}) ({other})")]]

    def _find_rule_to_confirm(self, approval: pb.ApprovalEvent) -> str | None:
        """What has to be typed again to write a permanent rule, with the rule; None if nothing was typed yet."""
        if self._to_confirm is None or self._to_confirm[0] != _approval_key(approval):
            return None
        pattern = self._to_confirm[1]
        rule = next((each.rule for each in approval.patterns if each.text == pattern), approval.rule)
        typed = "the same" if pattern else "a"
        return f"{typed} and Enter again writes the rule: {sanitize.exact_line(rule)}"


def _approval_key(approval: pb.ApprovalEvent) -> ApprovalKey:
    return approval.ask_id, approval.attempt


def _visible_fields(approval: pb.ApprovalEvent) -> tuple[object, ...]:
    return (
        _approval_key(approval),
        approval.tool,
        approval.line,
        approval.preview,
        approval.reason,
        approval.rule,
        [each.rule for each in approval.patterns],
    )
