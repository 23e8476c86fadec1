"""Properties of the terminal on a stream (colours, width) and tables that fit. Used by output and the renderers."""

import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, TextIO

import click

from moot.cli.render import flow, sanitize

# The columns that the last column of a table needs at least, unless its texts are shorter.
_LEAST_LAST = 9


# The window of a terminal that does not say how large it is.
_USUAL_WINDOW = os.terminal_size((80, 24))

# The columns that name a conversation.
_CONVERSATION = ("AGENT", "SENDER")


def is_interactive(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"


def has_colours(stream: TextIO) -> bool:
    return is_interactive(stream) and not os.environ.get("NO_COLOR")


def paint(text: str, stream: TextIO | None = None, **style: Any) -> str:
    """Apply a style if `stream` (default stdout) supports colours."""
    return click.style(text, **style) if has_colours(stream or sys.stdout) else text


def measure_window(stream: TextIO) -> os.terminal_size:
    """The columns and lines of the terminal on a stream."""
    size = os.get_terminal_size(stream.fileno())
    # Serial lines and the pseudo terminals of containers and scripts often have none.
    return os.terminal_size((size.columns or _USUAL_WINDOW.columns, size.lines or _USUAL_WINDOW.lines))


def row_width(stream: TextIO) -> int:
    """The usable width of a row, without the last column, which terminals treat differently; 0 without a terminal."""
    return max(20, measure_window(stream).columns - 1) if stream.isatty() else 0


def terminal_width() -> int:
    """The columns of the terminal on stdout; 0 without a terminal."""
    if not sys.stdout.isatty():
        return 0
    return measure_window(sys.stdout).columns


def render_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows in aligned columns. On a terminal the last column is cut to fit; what does not fit is one block per row."""
    if not rows:
        return ""
    cells = [[sanitize.line(cell) for cell in row] for row in rows]
    widths = [max(map(sanitize.columns, column)) for column in zip(headers, *cells, strict=True)]
    room = terminal_width() - sum(widths[:-1]) - 2 * (len(widths) - 1)
    if terminal_width() and room <= min(widths[-1], _LEAST_LAST - 1):
        return "\n".join(_render_block(headers, row) for row in cells)
    lines = [paint(_align(headers, widths), bold=True)]
    for row in cells:
        last = sanitize.fit(row[-1], room) if room >= _LEAST_LAST else row[-1]
        lines.append(_align([*row[:-1], last], widths))
    return "\n".join(lines)


def render_wrapped_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose last column is wrapped instead of cut on a terminal."""
    cells = [[sanitize.line(cell) for cell in row] for row in rows]
    beside = sum(max(map(sanitize.columns, column)) + 2 for column in list(zip(head, *cells, strict=True))[:-1])
    room = max(9, terminal_width() - beside) if terminal_width() else 0
    wrapped: list[list[str]] = []
    for *before, last in cells:
        first, *more = textwrap.wrap(last, room, break_on_hyphens=False) if room and last else [last]
        wrapped.append([*before, first])
        wrapped += [[*("" for _ in before), line] for line in more]
    return render_table(head, wrapped)


def _render_block(headers: Sequence[str], row: Sequence[str]) -> str:
    """A row of a table that is too wide: its first cell, then the others with their headers."""
    if tuple(headers[:2]) == _CONVERSATION:
        headers, row = headers[1:], [f"{row[0]} as {row[1]}", *row[2:]]
    details = " · ".join(f"{header.lower()} {cell}" for header, cell in zip(headers[1:], row[1:], strict=True) if cell)
    return "\n".join([paint(row[0], bold=True), flow.wrap_text(f"  {details}", row_width(sys.stdout), indent="    ")])


def _align(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + " " * (width - sanitize.columns(cell)) for cell, width in zip(row, widths, strict=True)]
    return "  ".join(padded).rstrip()
