"""Makes untrusted text safe to print on a terminal. Everything the CLI prints passes through here. Pure."""

import re
import unicodedata

from moot.domain.visible import guard, guard_block, show

# Line feed and tab are layout; every other control character could move the cursor or start an escape sequence.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Embeddings, overrides and isolates can make a line read as something else than it says.
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_SEPARATOR = re.compile("[\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Replace control characters by visible symbols; works on any chunk of a stream."""
    text = text.replace("\r\n", "\n")
    text = _CONTROL.sub(_control_picture, text)
    text = _BIDI.sub(_code_point, text)
    text = _SEPARATOR.sub("\n", text)
    return _SURROGATE.sub("\ufffd", text)


def exact(text: str) -> str:
    """Text that the daemon has made visible, for a person to judge; nothing in it is hidden or obeyed."""
    return guard_block(text)


def exact_line(text: str, width: int = 0) -> str:
    """The same on one line, with a mark where a line ended."""
    shown = guard(text)
    return cut_with_count(shown, width) if width else shown


def name(text: str, width: int = 0) -> str:
    """A name or another text as it is, such as of an agent, a file or an argument, exactly and on one line."""
    shown = show(text)
    return fit(shown, width) if width else shown


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
