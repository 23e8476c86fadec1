"""Text that other parts rely on: what only the daemon may write, and how everything else is kept from it. Pure."""

import re
import unicodedata
from functools import lru_cache

# Tags with a meaning to a speaker. Only the daemon writes them; wherever else they turn up they are defused.
RESERVED_TAGS = ("from", "peer-message", "task-notification", "archived-summary", "recalled", "moot", "moot-call")

# A compaction request carries this in its instructions, so that a scripted model can tell it from a turn.
COMPACTION_MARK = "moot:compaction"

_OPENERS = "<\uff1c\ufe64\u2039\u3008\u27e8\u2329\u276e\u02c2\u1438\u16b2"
# Hyphens come in too many shapes, some of them invisible: names are compared without any.
_BARE_NAMES = tuple(name.replace("-", "") for name in RESERVED_TAGS)
_BEGINNINGS = frozenset(name[:length] for name in _BARE_NAMES for length in range(1, len(name) + 1))
_INITIALS = frozenset(name[0] for name in _BARE_NAMES)
# Most brackets in ordinary text are settled by the next character: no name begins with it.
_SETTLED = "".join(c for c in map(chr, range(33, 127)) if c.casefold() not in _INITIALS and c not in "/-")
_OPENER = re.compile(f"[{_OPENERS}](?![{re.escape(_SETTLED)}])")
_BEFORE_NAMES = " /\u2044\u2215\u29f8"
# Characters that count as letters or symbols and look like nothing, or like a gap.
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\U0001d159\U00013441\U00013442")
_HYPHENS = dict.fromkeys(map(ord, "-\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d\u00ad"), "")
# Letters of other scripts that look like the letters of the reserved names.
_LOOKALIKES = str.maketrans(
    {
        "а": "a", "ɑ": "a", "α": "a", "с": "c", "ϲ": "c", "ԁ": "d", "е": "e", "ε": "e", "ҽ": "e", "ғ": "f", "ꜰ": "f",
        "ƒ": "f", "ɡ": "g", "ց": "g", "һ": "h", "і": "i", "ı": "i", "ι": "i", "κ": "k", "к": "k", "м": "m", "ᴍ": "m",
        "п": "n", "ո": "n", "о": "o", "ο": "o", "օ": "o", "р": "p", "ρ": "p", "г": "r", "ᴦ": "r", "ʀ": "r", "ѕ": "s",
        "т": "t", "τ": "t", "ᴛ": "t", "ν": "v", "ᴏ": "o", "υ": "u", "ս": "u",
    }
)  # fmt: skip
# A bare <From> may be code, a type in brackets; our own mark always says whose words it holds.
_OWN_TAG = re.compile(
    rf"<\s*(?:/\s*(?:{'|'.join(RESERVED_TAGS)})\s*|from\s+(?:agent|person)\b[^<>]{{0,256}}"
    rf"|(?:{'|'.join(RESERVED_TAGS[1:])})(?:\s[^<>]{{0,256}})?\s*/?)>",
    re.IGNORECASE,
)
_UNFINISHED_TAG = re.compile(r"<\s*/?\s*(?P<name>[A-Za-z-]{0,24})(?P<rest>\s[^<>]{0,256})?\Z")


def defuse(text: str) -> str:
    """Escape the opening bracket of anything that reads as a reserved tag; leave all other text alone."""
    if not _OPENER.search(text):
        return text
    pieces: list[str] = []
    start = 0
    for match in _OPENER.finditer(text):
        if _opens_reserved(text, match.end()):
            pieces.append(text[start : match.start()])
            pieces.append("&lt;")
            start = match.end()
    if not pieces:
        return text
    pieces.append(text[start:])
    return "".join(pieces)


def _opens_reserved(text: str, start: int) -> bool:
    """Whether what follows an opening bracket reads as a reserved name. Stops at the first letter that differs.

    What nobody sees is skipped, however much of it there is; no bracket is part of that, so nothing is read twice.
    """
    seen = ""
    for place in range(start, len(text)):
        character = text[place]
        if character in _FILLERS:
            if seen in _BARE_NAMES:
                return True
            continue
        for letter in _fold(character):
            if not seen and letter in _BEFORE_NAMES:
                continue
            if seen in _BARE_NAMES and not (letter.isalnum() or letter == "_"):
                return True
            seen += letter
            if seen not in _BEGINNINGS:
                return False
    # A bracket at the end would open whatever text is put behind it.
    return not seen or seen in _BARE_NAMES


@lru_cache(maxsize=1024)
def _fold(character: str) -> str:
    """Reduce a character to what a reader would take it for: no marks, hyphens, case or look-alikes."""
    if character.isspace():
        return " "
    plain = unicodedata.normalize("NFKD", character).translate(_HYPHENS)
    kept = "".join(c for c in plain if unicodedata.category(c) not in ("Cf", "Mn", "Me", "Cc", "Cn"))
    return kept.casefold().translate(_LOOKALIKES)


class TagStripper:
    """Takes reserved tags out of a stream of text, also when they are cut anywhere."""

    def __init__(self) -> None:
        self._held = ""
        self.stripped = False

    def feed(self, text: str) -> str:
        if not self._held and "<" not in text:
            return text
        return self._release(self._held + text)

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held

    def _release(self, text: str) -> str:
        cleaned = _OWN_TAG.sub("", text)
        if cleaned != text:
            self.stripped = True
        cut = cleaned.rfind("<")
        if cut >= 0 and _may_become_tag(cleaned[cut:]):
            self._held = cleaned[cut:]
            return cleaned[:cut]
        self._held = ""
        return cleaned


def _may_become_tag(text: str) -> bool:
    match = _UNFINISHED_TAG.match(text)
    if match is None:
        return False
    name = match["name"].lower()
    if match["rest"] is not None:
        return name in RESERVED_TAGS
    return any(reserved.startswith(name) for reserved in RESERVED_TAGS)


def clean(text: str) -> str:
    """Make text from a tool or a model fit to be stored and sent: no NUL, no half of a surrogate pair."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
