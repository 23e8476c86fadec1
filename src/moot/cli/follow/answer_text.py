"""Writes the text of an answer to stdout while it arrives: Markdown in a terminal, unchanged elsewhere.

Used by `follow_run`. What only a terminal needs is imported only there; it takes a fifth of the time of `moot ask`.
"""

import sys
from typing import Protocol

from moot.cli import output
from moot.cli.render import terminal


class AnswerText(Protocol):
    """Text on stdout. What is written must be sanitized already."""

    def write(self, text: str) -> None: ...
    def end(self) -> None:
        """End what is incomplete, so that other output begins in a row of its own."""
        ...


def open_answer_text() -> AnswerText:
    if output.wants_json() or not terminal.has_colours(sys.stdout):
        return _UnchangedText()
    from moot.cli.chat_settings import read_chat_settings  # noqa: PLC0415 - only a terminal needs it
    from moot.cli.follow.markdown_answer import MarkdownAnswer  # noqa: PLC0415

    return MarkdownAnswer() if read_chat_settings().markdown else _UnchangedText()


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
