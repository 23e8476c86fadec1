"""Assigns a colour to each name, the same one everywhere. Pure."""

from zlib import crc32

USER = "you"
_COLOURS = ("cyan", "magenta", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_yellow", "bright_blue")
_USER_COLOUR = "green"


def name_colour(name: str, primary: str = "") -> str:
    """A click colour for a name; green is reserved for the user.

    A guest whose colour would equal the primary's gets the next one.
    """
    if name == USER:
        return _USER_COLOUR
    index = _colour_index(name)
    if primary and name != primary and index == _colour_index(primary):
        index += 1
    return _COLOURS[index % len(_COLOURS)]


def _colour_index(name: str) -> int:
    return crc32(name.encode(errors="replace")) % len(_COLOURS)
