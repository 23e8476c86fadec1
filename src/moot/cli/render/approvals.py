"""Renders approvals and parses decisions. Pure."""

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from moot.cli.program import hint
from moot.cli.render import asker_lines, flow, sanitize
from moot.domain.ids import shorten_ask_id
from moot.domain.visible import NOT_SHOWN, is_cut, show_block
from moot.wire import moot_pb2 as pb

DECISIONS = {"o": "once", "r": "run", "c": "conversation", "a": "always", "d": "deny"}
# Decisions that write a rule.
RULE_DECISIONS = ("run", "conversation", "always")
_DENIAL = re.compile(r"(?:d|deny):\s*(?P<reason>\S.*)", re.IGNORECASE | re.DOTALL)
_PATTERN = re.compile(r"p(?P<number>[1-9]?)(?:\s+(?P<scope>r|run|c|conversation|a|always))?", re.IGNORECASE)
# Before each row of what is to be decided on.
GUTTER = "│ "
# The sources of untrusted text in the reason of an approval, and the one that are instructions of the project.
_UNTRUSTED = re.compile(r"untrusted text \(([^)]*)\)")
_PROJECT = "project"
_ALLOWED = {
    "once": "allowed once",
    "run": "allowed in this run",
    "conversation": "allowed in this conversation",
    "always": "allowed from now on",
}


# An approval in a stream and one in the inbox say the same of themselves.
Shown = pb.ApprovalEvent | pb.AskInfo


def render_approval(approval: Shown, *, width: int = 0, conversation: str = "") -> list[str]:
    """The call, why it needs approval, and the preview, exactly.

    With a width, rows are wrapped and every row of the call and its preview is prefixed with a mark, so that a wrapped
    row is distinguishable from a new line.
    """
    head = f"{sanitize.exact_line(approval.tool)} waits for your approval: {sanitize.exact_line(approval.reason)}"
    lines = [
        head,
        *(f"  {line}" for line in (*explain_project(approval, conversation), *asker_lines.render_asker(approval))),
    ]
    mark = f"  {GUTTER}" if width else "  "
    lines = [flow.wrap_text(line, width, indent="  ") for line in lines]
    return lines + [
        flow.wrap_text(mark + row, width, indent="    ") for row in (*render_call(approval), *render_preview(approval))
    ]


def explain_project(approval: Shown, conversation: str = "", *, in_chat: bool = False) -> list[str]:
    """How to be asked less, if the untrusted text is instructions of the project; otherwise empty.

    In a chat its own commands are named. `conversation` is as `moot trust` takes it.
    """
    found = _UNTRUSTED.search(approval.reason)
    if found is None or _PROJECT not in found[1].split(", "):
        return []
    if in_chat:
        return ["to end this, read and approve the project's instructions: /project, then /trust"]
    text = "to end this, read and approve the project's instructions:"
    return [hint(f"{text} `moot project approve`, then `moot trust {_name_holder(approval, conversation)}`")]


def name_conversation(agent: str, sender: str) -> str:
    """The conversation as commands take it; without a sender it is the person's own."""
    return f"{sanitize.name(agent)} --as {sanitize.name(sender)}" if sender else sanitize.name(agent)


def _name_holder(approval: Shown, conversation: str) -> str:
    """The conversation an approval belongs to; a placeholder where neither it nor the caller names it."""
    if isinstance(approval, pb.AskInfo) and approval.agent:
        return name_conversation(approval.agent, approval.sender)
    return conversation or "AGENT"


def render_call(approval: Shown) -> list[str]:
    """The call on one line, unless the preview starts with it."""
    line = sanitize.exact_line(approval.line)
    first = sanitize.exact(approval.preview).split("\n")[0]
    return [] if first and first == line.removeprefix("$ ") else [line]


def render_preview(approval: Shown) -> list[str]:
    """The preview, row by row and exactly, however long it is."""
    if not approval.preview.strip():
        return []
    found = sanitize.exact(approval.preview).rstrip("\n").split("\n")
    if found[1:2] == [""] and not render_call(approval):
        # One line says the call, what follows is about it.
        del found[1]
    return found


def is_complete(approval: Shown) -> bool:
    """Whether all of the call is here; if not, it can be denied here but not allowed."""
    shown = approval.preview or approval.line
    return not is_cut(shown, approval.ask_id) and not approval.preview.endswith(NOT_SHOWN)


def render_arguments(written: str) -> list[str]:
    """The arguments of a call in full, one per line; multi-line texts keep their lines."""
    read = parse_arguments(written)
    if not isinstance(read, dict):
        return [sanitize.name(written)]
    return [line for name, value in read.items() for line in _render_argument(name, value)]


def parse_arguments(written: str) -> Any:
    """The parsed arguments, or the text itself if it is not JSON, as when it was cut."""
    try:
        return json.loads(written)
    except ValueError:
        return written


def _render_argument(name: str, value: Any) -> Iterator[str]:
    shown = sanitize.name(name)
    if not isinstance(value, str) or "\n" not in value:
        yield f"{shown}: {sanitize.name(json.dumps(value, ensure_ascii=False))}"
        return
    yield f"{shown}:"
    yield from (f"  │ {row}" for row in show_block(value).split("\n"))


def render_choices(approval: Shown, width: int = 0, conversation: str = "") -> list[str]:
    """The four decisions, with the rule that would be written."""
    return [flow.wrap_text(line, width, indent="    ") for line in _list_choices(approval, conversation)]


def _list_choices(approval: Shown, conversation: str) -> list[str]:
    if not is_complete(approval):
        return [f"  {line}" for line in explain_incomplete(approval)]
    once = render_keys(approval)
    if not approval.rule:
        offered = [f"  {line}" for line in render_patterns(approval)]
        why = [f"  ({line})" for line in explain_once_only(approval, conversation)]
        return [f"  {once} · d deny", *offered, "  (d: REASON gives the agent a reason)", *why]
    return [
        f"  {once} · r run · c conversation · a always · d deny",
        *(f"  {line}" for line in render_patterns(approval)),
        f"  (always writes the rule: {sanitize.exact_line(approval.rule)})",
        "  (c is always, but in this conversation only; d: REASON gives the agent a reason)",
        f"  (for any {sanitize.name(approval.tool)}: "
        + hint(f"moot inbox approve {shorten_ask_id(approval.ask_id)} --run --any)"),
    ]


def render_patterns(approval: Shown) -> list[str]:
    """The patterns that a rule can be written for: the key of each, and exactly what the rule would allow."""
    keys = [f"p{number}" for number in range(1, len(approval.patterns) + 1)] if len(approval.patterns) > 1 else ["p"]
    return [
        f"{key} all calls like it in this conversation · {key} run · {key} always: {sanitize.exact_line(pattern.rule)}"
        for key, pattern in zip(keys, approval.patterns, strict=False)
    ]


def explain_incomplete(approval: Shown) -> list[str]:
    """How to see and decide a call that is too long to be shown whole."""
    ask_id = shorten_ask_id(approval.ask_id)
    return ["d deny", hint(f"(too long to be shown and allowed here: moot inbox approve {ask_id} shows all of it)")]


def explain_once_only(approval: Shown, conversation: str = "", *, in_chat: bool = False) -> list[str]:
    """Why no rule, or none but those offered as patterns, can be written; empty if the usual ones can."""
    if approval.rule or approval.whole_rule:
        return []
    what = "other rules" if approval.patterns else "only once: rules"
    how = "/trust" if in_chat else hint(f"`moot trust {_name_holder(approval, conversation)}`")
    return [f"{what} do not apply while the conversation has untrusted content; {how} clears it"]


def render_keys(approval: Shown) -> str:
    """The key that approves, and what it approves: a grant covers the tool for the whole run."""
    return "o yes, in this run" if approval.kind == "grant" else "o once"


def describe_allowed(kind: str, decision: str) -> str:
    """What a decision allowed, in a few words."""
    if decision == "once" and kind == "grant":
        return "allowed in this run"
    return _ALLOWED.get(decision, "allowed")


class TypedDecision(Struct, frozen=True, kw_only=True):
    """What a line decides: the decision, empty if it is none; the pattern of the rule; the reason of a denial."""

    decision: str = ""
    pattern: str = ""
    reason: str = ""

    def build_message(self, approval: Shown) -> pb.DecideAskMsg:
        return pb.DecideAskMsg(
            ask_id=approval.ask_id,
            attempt=approval.attempt,
            decision=self.decision,
            pattern=self.pattern,
            reason=self.reason,
        )


def parse_decision(typed: str, approval: Shown | None = None) -> TypedDecision:
    """The decision that a line means: a letter or word, `d: REASON`, or `p` for a pattern that the approval offers."""
    line = typed.strip()
    if denial := _DENIAL.fullmatch(line):
        return TypedDecision(decision="deny", reason=denial["reason"])
    offered = list(approval.patterns) if approval is not None else []
    if (found := _PATTERN.fullmatch(line)) and int(found["number"] or 1) <= len(offered):
        scope = (found["scope"] or "c").lower()
        pattern = offered[int(found["number"] or 1) - 1].text
        return TypedDecision(decision=DECISIONS.get(scope, scope), pattern=pattern)
    word = line.lower()
    return TypedDecision(decision=DECISIONS.get(word, word if word in DECISIONS.values() else ""))
