"""Prints the text of one run: text and messages to stdout, everything else beside it. Used by follow_run."""

import sys
from collections.abc import Sequence

from moot.cli import output
from moot.cli.follow.answer_text import open_answer_text
from moot.cli.render import sanitize, terminal
from moot.cli.render.spinner import Spinner
from moot.cli.render.user_messages import render_attachments
from moot.wire import moot_pb2 as pb


class AnswerPrinter:
    """`streaming`: text is printed as it arrives. `shows_private`: so is the text that an assistant does not send."""

    def __init__(self, *, streaming: bool, shows_private: bool) -> None:
        self._streaming = streaming
        self._shows_private = shows_private
        self._text = open_answer_text()
        self._has_message = False
        # The unfinished line of text that is not sent.
        self._private = ""

    def show(self, event: pb.StreamEvent, bar: Spinner) -> bool:
        """Show an event that has text; False if it has none."""
        match event.WhichOneof("event"):
            case "chunk":
                self.show_text(event.chunk.content, bar)
            case "user_message":
                self.show_message(event.user_message, bar)
            case "private_text":
                self.show_private(event.private_text.content, bar)
            case _:
                return False
        return True

    def show_text(self, content: str, bar: Spinner) -> None:
        if self._streaming and content:
            bar.hide()
            self.write(content)
        elif not self._streaming:
            bar.update("Writing")

    def show_message(self, message: pb.UserMessageInfo, bar: Spinner) -> None:
        """Show a message of an assistant, with a blank line between two of them."""
        bar.hide()
        self.end_line()
        if self._streaming:
            output.write("\n" if self._has_message else "")
            self.write(message.content)
            self.end_line()
        self._has_message = True
        for line in render_attachments(message):
            self.print_aside(bar, line)
        bar.update("Working")

    def show_private(self, content: str, bar: Spinner) -> None:
        """Show text that was not sent, line by line."""
        bar.update("Working")
        if self._shows_private:
            *rows, self._private = (self._private + content).split("\n")
            self._print_private(rows, bar)

    def end_private(self, bar: Spinner) -> None:
        rest, self._private = self._private, ""
        self._print_private([rest] if rest else [], bar)

    def _print_private(self, rows: Sequence[str], bar: Spinner) -> None:
        for row in rows:
            bar.hide()
            self.end_line()
            self.print_aside(bar, f"· {sanitize.line(row)}".rstrip())

    def print_aside(self, bar: Spinner, line: str) -> None:
        bar.say(terminal.paint(line, sys.stderr, **({"fg": "red"} if line.startswith("  ✗") else {"dim": True})))

    def write(self, content: str) -> None:
        self._text.write(sanitize.clean(content))

    def end_line(self) -> None:
        self._text.end()
