"""Wraps text at word boundaries, also while it is being streamed. Pure."""

import re

from moot.cli.program import JOINT, join_commands
from moot.cli.render import sanitize

_PIECES = re.compile(r"\n|[^\S\n]+|\S+")


def wrap_text(text: str, width: int, *, indent: str = "") -> str:
    """Wrap a text at `width` columns, not inside a command of Moot; continuation rows start with `indent`."""
    if not width:
        return "\n".join(_wrap_line(line, width, indent) for line in text.split("\n"))
    lines = join_commands(text.replace(JOINT, " ")).split("\n")
    return "\n".join(_wrap_line(line, width, indent) for line in lines).replace(JOINT, " ")


def _wrap_line(line: str, width: int, indent: str) -> str:
    flow = Flow(width, indent=indent)
    return flow.feed(line) + flow.end()


class Flow:
    """Wraps streamed text: returns what can be printed and holds back incomplete words.

    `used` columns of the first row are already taken; the following rows start with `indent`. Width 0 disables
    wrapping.
    """

    def __init__(self, width: int, *, used: int = 0, indent: str = "") -> None:
        self._width = width
        self._indent = indent
        self._column = used
        self._word = ""
        self._space = ""

    def feed(self, text: str) -> str:
        printed: list[str] = []
        for piece in _PIECES.findall(text):
            if not piece.isspace():
                self._word += piece
                continue
            printed.append(self._flush())
            if piece == "\n":
                printed.append(f"\n{self._indent}")
                self._column, self._space = sanitize.columns(self._indent), ""
            else:
                self._space += piece
        return "".join(printed)

    def end(self) -> str:
        """The remaining text, without a line end."""
        return self._flush()

    def _flush(self) -> str:
        word, self._word = self._word, ""
        if not word:
            return ""
        space, self._space = self._space, ""
        wanted = sanitize.columns(space) + sanitize.columns(word)
        if self._width and self._column + wanted > self._width and self._column > sanitize.columns(self._indent):
            self._column = sanitize.columns(self._indent) + sanitize.columns(word)
            return f"\n{self._indent}{word}"
        self._column += wanted
        return space + word
