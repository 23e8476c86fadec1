"""Renders Markdown while it is streamed: each line once, when it is complete. Used by text_format.py. No I/O.

A line is enough for headings, list items, quotes and prose, as chat models write them. A table is kept until it ends,
and prose as long as a mark in it is open. Line ends in prose stay line ends.
"""

import re
from collections.abc import Callable, Sequence

from moot.cli.markdown.code_lines import CodeLines
from moot.cli.markdown.inline import Span, as_line, parse_inline, wrap_spans
from moot.cli.markdown.styles import CODE, DIM, INDENT, Line, count_columns
from moot.cli.markdown.tables import Table
from moot.cli.render import sanitize

_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[^\s`]*)[^`]*")
_HEADING = re.compile(r" {0,3}(?P<level>#{1,6}) +(?P<text>.*?)(?: +#+)? *")
_RULE = re.compile(r" {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})")
_ITEM = re.compile(r"(?P<indent> *)(?P<mark>[-*+]|\d{1,9}[.)]) +(?P<text>.*)")
_QUOTE = re.compile(r" {0,3}> ?(?P<text>.*)")
_TASK = re.compile(r"\[(?P<done>[ xX])\] +(?P<text>.*)")
_DELIMITER = re.compile(r" *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *")
# Longer prose is printed in parts; a table with more rows is laid out for these and printed on.
_PROSE_CHARACTERS = 1_000
_TABLE_ROWS = 100
# How many lines of prose are kept because a mark is open.
_OPEN_LINES = 5
_INDENT_COLUMNS = 12


class MarkdownText:
    """One message. `feed` returns finished rows; the first one has `lead` columns less, the others an indentation.

    A message without a speaker before it (`lead` 0) is not indented.
    """

    def __init__(self, width: Callable[[], int], lead: int, *, links: bool) -> None:
        self._window = width
        self._lead = lead
        self._indent = count_columns(INDENT) if lead else 0
        self._links = links
        # The incomplete line, and complete lines that depend on the next ones.
        self._text = ""
        self._prose: list[str] = []
        self._table: list[str] = []
        self._layout: Table | None = None
        self._fence = ""
        self._fence_indent = 0
        self._code = CodeLines("")
        self._is_begun = False
        self._is_list = False

    def feed(self, text: str) -> list[Line]:
        """Add sanitized text; return the rows that are complete."""
        *whole, rest = (self._text + text).split("\n")
        self._text = rest
        rows = [row for line in whole for row in self._end_line(line.expandtabs(4))]
        if len(self._text) > _PROSE_CHARACTERS and not self._fence and not self._table:
            rows += self._take_prose()
        return rows

    def finish(self) -> list[Line]:
        """Return the rest when the message has ended."""
        text, self._text = self._text, ""
        rows = self._end_line(text.expandtabs(4)) if text.strip() else []
        return rows + self._end_block()

    def tail(self) -> list[Line]:
        """The rows of what is incomplete, as far as it is known."""
        text = self._text.expandtabs(4)
        if self._fence:
            return [self._code.peek(text[self._fence_indent :])] if text else []
        if len(self._table) > 1:
            whole = [*self._table, text] if "|" in text else self._table
            return self._layout_table(whole, links=False).render() if self._layout is None else [[(CODE, text)]]
        shown = "\n".join([*self._table, *self._prose, *([text] if text else [])])
        return self._render_block(_close_marks(shown), links=False) if shown.strip() else []

    # ---- lines ----

    @property
    def _width(self) -> int:
        return max(10, self._window() - self._indent)

    def _begin(self, rows: list[Line], *, beside_name: bool) -> list[Line]:
        """Put the first row beside the name of the speaker, or below it."""
        if self._is_begun or not rows:
            return rows
        self._is_begun = True
        return rows if beside_name or not self._lead else [[], *rows]

    def _end_line(self, line: str) -> list[Line]:
        if self._fence:
            return self._end_code_line(line)
        if self._table:
            return self._end_table_line(line)
        if opened := _FENCE.fullmatch(line):
            rows = self._end_block()
            self._fence, self._fence_indent = opened["fence"], len(opened["indent"])
            self._code = CodeLines(opened["language"])
            return rows + self._begin([[(f"{CODE} {DIM}", line)]], beside_name=False)
        if "|" in line:
            rows = self._end_block()
            self._table = [line]
            return rows
        return self._end_prose_line(line)

    def _end_code_line(self, line: str) -> list[Line]:
        closed = _FENCE.fullmatch(line)
        if closed and closed["fence"].startswith(self._fence) and not closed["language"]:
            self._fence = ""
            return [[(f"{CODE} {DIM}", line)]]
        indent = min(self._fence_indent, len(line) - len(line.lstrip(" ")))
        return [[(CODE, line[:indent]), *self._code.add(line[indent:])] if line else []]

    def _end_prose_line(self, line: str) -> list[Line]:
        is_text = _is_text(line)
        rows = [] if is_text else self._end_block()
        if not line.strip():
            return [*rows, []] if self._is_begun or rows else []
        self._prose.append(line)
        if is_text and _has_open_mark("\n".join(self._prose)) and len(self._prose) < _OPEN_LINES:
            return rows
        return rows + self._end_block()

    def _end_block(self) -> list[Line]:
        """Render what was kept."""
        table, self._table, layout, self._layout = self._table, [], self._layout, None
        prose, self._prose = self._prose, []
        if layout is not None:
            return []
        if len(table) > 1:
            return self._begin(self._layout_table(table, links=self._links).render(), beside_name=False)
        block = "\n".join([*table, *prose])
        if not block:
            return []
        rows = self._render_block(block, links=self._links)
        self._is_begun = True
        self._is_list = _ITEM.match(block) is not None or (self._is_list and block.startswith("  "))
        return rows

    def _take_prose(self) -> list[Line]:
        """Print the beginning of a long line, up to the end of a sentence or at least of a word."""
        at = max(self._text.rfind(". ") + 1, 0)
        at = at if at > _PROSE_CHARACTERS // 2 else self._text.rfind(" ") + 1
        begin = self._text[:at]
        if not at or (_has_open_mark(begin) and len(self._text) < 4 * _PROSE_CHARACTERS):
            return []
        self._text = self._text[at:].lstrip(" ")
        return self._end_prose_line(begin) + self._end_block()

    # ---- tables ----

    def _end_table_line(self, line: str) -> list[Line]:
        if len(self._table) == 1 and not ("-" in line and _DELIMITER.fullmatch(line)):
            return self._end_block() + self._end_line(line)
        if "|" not in line:
            return self._end_block() + self._end_line(line)
        if self._layout is not None:
            return self._layout.render_more(self._table[1], [line])
        self._table.append(line)
        if len(self._table) < _TABLE_ROWS:
            return []
        self._layout = self._layout_table(self._table, links=self._links)
        return self._begin(self._layout.render(), beside_name=False)

    def _layout_table(self, lines: Sequence[str], *, links: bool) -> Table:
        return Table("\n".join(line.strip() for line in lines), self._width, links=links)

    # ---- blocks ----

    def _render_block(self, block: str, *, links: bool) -> list[Line]:
        """The rows of a heading, list item, quote, rule or of lines of prose."""
        lead = 0 if self._is_begun else self._lead - self._indent
        marked = None if _is_text(block.partition("\n")[0]) else self._render_marked(block, links=links)
        if marked is not None:
            return marked if self._is_begun or not self._lead else [[], *marked]
        if self._is_list and block.startswith("  "):
            return self._hang(_take_indent(block), block.strip(), links=links)
        if block.startswith("    "):
            return [[(CODE, line)] for line in block.split("\n")]
        rows = wrap_spans(parse_inline(block.strip(), links=links), self._width, lead)
        return [as_line(row) for row in rows]

    def _render_marked(self, block: str, *, links: bool) -> list[Line] | None:
        if heading := _HEADING.fullmatch(block):
            style = "bold underline" if heading["level"] == "#" else "bold"
            spans = [_restyle(span, style) for span in parse_inline(heading["text"], links=links)]
            return [as_line(row) for row in wrap_spans(spans, self._width, 0)]
        if _RULE.fullmatch(block):
            return [[(DIM, "─" * min(40, self._width))]]
        if quote := _QUOTE.fullmatch(block):
            return self._hang([Span(DIM, "│ ")], quote["text"], links=links, mark_all=True)
        item = _ITEM.fullmatch(block)
        return self._render_item(item, links=links) if item else None

    def _render_item(self, item: re.Match[str], *, links: bool) -> list[Line]:
        mark, text = item["mark"], item["text"]
        mark = mark if mark[0].isdigit() else "•"
        if task := _TASK.fullmatch(text):
            mark, text = ("☐" if task["done"] == " " else "☑"), task["text"]
        return self._hang([*_take_indent(item["indent"]), Span(DIM, f"{mark} ")], text, links=links)

    def _hang(self, head: list[Span], text: str, *, links: bool, mark_all: bool = False) -> list[Line]:
        """Text after a prefix; its other rows are indented to the prefix, or have it too."""
        used = sum(sanitize.columns(span.text) for span in head)
        rows = wrap_spans(parse_inline(text, links=links), max(10, self._width - used), 0)
        below = head if mark_all else [Span("", " " * used)]
        return [as_line([*(below if number else head), *row]) for number, row in enumerate(rows)]


def _is_text(line: str) -> bool:
    """Whether a line is prose, and goes on with the line before it."""
    return bool(line.strip()) and not any(each.fullmatch(line) for each in (_HEADING, _RULE, _QUOTE, _ITEM))


def _take_indent(text: str) -> list[Span]:
    indent = min(_INDENT_COLUMNS, len(text) - len(text.lstrip(" ")))
    return [Span("", " " * indent)] if indent else []


def _restyle(span: Span, style: str) -> Span:
    return span._replace(style=f"{style} {span.style}".strip())


def _has_open_mark(text: str) -> bool:
    return text.count("`") % 2 == 1 or text.count("**") % 2 == 1


def _close_marks(text: str) -> str:
    """Close the marks of incomplete text, so that it is shown in the style it will have."""
    text = text.rstrip("*_`") if not text.rstrip("*_`").endswith("\n") else text
    if text.count("`") % 2 == 1:
        return text + "`"
    return text + "**" if text.count("**") % 2 == 1 else text
