"""Renders a Markdown table as aligned columns that fit the window. Used by markdown_text.py. Pure."""

from collections.abc import Sequence

from moot.cli.markdown.inline import Span, as_line, parser, read_tokens, wrap_spans
from moot.cli.markdown.styles import DIM, Line
from moot.cli.render import sanitize

_BETWEEN = "  "
_LEAST_COLUMNS = 4

Cell = list[Span]


class Table:
    """The columns of a table, laid out for its first rows; later rows are fitted into them."""

    def __init__(self, text: str, width: int, *, links: bool) -> None:
        self._links = links
        self._head, *self._rows = self._read(text)
        self._widths = _fit_columns([self._head, *self._rows], width)

    def render(self) -> list[Line]:
        head = [[span._replace(style=f"bold {span.style}".strip()) for span in cell] for cell in self._head]
        rule: Line = [(DIM, _BETWEEN.join("─" * width for width in self._widths))]
        return [*self._render_row(head), rule, *(line for row in self._rows for line in self._render_row(row))]

    def render_more(self, delimiter: str, lines: Sequence[str]) -> list[Line]:
        """Render rows that came after the first ones."""
        # A table needs a first row; it is not shown again.
        _, *rows = self._read("\n".join([delimiter.replace("-", "x"), delimiter, *lines]))
        return [line for row in rows for line in self._render_row(row)]

    def _read(self, text: str) -> list[list[Cell]]:
        rows: list[list[Cell]] = []
        for token in parser().parse(text):
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline" and rows:
                spans = read_tokens(token.children or [], links=self._links)
                rows[-1].append([span._replace(text=" ") if span.text == "\n" else span for span in spans])
        return rows or [[]]

    def _render_row(self, row: Sequence[Cell]) -> list[Line]:
        """One row of the table; a cell that is too long takes several lines."""
        cells = [
            wrap_spans(_break_words(cell, width), width, 0) for cell, width in zip(row, self._widths, strict=False)
        ]
        lines: list[Line] = []
        for number in range(max(map(len, cells), default=0)):
            line: list[Span] = []
            for cell, width in zip(cells, self._widths, strict=False):
                spans = cell[number] if number < len(cell) else []
                used = sum(sanitize.columns(span.text) for span in spans)
                line += [*spans, Span("", " " * max(0, width - used) + _BETWEEN)]
            while line and not line[-1].text.strip():
                line.pop()
            lines.append(as_line(line))
        return lines


def _break_words(cell: Cell, width: int) -> Cell:
    """Break words that are wider than their column: the next column must stay where it is."""
    broken: Cell = []
    for span in cell:
        for word in span.text.split(" "):
            rest = word
            while sanitize.columns(rest) > width:
                kept = sanitize.fit(rest, width + 1)[:-1] or rest[0]
                broken += [span._replace(text=kept), Span("", " ")]
                rest = rest[len(kept) :]
            broken += [span._replace(text=rest), span._replace(text=" ")]
        broken.pop()
    return broken


def _fit_columns(rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """The widths of the columns: as wide as their text, the widest made narrower until the table fits."""
    widths = [1] * max(map(len, rows))
    for row in rows:
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], sum(sanitize.columns(span.text) for span in cell))
    room = width - len(_BETWEEN) * (len(widths) - 1)
    least = max(_LEAST_COLUMNS, room // len(widths))
    while sum(widths) > room and max(widths) > least:
        widest = max(widths)
        others = sum(each for each in widths if each < widest)
        second = max([each for each in widths if each < widest], default=least)
        count = widths.count(widest)
        narrower = max(least, second, (room - others) // count)
        widths = [min(narrower, widest - 1) if each == widest else each for each in widths]
    return widths
