"""Replaces personal data by placeholders and restores it. No I/O.

A placeholder is made from its value and a key of this daemon alone. So the same value has the same placeholder in
every request, after a restart too, nothing has to be stored, and nobody can work a value out or guess a placeholder.
"""

import hmac
import re
from collections.abc import Callable

from moot.redaction.personal_data import KINDS, PLACEHOLDER, PersonalData, replace_personal

_DIGITS = 8
_LONGEST = max(map(len, KINDS)) + _DIGITS + 3
# The beginning of a placeholder at the end of a text.
_BEGUN = re.compile(r"\[[A-Z]{0,8}(?:_[0-9]{0,8})?\Z")


class Placeholders:
    """`key` is asked for when the first one is made."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._find_key = key
        self._key = b""

    def hide(self, text: str, known: dict[str, str]) -> str:
        """The text with personal data as placeholders; what each stands for is noted in `known`.

        What already looks like one is broken up: no text can ask for somebody's data by writing a placeholder.
        """
        if "[" in text:
            text = PLACEHOLDER.sub(lambda match: match[0].replace("_", " "), text)
        return replace_personal(text, lambda finding: self._make_placeholder(finding, known))

    def _make_placeholder(self, finding: PersonalData, known: dict[str, str]) -> str:
        self._key = self._key or self._find_key()
        turn = 0
        while True:
            digest = hmac.digest(self._key, f"{turn}\0{finding.kind}\0{finding.value}".encode(), "sha256")
            number = int.from_bytes(digest[:8]) % 10**_DIGITS
            placeholder = f"[{finding.kind}_{number:0{_DIGITS}}]"
            if known.setdefault(placeholder, finding.value) == finding.value:
                return placeholder
            # Another value of this prompt has it already.
            turn += 1


def restore(text: str, known: dict[str, str]) -> str:
    """The text with what the placeholders stand for. One that stands for nothing here stays as it is."""
    if not known or "[" not in text:
        return text
    return PLACEHOLDER.sub(lambda match: known.get(match[0], match[0]), text)


class PlaceholderRestorer:
    """Restores text that comes in pieces. Only what may be the beginning of a placeholder waits for more."""

    __slots__ = ("_held", "_known")

    def __init__(self, known: dict[str, str]) -> None:
        self._known = known
        self._held = ""

    def feed(self, text: str) -> str:
        text, self._held = self._held + text, ""
        begun = _BEGUN.search(text, max(0, len(text) - _LONGEST))
        if begun:
            text, self._held = text[: begun.start()], text[begun.start() :]
        return restore(text, self._known)

    def rest(self) -> str:
        held, self._held = self._held, ""
        return held
