"""Styled lines of the chat, their style names and colours. Used by all that renders text of agents. Pure."""

from moot.cli.render import sanitize

Line = list[tuple[str, str]]

# What the names of styles look like.
STYLE_RULES = {
    "dim": "ansibrightblack",
    "notice": "ansiyellow",
    "error": "ansired",
    "prompt": "bold ansigreen",
    "question": "bold",
    "option": "",
    "added": "ansigreen",
    "removed": "ansired",
    "inline-code": "ansicyan",
    "toolbar": "reverse",
    "completion-menu": "bg:ansibrightblack fg:ansiwhite",
    "completion-menu.completion.current": "bg:ansicyan fg:ansiblack",
}

# Prose is wrapped; code is not.
PROSE, CODE = "", "class:code"
# Continuation rows are indented to the width of these prefixes.
HANG = "class:hang"
DIM = "class:dim"
# Text of this style is an escape sequence, which takes no columns.
ESCAPE = "[ZeroWidthEscape]"
# Before every line of a message but the first, so that none can pass for another message, a call or a notice.
INDENT: Line = [("", "    ")]


def count_columns(line: Line) -> int:
    """The number of columns that a line takes."""
    return sum(sanitize.columns(text) for style, text in line if style != ESCAPE)
