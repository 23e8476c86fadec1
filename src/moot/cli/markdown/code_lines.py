"""Highlights the lines of a code block one by one with Pygments. Used by markdown_text.py. No I/O.

Pygments reads a text from its start. To take time linear in the block, a line is read together with the lines before it
only as far back as a string or comment that is still open.
"""

from typing import TYPE_CHECKING

from moot.cli.markdown.styles import CODE, Line

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType

# An open string or comment is read again with each of its lines, up to this many.
_CONTEXT_LINES = 60
_LINE_CHARACTERS = 2_000
_COLOURS = {
    "Comment": "italic ansibrightblack",
    "Keyword": "ansimagenta",
    "Literal.String": "ansigreen",
    "Literal.Number": "ansicyan",
    "Name.Builtin": "ansicyan",
    "Name.Class": "bold ansiblue",
    "Name.Decorator": "ansiblue",
    "Name.Function": "ansiblue",
    "Name.Tag": "ansiblue",
    "Name.Attribute": "ansicyan",
    "Operator.Word": "ansimagenta",
    "Generic.Inserted": "ansigreen",
    "Generic.Deleted": "ansired",
    "Generic.Heading": "bold",
    "Generic.Subheading": "ansicyan",
}


class CodeLines:
    """The lines of one block. An unknown language is not highlighted."""

    def __init__(self, language: str) -> None:
        self._lexer = _find_lexer(language)
        self._context: list[str] = []

    def add(self, line: str) -> Line:
        """Highlight the next line."""
        return self._highlight(line, keep=True)

    def peek(self, line: str) -> Line:
        """Highlight an incomplete line."""
        return self._highlight(line, keep=False)

    def _highlight(self, line: str, *, keep: bool) -> Line:
        if self._lexer is None or len(line) > _LINE_CHARACTERS:
            return [(CODE, line)]
        skipped = sum(len(each) + 1 for each in self._context)
        found: Line = []
        is_open, at = False, 0
        for token, text in self._lexer.get_tokens("\n".join([*self._context, line, ""])):
            at += len(text)
            if at <= skipped:
                continue
            new = text[max(0, len(text) - (at - skipped)) :]
            is_open = new.endswith("\n") and _is_multiline(token)
            if shown := new.replace("\n", ""):
                found.append((f"{CODE} {_colour_of(token)}".rstrip(), shown))
        if "".join(text for _, text in found) != line:
            # The lexer has dropped or changed characters.
            found = [(CODE, line)]
        if keep:
            is_open = is_open and len(self._context) < _CONTEXT_LINES
            self._context = [*self._context, line] if is_open else []
        return found


def _find_lexer(language: str) -> "Lexer | None":
    if not language:
        return None
    from pygments.lexers import get_lexer_by_name  # noqa: PLC0415 - imported at the first code block
    from pygments.util import ClassNotFound  # noqa: PLC0415

    try:
        return get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False, startinline=True)
    except ClassNotFound:
        return None


def _is_multiline(token: "_TokenType") -> bool:
    name = str(token)
    return name.startswith(("Token.Literal.String", "Token.Comment"))


def _colour_of(token: "_TokenType") -> str:
    name = str(token).removeprefix("Token.")
    while name:
        if name in _COLOURS:
            return _COLOURS[name]
        name = name.rpartition(".")[0]
    return ""
