"""Text of a message as it was written, line by line while it is streamed. Used by text_format.py. No I/O."""

from collections.abc import Callable

from moot.cli.markdown.styles import CODE, INDENT, PROSE, Line, count_columns
from moot.cli.markdown.wrap import find_break

# A line without a break stays in the live area until it ends or exceeds this length.
_LIVE_COLUMNS = 1200
_FENCE = "```"


class PlainText:
    """One message. `feed` returns finished lines; the first one has `lead` columns less."""

    def __init__(self, width: Callable[[], int], lead: int) -> None:
        self._width = width
        self._lead = lead
        self._text = ""
        self._is_code = False
        self._is_begun = False

    def feed(self, text: str) -> list[Line]:
        """Add sanitized text; return the lines that are complete."""
        self._text += text
        *whole, self._text = self._text.split("\n")
        finished = [self._finish_line(line) for line in whole if line or self._is_begun]
        return finished + self._take_full_rows()

    def finish(self) -> list[Line]:
        """Return the rest when the message has ended."""
        text, self._text = self._text, ""
        return [self._finish_line(text)] if text.strip() else []

    def tail(self) -> list[Line]:
        """The incomplete line."""
        return [[(self._style_of(self._text), self._text.expandtabs(4))]] if self._text else []

    def _finish_line(self, line: str) -> Line:
        self._is_begun = True
        if line.lstrip().startswith(_FENCE):
            self._is_code = not self._is_code
            return [(CODE, line)]
        return [(self._style_of(line), line)] if line else []

    def _style_of(self, line: str) -> str:
        return CODE if self._is_code or line.startswith(("    ", "\t", _FENCE)) else PROSE

    def _take_full_rows(self) -> list[Line]:
        """Complete rows of the incomplete line, which can be printed already."""
        finished: list[Line] = []
        while self._style_of(self._text) == PROSE:
            at = find_break(self._text, self._width() - (count_columns(INDENT) if self._is_begun else self._lead))
            if not at:
                break
            finished.append([(PROSE, self._text[:at].rstrip(" "))])
            self._is_begun = True
            self._text = self._text[at:]
        if len(self._text) > _LIVE_COLUMNS:
            finished.append([(CODE, self._text)])
            self._is_begun = True
            self._text = ""
        return finished
