"""Renders a whole page of Markdown as text for a pager. Used by `moot help`."""

import io
import re
from typing import TYPE_CHECKING

from moot.cli.markdown.markdown_text import MarkdownText
from moot.cli.markdown.styles import ESCAPE, STYLE_RULES, Line

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples

_FENCE = re.compile(r" *(`{3,}|~{3,})")
# What begins a block of its own: a heading, an item, a quote, a row of a table.
_BLOCK = re.compile(r" *(#{1,6} |[-*+] |\d{1,9}[.)] |>|\||$)")
_HEADING = re.compile(r"#{1,6} ")


def render_page(text: str, width: int, *, colours: bool) -> str:
    """Return a page in rows of at most `width` columns, with escape sequences for colours if they are wanted."""
    message = MarkdownText(lambda: width, 0, links=False)
    rows = message.feed(join_paragraphs(text)) + message.finish()
    if colours:
        return _paint(rows)
    return "".join("".join(part for style, part in row if style != ESCAPE) + "\n" for row in rows)


def join_paragraphs(text: str) -> str:
    """Return Markdown with every paragraph and every item in one line: the page breaks lines for its source."""
    joined: list[str] = []
    is_code = can_continue = False
    for line in text.splitlines():
        if _FENCE.match(line):
            is_code, continues = not is_code, False
        else:
            continues = can_continue and not is_code and _BLOCK.match(line) is None
        if continues:
            joined[-1] += f" {line.strip()}"
            continue
        joined.append(line)
        is_text = bool(line.strip()) and not is_code and not _FENCE.match(line)
        # Four spaces begin code, where no item goes on.
        can_continue = is_text and not _HEADING.match(line) and not line.startswith(("|", "    "))
    return "\n".join(joined) + "\n"


def _paint(rows: list[Line]) -> str:
    from prompt_toolkit.data_structures import Size  # noqa: PLC0415 - only a terminal needs it
    from prompt_toolkit.output.vt100 import Vt100_Output  # noqa: PLC0415
    from prompt_toolkit.renderer import print_formatted_text  # noqa: PLC0415
    from prompt_toolkit.styles import Style  # noqa: PLC0415

    painted = io.StringIO()
    stream = Vt100_Output(painted, lambda: Size(rows=24, columns=80))
    fragments: StyleAndTextTuples = [fragment for row in rows for fragment in (*row, ("", "\n"))]
    print_formatted_text(stream, fragments, Style.from_dict(STYLE_RULES), color_depth=stream.get_default_color_depth())
    return painted.getvalue().replace("\r\n", "\n")
