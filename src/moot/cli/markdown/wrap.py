"""Wraps styled lines at word boundaries for the width of the terminal. Pure."""

from moot.cli.markdown.styles import CODE, HANG, INDENT, PROSE, Line, count_columns
from moot.cli.program import JOINT, join_commands
from moot.cli.render import sanitize


def find_break(text: str, width: int) -> int:
    """The end of the first row, or 0 if the text fits or cannot be broken yet."""
    if len(text) * 2 <= width or sanitize.columns(text) <= width:
        return 0
    used, place = 0, 0
    begun = False
    for index, character in enumerate(text):
        if character == " " and begun:
            if used > width:
                # A word longer than a row is left to the terminal to break.
                return place or index + 1
            place = index + 1
        begun = begun or character != " "
        used += sanitize.columns(character)
        if used > width and place:
            return place
    return 0


def wrap_line(line: Line, width: int) -> list[Line]:
    """Wrap one line into rows. Code is not wrapped, unless it has a hanging prefix, below which everything goes on."""
    if not line or count_columns(line) <= width:
        return [line]
    if len(line) > 1 and HANG in line[0][0]:
        return _break_hanging(line[:1], line[1:], width)
    *head, (style, text) = line
    if style.startswith(CODE):
        return [line]
    first = line[0][1]
    # Messages go on below their text; Moot's own notices are indented by two more.
    below = sanitize.columns(INDENT[0][1]) if head else 0
    indent = below if style == PROSE else len(first) - len(first.lstrip(" ")) + 2
    if style == PROSE:
        return _break_text(head, style, text, width, indent)
    rows = _break_text(head, style, join_commands(text.replace(JOINT, " ")), width, indent)
    return [[(part_style, part.replace(JOINT, " ")) for part_style, part in row] for row in rows]


def _break_hanging(head: Line, rest: Line, width: int) -> list[Line]:
    """Wrap what follows a prefix, in whatever styles, below itself."""
    indent = sum(sanitize.columns(part) for _, part in head)
    wrapped: list[Line] = []
    while at := find_break("".join(part for _, part in rest), width - indent):
        row, rest = _split_at(rest, at)
        wrapped.append([*head, *row])
        head = [("", " " * indent)]
    return [*wrapped, [*head, *rest]]


def _split_at(line: Line, at: int) -> tuple[Line, Line]:
    """Split fragments at a position of their text, which ends a row: the spaces before it are not shown."""
    row: Line = []
    rest: Line = []
    for style, part in line:
        row += [(style, part[:at])] if at > 0 else []
        rest += [(style, part[max(0, at) :])] if len(part) > at else []
        at -= len(part)
    return [*row[:-1], (row[-1][0], row[-1][1].rstrip(" "))], rest


def _break_text(head: Line, style: str, text: str, width: int, indent: int) -> list[Line]:
    room = width - sum(sanitize.columns(part) for _, part in head)
    wrapped: list[Line] = []
    while at := find_break(text, room):
        wrapped.append([*head, (style, text[:at].rstrip(" "))])
        head, text, room = [("", " " * indent)] if indent else [], text[at:], width - indent
    return [*wrapped, [*head, (style, text)]]
