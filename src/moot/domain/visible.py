"""Shows text exactly: every character that cannot be seen, or that looks like another one, becomes a code. Pure.

Used for calls, rules and questions (approval.py), by the gate for tool lines, and by the command line for names. The
notation is reversible: its own marks are written as codes where they occur in a text, so that no text can imitate it.
"""

import re
import unicodedata
from functools import lru_cache

from moot.domain.ids import shorten_ask_id

# How a line break, a space and a tab are shown where they could not be seen.
_BREAK, _SPACE, _TAB = "⏎", "␣", "⇥"
_MARKS = frozenset((_BREAK, _SPACE, _TAB, "⟨", "⟩"))
# What a tool says of a change whose preview would be too long, or is not text.
NOT_SHOWN = "the arguments contain all of it"
# Where a text is cut. It is narrower than three dots.
_ELLIPSIS = "…"
_HIDDEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs", "Me"))
# Characters that show nothing although they count as letters, marks or symbols.
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001d159"
)
# Characters that look like ASCII ones without being a compatibility form of them.
_LIKE_ASCII = frozenset(
    "\u01c0\u01c3\u0251\u0261\u02d0\u02d7\u05c0\u05c3\u06d4\u0701\u0702\u2010\u2011\u2044\u2212\u2215\u2216"
    "\u2217\u2223\u2236\u223c\u2758\u29f5\u29f8\u29f9\ua4fa\ua4fd\ua789"
)
# Scripts with letters that look like Latin ones: inside a word with Latin letters they are not what they seem.
_LOOKALIKE_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "COPTIC", "CHEROKEE", "LISU", "DESERET", "OSAGE")

_PLAIN = re.compile(r"[!-~]+(?: [!-~]+)*")
_WORD = re.compile(r"\w+")
# Indentation of a row, in a diff after its sign. More of it could push the row out of sight.
_INDENT = re.compile(r"[-+]? {0,40}(?=[^ ])")


def show(text: str) -> str:
    """Return the text on one line. Two different texts are never shown alike."""
    return text if _PLAIN.fullmatch(text) else _show_line(text, escapes_marks=True)


def show_block(text: str) -> str:
    """Return the text row by row, as `show` does; only plain indentation stays as it is."""
    return "\n".join(_show_indented(row, escapes_marks=True) for row in text.split("\n"))


def guard(text: str) -> str:
    """Return a text that may have been shown already, on one line and with nothing left that cannot be seen.

    Unlike `show` it leaves the marks of the notation as they are, so that a shown text does not change.
    """
    return text if _PLAIN.fullmatch(text) else _show_line(text, escapes_marks=False)


def guard_block(text: str) -> str:
    """Return a text that may have been shown already, row by row and with nothing left that cannot be seen."""
    return "\n".join(_show_indented(row, escapes_marks=False) for row in text.split("\n"))


def show_start(text: str, most: int) -> str:
    """Return the beginning of the text on one line, and how many characters are left out."""
    more = len(text) - most
    return show(text) if more <= 0 else f"{show(text[:most])} … {more} more characters"


def one_row(text: str) -> str:
    """Return a name for a row of a block: its line breaks become separators, which `show_block` writes as codes."""
    return text.replace("\n", "\u2028")


def _show_line(text: str, *, escapes_marks: bool) -> str:
    rows = [_show_row(row, escapes_marks=escapes_marks) for row in text.split("\n")]
    # No row begins or ends with a space of its own, so those around the marks are not ambiguous.
    return f" {_BREAK} ".join(rows).replace("  ", " ").strip(" ")


def _show_indented(row: str, *, escapes_marks: bool) -> str:
    if row == " " or _PLAIN.fullmatch(row):
        return row
    indent = _INDENT.match(row)
    start = indent.end() if indent is not None else 0
    return row[:start] + _show_row(row[start:], escapes_marks=escapes_marks)


def _show_row(row: str, *, escapes_marks: bool) -> str:
    if not row or _PLAIN.fullmatch(row):
        return row
    misleading = set() if row.isascii() else _find_lookalikes(row) | _find_decomposed(row)
    shown: list[str] = []
    for place, character in enumerate(row):
        before, after = row[place - 1 : place] if place else "", row[place + 1 : place + 2]
        if character == " ":
            is_single = before not in ("", " ") and after not in ("", " ")
            shown.append(" " if is_single else _SPACE)
        elif "!" <= character <= "~":
            shown.append(character)
        elif character == "\t":
            shown.append(_TAB)
        elif character in _MARKS:
            shown.append(_code(character) if escapes_marks else character)
        elif place in misleading or is_hidden(character) or _is_alone(character, before, after, shown):
            shown.append(_code(character))
        else:
            shown.append(character)
    return "".join(shown)


def _find_lookalikes(row: str) -> set[int]:
    """Return the places of letters that look like Latin ones, in words that have ASCII letters."""
    places: set[int] = set()
    for word in _WORD.finditer(row):
        if not word[0].isascii() and any(each.isascii() and each.isalpha() for each in word[0]):
            places.update(word.start() + at for at, each in enumerate(word[0]) if _is_of_lookalike_script(each))
    return places


def _find_decomposed(row: str) -> set[int]:
    """Return the places of characters that join with the one before, or have another code point, and of all marks then.

    Of several ways to write a text only the composed one is shown as it is.
    """
    if unicodedata.is_normalized("NFC", row):
        return set()
    return {
        place
        for place, character in enumerate(row)
        if _is_mark(character) or not unicodedata.is_normalized("NFC", row[max(place - 1, 0) : place + 1])
    }


def _is_alone(character: str, before: str, after: str, shown: list[str]) -> bool:
    """Whether a wide character is among ASCII ones, or a mark does not stand on a letter that is shown as it is."""
    if _is_wide(character):
        # Among characters of its own kind it is ordinary punctuation.
        return (before or "x").isascii() and (after or "x").isascii()
    if not _is_mark(character):
        return False
    base = shown[-1][-1] if shown else ""
    return base.isascii() or not (base.isalpha() or _is_mark(base))


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Mc")


@lru_cache(maxsize=4096)
def is_hidden(character: str) -> bool:
    """Whether a character cannot be seen, or cannot be told from an ASCII character."""
    if unicodedata.category(character) in _HIDDEN or character in _BLANK or character in _LIKE_ASCII:
        return True
    if "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef":
        return True
    kind = unicodedata.decomposition(character).partition(">")[0]
    plain = unicodedata.normalize("NFKC", character)
    if not plain.isascii() or character == _ELLIPSIS:
        return False
    # Several letters in one character are taken for those letters if it is not drawn as a symbol of its own.
    return kind not in ("<super", "<sub", "<wide") if len(plain) == 1 else kind == "<compat"


@lru_cache(maxsize=4096)
def _is_wide(character: str) -> bool:
    return unicodedata.decomposition(character).startswith("<wide>")


@lru_cache(maxsize=4096)
def _is_of_lookalike_script(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_LOOKALIKE_SCRIPTS)


def _code(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def is_cut(text: str, ask_id: str) -> bool:
    """Whether the text of an ask was cut."""
    # Texts of version 0.1.0 have the whole id.
    return text.endswith(
        tuple(f" more characters: moot inbox show {each}" for each in (shorten_ask_id(ask_id), ask_id))
    )
