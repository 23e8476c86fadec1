"""Replaces personal data by placeholders and restores it. No I/O.

A placeholder is derived from its value and a key of this daemon. So the same value has the same placeholder in every
request, also after a restart, nothing has to be stored, and neither values nor placeholders can be guessed.
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
    """Makes and restores placeholders. `key` is called when the first one is made."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._find_key = key
        self._key = b""

    def hide(self, text: str, known: dict[str, str]) -> str:
        """Replace personal data by placeholders, and add their values to `known`.

        Text that already looks like a placeholder is broken up, so that no text can request data by writing one.
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
            # Another value of this prompt already has this placeholder.
            turn += 1


def restore(text: str, known: dict[str, str]) -> str:
    """Replace placeholders by their values. An unknown placeholder stays as it is."""
    if not known or "[" not in text:
        return text
    return PLACEHOLDER.sub(lambda match: known.get(match[0], match[0]), text)


class PlaceholderRestorer:
    """Restores text that arrives in chunks. Only a possible beginning of a placeholder is held back."""

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
