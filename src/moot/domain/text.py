"""Text functions used everywhere: defuse and strip the tags only the daemon writes, and clean text. Pure."""

import re
import unicodedata
from enum import Enum
from functools import lru_cache

# Tags with a meaning to a speaker. Only the daemon writes them; wherever else they turn up they are defused.
# `from` is a word of many languages: it is ours only with the attribute that says whose words it holds.
FROM = "from"
RESERVED_TAGS = (FROM, "peer-message", "task-notification", "archived-summary", "moot", "moot-call")

# A compaction request carries this in its instructions, so that a scripted model can tell it from a turn.
COMPACTION_MARK = "moot:compaction"

_OPENERS = "<\uff1c\ufe64\u2039\u3008\u27e8\u2329\u276e\u02c2\u1438\u16b2"
_CLOSERS = frozenset(">\uff1e\ufe65\u203a\u3009\u27e9\u232a\u276f\u02c3\u1433\u16b3")
# Hyphens come in too many shapes, some of them invisible: names are compared without any.
_BARE_NAMES = tuple(name.replace("-", "") for name in RESERVED_TAGS)
_BEGINNINGS = frozenset(name[:length] for name in _BARE_NAMES for length in range(1, len(name) + 1))
_INITIALS = frozenset(name[0] for name in _BARE_NAMES)
# Most brackets in ordinary text are settled by the next character: no name begins with it.
_SETTLED = "".join(c for c in map(chr, range(33, 127)) if c.casefold() not in _INITIALS and c not in "/-")
_OPENER = re.compile(f"[{_OPENERS}](?![{re.escape(_SETTLED)}])")
_SLASHES = "/\u2044\u2215\u29f8"
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
# What stands in a `from` tag of ours: whose words it holds.
_WHOSE = re.compile(r"[\s/]+(?:(?:.*[\s/'\"])?agent\s*=|person[\s/]*\Z)")
# So much of a tag is read; what whitespace and invisible characters pad it with does not count.
_LONGEST_TAG = 256


class _Tag(Enum):
    """What an opening bracket begins."""

    NONE = 0
    # A mark only the daemon writes.
    OURS = 1
    # The end of a `from`: ours, unless an element of the same text is open.
    FROM_END = 2
    # An element of somebody's markup that happens to be called `from`.
    ELEMENT = 3


def defuse(text: str, *, enclosed: bool = False) -> str:
    """Escape the opening bracket of anything that reads as a mark of ours; leave all other text alone.

    `</from>` is left alone where it ends an element of the same text. Text that will be `enclosed` in a `from` mark
    keeps none: it could seem to end the mark.
    """
    if not _OPENER.search(text):
        return text
    pieces: list[str] = []
    start = depth = 0
    for match in _OPENER.finditer(text):
        tag = _read_tag(text, match.end())
        if tag is _Tag.ELEMENT:
            depth += 1
        elif tag is _Tag.FROM_END and depth and not enclosed:
            depth -= 1
        elif tag is not _Tag.NONE:
            pieces.append(text[start : match.start()])
            pieces.append("&lt;")
            start = match.end()
    if not pieces:
        return text
    pieces.append(text[start:])
    return "".join(pieces)


def _read_tag(text: str, start: int) -> _Tag:
    """What follows an opening bracket. Stops at the first letter that fits no reserved name.

    What nobody sees is skipped, however much of it there is; no bracket is part of that, so nothing is read twice.
    """
    # A name that goes on with a hyphen is another name.
    seen, is_end, goes_on = "", False, False
    for place in range(start, len(text)):
        character = text[place]
        folded = "" if character in _FILLERS else _fold(character)
        if not folded and seen in _BARE_NAMES and ord(character) not in _HYPHENS:
            # To some readers a name ends where something invisible stands.
            return _named(seen, is_end, text, place)
        for letter in folded:
            if not seen and (letter == " " or letter in _SLASHES):
                is_end |= letter != " "
                continue
            if seen in _BARE_NAMES and not (letter.isalnum() or letter == "_"):
                return _Tag.NONE if goes_on else _named(seen, is_end, text, place)
            seen, goes_on = seen + letter, False
            if seen not in _BEGINNINGS:
                return _Tag.NONE
        goes_on |= character == "-" and seen in _BARE_NAMES
    return _named(seen, is_end, text, len(text)) if seen in _BARE_NAMES and not goes_on else _Tag.NONE


def _named(name: str, is_end: bool, text: str, place: int) -> _Tag:
    """The tag of a reserved name, whose attributes begin at `place`."""
    if name != FROM:
        return _Tag.OURS
    if is_end:
        return _Tag.FROM_END
    attributes, is_whole = _read_attributes(text, place)
    if _WHOSE.match(attributes):
        return _Tag.OURS
    is_element = is_whole and not attributes.endswith("/") and attributes[:1] in ("", " ")
    return _Tag.ELEMENT if is_element else _Tag.NONE


def _read_attributes(text: str, start: int) -> tuple[str, bool]:
    """The rest of a tag as a reader would take it, and whether it has its closing bracket."""
    read: list[str] = []
    length = 0
    for place in range(start, len(text)):
        character = text[place]
        if character in _CLOSERS:
            return "".join(read), True
        if character in _OPENERS or length > _LONGEST_TAG:
            break
        folded = " " if character in _FILLERS else _fold(character)
        if folded != " " or read[-1:] != [" "]:
            read.append(folded)
            length += len(folded.strip())
    return "".join(read), False


def unfinished_tag(text: str) -> str:
    """The end of a text that the beginning of another one could make a mark of ours; mostly nothing."""
    start = max(map(text[-4 * _LONGEST_TAG :].rfind, _OPENERS))
    tag = text[-4 * _LONGEST_TAG :][start:] if start >= 0 else ""
    if not tag or not _CLOSERS.isdisjoint(tag):
        return ""
    name = "".join(_fold(each) for each in tag[1:] if each not in _FILLERS)
    name = name.lstrip(" " + _SLASHES).split(" ")[0].split("/")[0]
    return tag if not name or name in _BEGINNINGS else ""


def defuse_continuation(before: str, text: str) -> str:
    """Text that will be put behind `before`, an unfinished tag, such that the two make no mark of ours."""
    if not _makes_mark(before, text):
        return text
    place = len(text) - len(text.lstrip())
    escaped = f"{text[:place]}&#{ord(text[place])};{text[place + 1 :]}"
    if not _makes_mark(before, escaped):
        return escaped
    # The name is whole before it, and whatever stands in its attributes would count: they are escaped letter by letter.
    end = next((at for at, each in enumerate(text) if each in _CLOSERS or each in _OPENERS), len(text))
    return "".join(each if each.isspace() else f"&#{ord(each)};" for each in text[:end]) + text[end:]


def _makes_mark(before: str, text: str) -> bool:
    is_mark = _read_tag(f"{before}\n\n{text}", 1) in (_Tag.OURS, _Tag.FROM_END)
    return is_mark and _read_tag(before, 1) is _Tag.NONE


@lru_cache(maxsize=1024)
def _fold(character: str) -> str:
    """Reduce a character to what a reader would take it for: no marks, hyphens, case or look-alikes."""
    if character.isspace():
        return " "
    plain = unicodedata.normalize("NFKD", character).translate(_HYPHENS)
    kept = "".join(c for c in plain if unicodedata.category(c) not in ("Cf", "Mn", "Me", "Cc", "Cn"))
    return kept.casefold().translate(_LOOKALIKES)


_OTHER_NAMES = "|".join(RESERVED_TAGS[1:])
_WRITTEN_TAG = re.compile(
    rf"<\s{{0,8}}(?:"
    rf"(?P<ours>from\s(?:[^<>]{{0,256}}\s)?\s{{0,8}}agent\s{{0,8}}=[^<>]{{0,256}}|from\s{{1,8}}person\s{{0,8}})"
    rf"|(?P<end>/\s{{0,8}}from\s{{0,8}})"
    rf"|(?P<element>from(?:\s[^<>]{{0,512}})?(?<!/))"
    rf"|(?P<other>/?\s{{0,8}}(?:{_OTHER_NAMES})(?:\s[^<>]{{0,512}})?\s{{0,8}}/?))>",
    re.IGNORECASE,
)
_UNFINISHED_TAG = re.compile(r"<\s{0,8}/?\s{0,8}(?P<name>[A-Za-z-]{0,24})(?P<rest>[\s/][^<>]{0,600})?\Z")


class TagStripper:
    """Takes the marks a model writes itself out of a stream of text, the same however the stream is cut.

    `</from>` goes with the mark it ends; one that ends an element of the model's own markup, or nothing, stays.
    """

    def __init__(self) -> None:
        self._held = ""
        self.stripped = False
        # The `from` tags that are open, and whether each was taken out.
        self._open: list[bool] = []

    def feed(self, text: str) -> str:
        if not self._held and "<" not in text:
            return text
        return self._release(self._held + text)

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held

    def _release(self, text: str) -> str:
        pieces: list[str] = []
        start, place = 0, text.find("<")
        while place >= 0:
            match = _WRITTEN_TAG.match(text, place)
            if match is None:
                if _may_become_tag(text[place:]):
                    break
                place = text.find("<", place + 1)
                continue
            if self._is_mark(match):
                self.stripped = True
                pieces.append(text[start:place])
                start = match.end()
            place = text.find("<", match.end())
        self._held = text[place:] if place >= 0 else ""
        pieces.append(text[start:place] if place >= 0 else text[start:])
        return "".join(pieces)

    def _is_mark(self, tag: "re.Match[str]") -> bool:
        if tag["end"]:
            return self._open.pop() if self._open else False
        if tag["element"] or tag["ours"]:
            self._open.append(bool(tag["ours"]))
        return not tag["element"]


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
