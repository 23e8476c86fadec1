"""Writes the text of an answer to a terminal as Markdown, with the Markdown of the chat. Used by `answer_text`."""

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from moot.cli import output
from moot.cli.markdown.styles import STYLE_RULES, Line, count_columns
from moot.cli.markdown.text_format import MessageText, TextFormat, has_links
from moot.cli.render import terminal

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples


class MarkdownAnswer:
    """Prints finished rows; below them the incomplete ones, which are erased and printed again with more text."""

    def __init__(self) -> None:
        self._format = TextFormat(partial(terminal.row_width, sys.stdout), markdown=True, links=has_links())
        self._message: MessageText | None = None
        self._tail_rows = 0

    def write(self, text: str) -> None:
        if not text:
            return
        if self._message is None:
            self._message = self._format.open_message(0)
        self._print(self._message.feed(text), self._message.tail())

    def end(self) -> None:
        if self._message is not None:
            message, self._message = self._message, None
            self._print(message.finish(), [])

    def _print(self, finished: list[Line], tail: list[Line]) -> None:
        size = terminal.measure_window(sys.stdout)
        heights = [max(1, -(-count_columns(row) // size.columns)) for row in tail]
        # Only what is still in the window can be erased.
        while sum(heights) >= size.lines:
            del tail[0], heights[0]
        if self._tail_rows:
            up = f"\x1b[{self._tail_rows - 1}A" if self._tail_rows > 1 else ""
            output.write(f"\r{up}\x1b[J")
        self._tail_rows = sum(heights)
        _print_rows(finished, tail)


def _print_rows(finished: list[Line], tail: list[Line]) -> None:
    from prompt_toolkit.output.vt100 import Vt100_Output  # noqa: PLC0415 - imported when the first text arrives
    from prompt_toolkit.renderer import print_formatted_text  # noqa: PLC0415
    from prompt_toolkit.styles import Style  # noqa: PLC0415

    fragments: StyleAndTextTuples = [fragment for row in finished for fragment in (*row, ("", "\n"))]
    for number, row in enumerate(tail):
        fragments += [("", "\n"), *row] if number else row
    stream = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
    print_formatted_text(stream, fragments, Style.from_dict(STYLE_RULES), color_depth=stream.get_default_color_depth())
