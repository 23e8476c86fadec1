"""Cleans text from providers: valid Unicode, no NUL. Pure."""

import re

from moot.domain.text import clean

REPLACEMENT = "\ufffd"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+")


def one_line(text: str, limit: int = 300) -> str:
    """Reduce foreign text to one short printable line for an error message."""
    line = _CONTROL.sub(" ", clean(text)).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


class TextScrubber:
    """Cleans a text that arrives in chunks; half a surrogate pair is held back for the other half."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        # The half that is held back.
        self.held = ""

    def __call__(self, text: str) -> str:
        if not self.held and text.isascii():
            return text if "\0" not in text else text.replace("\0", REPLACEMENT)
        text, self.held = self.held + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self.held = text[:-1], text[-1]
        return clean(text)

    def rest(self) -> str:
        """Return what is left at the end of the text: a half without its other half."""
        held, self.held = self.held, ""
        return REPLACEMENT if held else ""
