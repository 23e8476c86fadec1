"""Renders an event for a person: a row of cells and a text, wrapped to the terminal between words. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from moot.cli.render import flow, sanitize, terminal

_GAP = "  "
_INDENT = "    "


class Cell(Struct, frozen=True):
    """A few words that stay on one row, and their style. They are sanitized already."""

    text: str
    style: dict[str, Any] = field(default_factory=dict)


def render_row(cells: Sequence[Cell], text: str, width: int) -> str:
    """Return the cells and then the text, on as many rows as `width` requires; on one if it is 0."""
    row, used = "", 0
    for cell in cells:
        columns = sanitize.columns(cell.text)
        if width and row and used + len(_GAP) + columns > width:
            row, used = f"{row}\n{_INDENT}", len(_INDENT)
        elif row:
            row, used = row + _GAP, used + len(_GAP)
        row, used = row + terminal.paint(cell.text, **cell.style), used + columns
    following = flow.Flow(width, used=used, indent=_INDENT)
    return (row + following.feed(_GAP + text) + following.end()).rstrip()
