"""A call that waits for its owner: how it is shown, and how what was typed becomes a decision. Pure."""

import json
from collections.abc import Iterator
from typing import Any, Protocol

from moot.cli import safe

DECISIONS = {"o": "once", "r": "run", "a": "always", "d": "deny"}
# Enough to judge a change by; the rest is one command away.
PREVIEW_ROWS = 200
_COLUMNS = 400


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
    @property
    def whole_rule(self) -> str: ...


def lines(approval: Shown, *, rows: int = PREVIEW_ROWS) -> list[str]:
    """What would be done, why it is asked, and the preview; all clean."""
    shown = [f"{safe.exact_line(approval.tool)} waits for your approval: {safe.exact_line(approval.reason)}"]
    return shown + [f"  {row}" for row in (*call(approval), *preview(approval, rows))]


def call(approval: Shown) -> list[str]:
    """The call on its line, unless the preview begins with just that."""
    line = safe.exact_line(approval.line)
    first = safe.exact(approval.preview).split("\n")[0]
    return [] if first and first == line.removeprefix("$ ") else [line]


def preview(approval: Shown, rows: int = PREVIEW_ROWS) -> list[str]:
    """The preview, row by row and clean; where it is cut, it says how to see the rest."""
    if not approval.preview.strip():
        return []
    found = safe.exact(approval.preview).rstrip("\n").split("\n")
    if not rows:
        return found
    where = f"moot inbox show {safe.line(approval.ask_id)}"
    kept = [_fitting(row, where) for row in found[:rows]]
    return [*kept, f"… {len(found) - rows} more lines: {where}"] if len(found) > rows else kept


def _fitting(row: str, where: str) -> str:
    more = len(row) - _COLUMNS
    return row if more <= 0 else f"{row[:_COLUMNS]} … {more} more characters: {where}"


def arguments(written: str) -> list[str]:
    """The arguments of a call, each on its own line and whole; a text of several lines keeps them."""
    read = parsed(written)
    if not isinstance(read, dict):
        return [safe.exact(written)]
    return [line for name, value in read.items() for line in _argument(name, value)]


def parsed(written: str) -> Any:
    """The arguments as they are meant; the text itself where it is not JSON, as when it was cut."""
    try:
        return json.loads(written)
    except ValueError:
        return written


def _argument(name: str, value: Any) -> Iterator[str]:
    shown = safe.exact_line(name)
    if not isinstance(value, str) or "\n" not in value:
        yield f"{shown}: {safe.exact_line(json.dumps(value, ensure_ascii=False))}"
        return
    yield f"{shown}:"
    yield from (f"  │ {row}" for row in safe.exact(value).split("\n"))


def choices(approval: Shown) -> list[str]:
    """The four decisions; the rule stands there before anybody can write it."""
    if not approval.rule:
        return ["  o once · d deny"]
    return [
        "  o once · r this again in this run · a always · d deny",
        f"  (always writes the rule: {safe.exact_line(approval.rule)})",
        f"  (for any {safe.line(approval.tool)}: moot inbox approve {safe.line(approval.ask_id)} --run --any)",
    ]


def decision(typed: str) -> str:
    """The decision that a letter or a word names, or nothing."""
    word = typed.strip().lower()
    return DECISIONS.get(word, word if word in DECISIONS.values() else "")
