"""Long lines broken between words, so that a terminal does not break them inside. Pure."""

from moot.cli import safe
from moot.cli.chat.lines import PROSE, Line


def cut(text: str, width: int) -> int:
    """Where the first row of the text ends, or 0 while it fits or has no place to break yet."""
    if len(text) * 2 <= width or safe.columns(text) <= width:
        return 0
    used, place = 0, 0
    begun = False
    for index, character in enumerate(text):
        if character == " " and begun:
            if used > width:
                # A word longer than the row stands alone; the terminal may break that one.
                return place or index + 1
            place = index + 1
        begun = begun or character != " "
        used += safe.columns(character)
        if used > width and place:
            return place
    return 0


def rows(line: Line, width: int) -> list[Line]:
    """One line as the rows it takes. Only prose is broken; code keeps its lines as they are."""
    if not line or line[-1][0] != PROSE:
        return [line]
    *head, (style, text) = line
    room = width - sum(safe.columns(part) for _, part in head)
    wrapped: list[Line] = []
    while at := cut(text, room):
        wrapped.append([*head, (style, text[:at].rstrip(" "))])
        head, text, room = [], text[at:], width
    return [*wrapped, [*head, (style, text)]]
