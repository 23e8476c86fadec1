"""Writes the text of an answer to stdout while it arrives: Markdown in a terminal, unchanged elsewhere.

Used by `follow_run`; renders with the Markdown of the chat.
"""

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Protocol

from moot.cli import output
from moot.cli.chat_settings import read_chat_settings
from moot.cli.markdown.styles import STYLE_RULES, Line, count_columns
from moot.cli.markdown.text_format import MessageText, TextFormat, has_links
from moot.cli.render import terminal

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples


class AnswerText(Protocol):
    """Text on stdout. What is written must be sanitized already."""

    def write(self, text: str) -> None: ...
    def end(self) -> None:
        """End what is incomplete, so that other output begins in a row of its own."""
        ...


def open_answer_text() -> AnswerText:
    if output.wants_json() or not terminal.has_colours(sys.stdout) or not read_chat_settings().markdown:
        return _UnchangedText()
    return _MarkdownText()


class _UnchangedText:
    def __init__(self) -> None:
        self._at_line_start = True

    def write(self, text: str) -> None:
        if text:
            output.write(text)
            self._at_line_start = text.endswith("\n")

    def end(self) -> None:
        if not self._at_line_start:
            output.write("\n")
            self._at_line_start = True


class _MarkdownText:
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
        size = os.get_terminal_size(sys.stdout.fileno())
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
