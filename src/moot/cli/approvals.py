"""A call that waits for its owner: how it is shown, and how what was typed becomes a decision. Pure."""

from typing import Protocol

from moot.cli import safe

DECISIONS = {"o": "once", "r": "run", "a": "always", "d": "deny"}
# Enough to judge a change by; the rest is one command away.
PREVIEW_ROWS = 200


class Shown(Protocol):
    """What an approval says of itself, in a stream and in the inbox alike."""

    @property
    def ask_id(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def line(self) -> str: ...
    @property
    def preview(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def rule(self) -> str: ...


def lines(approval: Shown, *, rows: int = PREVIEW_ROWS) -> list[str]:
    """What would be done, why it is asked, and the preview; all clean."""
    shown = [f"{safe.line(approval.tool)} waits for your approval: {safe.line(approval.reason)}"]
    shown.append(f"  {safe.line(approval.line)}")
    return shown + [f"  {row}" for row in preview(approval, rows)]


def preview(approval: Shown, rows: int = PREVIEW_ROWS) -> list[str]:
    """The preview, row by row and clean; where it is cut, it says how to see the rest."""
    if not approval.preview.strip():
        return []
    found = safe.clean(approval.preview).rstrip("\n").split("\n")
    if rows and len(found) > rows:
        return [*found[:rows], f"… {len(found) - rows} more lines: moot inbox show {safe.line(approval.ask_id)}"]
    return found


def choices(approval: Shown) -> list[str]:
    """The four decisions; the rule stands there before anybody can write it."""
    return [
        "  o once · r for this run · a always · d deny",
        f"  (always writes the rule: {safe.line(approval.rule)})",
    ]


def decision(typed: str) -> str:
    """The decision that a letter or a word names, or nothing."""
    word = typed.strip().lower()
    return DECISIONS.get(word, word if word in DECISIONS.values() else "")
