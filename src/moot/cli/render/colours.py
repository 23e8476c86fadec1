"""Who is speaking, and in which colour: the same name has the same colour everywhere. Pure."""

from zlib import crc32

USER = "you"
_COLOURS = ("cyan", "magenta", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_yellow", "bright_blue")
_USER_COLOUR = "green"


def colour(name: str, primary: str = "") -> str:
    """A colour for a name, by click's name for it; green is the person's own.

    A guest whose colour would be the primary's takes the next one, so that the two can be told apart.
    """
    if name == USER:
        return _USER_COLOUR
    index = _index(name)
    if primary and name != primary and index == _index(primary):
        index += 1
    return _COLOURS[index % len(_COLOURS)]


def _index(name: str) -> int:
    return crc32(name.encode(errors="replace")) % len(_COLOURS)


def cost(amount: float) -> str:
    """US dollars with as many places as it takes to see something."""
    if amount <= 0:
        return "$0"
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.4f}"


def count(number: int) -> str:
    """A number as people say it: 950, 1.2k, 3.4M."""
    if number < 1_000:
        return str(number)
    return f"{number / 1_000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def span(seconds: int) -> str:
    """A length of time as people say it: 90 s, 20 min, 3 h."""
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3_600} h"
