"""Makes untrusted text safe to print on a terminal. Everything the CLI prints passes through here. Pure."""

import re
import unicodedata

# Line feed and tab are layout; every other control character could move the cursor or start an escape sequence.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Embeddings, overrides and isolates can make a line read as something else than it says.
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SEPARATOR = re.compile("[\u2028\u2029]")
# What takes no room, and what takes room and shows nothing. In prose some of it has its place; where a person decides
# on what stands there, it has none.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Replace control characters by visible symbols; works on any chunk of a stream."""
    text = text.replace("\r\n", "\n")
    text = _CONTROL.sub(_control_picture, text)
    text = _BIDI.sub(_code_point, text)
    text = _SEPARATOR.sub("\n", text)
    return _SURROGATE.sub("\ufffd", text)


def exact(text: str) -> str:
    """Sanitize text for a decision: every invisible character is named."""
    return _UNSEEN.sub(_code_point, clean(text))


def exact_line(text: str, width: int = 0) -> str:
    """The same on one line, with a mark for each line end."""
    parts = exact(text).strip().split("\n")
    return line(" ⏎ ".join(parts), width)


def line(text: str, width: int = 0) -> str:
    """The text on one line, cut to `width` columns if given."""
    flat = " ".join(clean(text).split())
    return fit(flat, width) if width else flat


def fit(text: str, width: int) -> str:
    """Cut to `width` columns with an ellipsis, never through a wide character."""
    if columns(text) <= width:
        return text
    kept: list[str] = []
    used = 0
    for character in text:
        used += _character_columns(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept) + "…"


def cut_with_count(text: str, width: int) -> str:
    """Sanitized text on one line; if it exceeds `width` columns it is cut and says by how much."""
    if not width or columns(text) <= width:
        return text
    kept = fit(text, width)[:-1]
    while kept and columns(kept) + len(_render_missing(text, kept)) > width:
        kept = kept[:-1]
    return kept + _render_missing(text, kept)


def _render_missing(text: str, kept: str) -> str:
    return f" … {len(text) - len(kept)} more"


def cut_at_word(text: str, width: int) -> str:
    """The text on one line, cut at a word boundary if it exceeds `width` columns."""
    flat = line(text)
    if columns(flat) <= width:
        return flat
    kept = fit(flat, width)[:-1]
    begun = flat[len(kept)] != " " and " " in kept
    return (kept.rpartition(" ")[0] if begun else kept).rstrip() + " …"


def columns(text: str) -> int:
    """The number of terminal columns that the text takes."""
    return len(text) if text.isascii() else sum(map(_character_columns, text))


def _character_columns(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200b\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _control_picture(match: re.Match[str]) -> str:
    value = ord(match[0])
    if value < 0x20:
        return chr(0x2400 + value)
    return "\u2421" if value == 0x7F else _code_point(match)


def _code_point(match: re.Match[str]) -> str:
    return f"⟨U+{ord(match[0]):04X}⟩"
