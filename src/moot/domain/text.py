"""Text functions used everywhere: defusing and stripping of tags reserved for the daemon, and cleaning. Pure."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import lru_cache

# Tags with a meaning to a speaker. Only the daemon writes them; everywhere else they are defused. `from` is a common
# word: it is reserved only with the attribute that names the speaker.
FROM = "from"
RESERVED_TAGS = (FROM, "peer-message", "task-notification", "archived-summary", "moot", "moot-call", "project-file")

# A marker in the instructions of a compaction request, so that a scripted model can tell it from a turn.
COMPACTION_MARK = "moot:compaction"

_OPENERS = "<\uff1c\ufe64\u2039\u3008\u27e8\u2329\u276e\u02c2\u1438\u16b2"
_CLOSERS = frozenset(">\uff1e\ufe65\u203a\u3009\u27e9\u232a\u276f\u02c3\u1433\u16b3")
# Hyphens have many forms, some of them invisible, so names are compared without any.
_BARE_NAMES = tuple(name.replace("-", "") for name in RESERVED_TAGS)
_BEGINNINGS = frozenset(name[:length] for name in _BARE_NAMES for length in range(1, len(name) + 1))
# ASCII characters that are skipped before a name, and within it.
_BEFORE_NAME = r"[\x00-\x20/\x7f]*+"
_WITHIN_NAME = r"[\x00-\x08\x0e-\x1b\x7f-]*+"


def _begin_of(name: str) -> str:
    """Return a pattern for the beginning of a reserved name: as far as it is ASCII, and the rest may be anything."""
    pattern = ""
    for letter in reversed(name):
        pattern = rf"(?:{letter}{_WITHIN_NAME}{pattern}|[^\x00-\x7f])"
    return pattern


# Fast path: most brackets in ordinary text, and all of those in a text made to slow this down, begin no reserved name.
_OPENER = re.compile(
    f"[{_OPENERS}](?={_BEFORE_NAME}(?:{'|'.join(dict.fromkeys(_begin_of(name[:4]) for name in _BARE_NAMES))}))",
    re.IGNORECASE,
)
_ANY_OPENER = re.compile(f"[{_OPENERS}]")
_PLAIN_ELEMENT = re.compile(r"<\s*from(?:\s[^<>]*)?>", re.IGNORECASE)
_SLASHES = "/\u2044\u2215\u29f8"
# Characters that count as letters or symbols but are invisible or look like a space.
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
# The attribute in a reserved `from` tag that names the speaker.
_WHOSE = re.compile(r"[\s/]+(?:(?:.*[\s/'\"])?agent\s*=|person[\s/]*\Z)")
# How much of a tag is read; whitespace and invisible characters do not count.
_LONGEST_TAG = 256
# A text of this length is defused in a thread before it is needed; the result is kept for a while.
LARGE_TEXT = 64 * 1024
_MOST_KEPT = 32
# A text that still has marks after this many passes was written to deceive, and all its brackets are escaped.
_MOST_PASSES = 4
# How often each character may be read as part of an attribute. Tags of plain brackets do not overlap; a text in which
# very many others do was written to deceive, too.
_MOST_READ = 4


class _Tag(Enum):
    """What an opening bracket begins."""

    NONE = 0
    # A mark that only the daemon may write.
    OURS = 1
    # The end of a `from`: reserved, unless an element of the same text is open.
    FROM_END = 2
    # An ordinary markup element that happens to be called `from`.
    ELEMENT = 3


def defuse(text: str, *, enclosed: bool = False) -> str:
    """Escape the opening bracket of everything that reads as a reserved mark; leave all other text unchanged.

    `</from>` is left unchanged if it ends an element of the same text. Text that will be `enclosed` in a `from` mark
    keeps none, since it could appear to end the mark.
    """
    if len(text) >= LARGE_TEXT:
        return _defuse_large(text, enclosed)
    if text.isascii() and "<" not in text:
        # Most messages: there is no other opening bracket in ASCII, and this takes a tenth of a search.
        return text
    return _defuse(text, enclosed) if _OPENER.search(text) else text


def _defuse(text: str, enclosed: bool) -> str:
    for _ in range(_MOST_PASSES):
        escaped = _escape_marks(text, enclosed=enclosed)
        if escaped is None:
            break
        if escaped is text:
            return text
        # An escaped bracket no longer ends a tag left open before it, which may thereby become a mark.
        text = escaped
    return _ANY_OPENER.sub("&lt;", text)


_defuse_large = lru_cache(maxsize=_MOST_KEPT)(_defuse)


def _escape_marks(text: str, *, enclosed: bool) -> str | None:
    """Escape the marks of a text; None if its tags overlap so much that reading them would take long."""
    pieces: list[str] = []
    start = depth = 0
    work = _Work()
    for match in _find_openers(text):
        tag = _read_tag(text, match.end(), work)
        if work.characters > _MOST_READ * len(text) + _LONGEST_TAG:
            return None
        if tag is _Tag.ELEMENT:
            # A disguised tag is an element only to a reader who recognises it.
            depth += _PLAIN_ELEMENT.match(text, match.start()) is not None
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


def _find_openers(text: str) -> Iterator[re.Match[str]]:
    """Return the brackets that may begin a mark."""
    if len(text) < LARGE_TEXT:
        return _OPENER.finditer(text)
    # One search through a large text that finds nothing would keep all other threads waiting.
    found = (_OPENER.match(text, opener.start()) for opener in _ANY_OPENER.finditer(text))
    return (match for match in found if match is not None)


class _Work:
    """Counts the characters that were read as attributes; those of overlapping tags count several times."""

    __slots__ = ("characters",)

    def __init__(self) -> None:
        self.characters = 0


def _read_tag(text: str, start: int, work: _Work) -> _Tag:
    """Read what follows an opening bracket. Stops at the first letter that fits no reserved name.

    Invisible characters are skipped, however many; none of them is a bracket, so nothing is read twice. A plain hyphen
    before or after a name makes it a different name.
    """
    seen, is_end = "", False
    for place in range(start, len(text)):
        character = text[place]
        if character == "-" and not seen:
            return _Tag.NONE
        folded = "" if character in _FILLERS else _fold(character)
        if not folded and seen in _BARE_NAMES and ord(character) not in _HYPHENS:
            # To some readers a name ends at an invisible character.
            return _classify_reserved(seen, is_end, text, place, work)
        for letter in folded:
            if not seen and (letter == " " or letter in _SLASHES):
                is_end |= letter != " "
                continue
            if seen in _BARE_NAMES and not (letter.isalnum() or letter == "_"):
                return _classify_reserved(seen, is_end, text, place, work)
            seen += letter
            if seen not in _BEGINNINGS:
                return _Tag.NONE
    return _classify_reserved(seen, is_end, text, len(text), work) if seen in _BARE_NAMES else _Tag.NONE


def _classify_reserved(name: str, is_end: bool, text: str, place: int, work: _Work) -> _Tag:
    """Return the tag for a reserved name whose attributes begin at `place`."""
    if text[place - 1] == "-":
        return _Tag.NONE
    if name != FROM:
        return _Tag.OURS
    if is_end:
        return _Tag.FROM_END
    return _read_from(text, place, work)


def _read_from(text: str, start: int, work: _Work) -> _Tag:
    """Classify an opening `from` by its attributes, which begin at `start`.

    Only plain brackets certainly end a tag. At a look-alike, it may end for some readers and continue for others.
    """
    read: list[str] = []
    length, stop = 0, ""
    for place in range(start, len(text)):
        character = text[place]
        if character in "<>" or length > _LONGEST_TAG:
            stop = character
            break
        work.characters += 1
        if character in _CLOSERS or character in _OPENERS:
            work.characters += len(read)
            if _WHOSE.match("".join(read)):
                return _Tag.OURS
        folded = " " if character in _FILLERS else "-" if character == "-" else _fold(character)
        if folded != " " or read[-1:] != [" "]:
            read.append(folded)
            length += len(folded.strip())
    # A tag interrupted by another one is not complete yet.
    attributes = "".join(read) + ("<" if stop == "<" else "")
    if _WHOSE.match(attributes):
        return _Tag.OURS
    is_element = stop == ">" and not attributes.endswith("/") and attributes[:1] in ("", " ")
    return _Tag.ELEMENT if is_element else _Tag.NONE


def defuse_behind(before: str, text: str) -> str:
    """Defuse text that will be placed after `before`, so that no reserved mark begins in one and ends in the other."""
    before = before[-4 * _LONGEST_TAG :]
    # If the last bracket is a look-alike, a tag opened by an earlier plain one may still be open.
    for openers in ("<", _OPENERS):
        unfinished = _find_unfinished_tag(before, openers)
        if unfinished and _read_tag(unfinished, 1, _Work()) is _Tag.NONE and _make_mark(unfinished, text):
            text = _defuse_continuation(unfinished, text)
    return text


def _find_unfinished_tag(text: str, openers: str) -> str:
    """Return the end of a text that could become a reserved mark together with following text; usually ""."""
    start = max(map(text.rfind, openers))
    tag = text[start:] if start >= 0 else ""
    if ">" in tag:
        return ""
    name = "".join(_fold(each) for each in tag[1:] if each not in _FILLERS)
    name = name.lstrip(" " + _SLASHES).split(" ")[0].split("/")[0]
    return tag if not name or name in _BEGINNINGS else ""


def _defuse_continuation(unfinished: str, text: str) -> str:
    first = len(text) - len(text.lstrip())
    begun = _escape(text, (first,))
    if not _make_mark(unfinished, begun):
        return begun
    # The attributes of a tag that is already open: without an equals sign none of them can name a speaker.
    equals = tuple(_places_of_equals(text))
    unassigned = _escape(text, equals)
    return unassigned if not _make_mark(unfinished, unassigned) else _escape(text, (first, *equals))


def _make_mark(before: str, text: str) -> bool:
    return _read_tag(f"{before}\n\n{text}", 1, _Work()) in (_Tag.OURS, _Tag.FROM_END)


def _places_of_equals(text: str) -> Iterator[int]:
    for place, character in enumerate(text):
        if character in "<>":
            return
        if "=" in _fold(character):
            yield place


def _escape(text: str, places: Iterable[int]) -> str:
    characters = list(text)
    for place in places:
        characters[place] = f"&#{ord(characters[place])};"
    return "".join(characters)


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
_LONGEST_UNFINISHED = 1 + 8 + 1 + 8 + 24 + 601
_UNFINISHED_TAG = re.compile(r"<\s{0,8}/?\s{0,8}(?P<name>[A-Za-z-]{0,24})(?P<rest>[\s/][^<>]{0,600})?\Z")


class TagStripper:
    """Removes reserved marks that a model writes from a text stream; the result does not depend on the chunks.

    `</from>` is removed with the mark it ends; one that ends an element of the model's own markup, or nothing, stays.
    """

    def __init__(self) -> None:
        self._held = ""
        self.stripped = False
        # The open `from` tags, and whether each was removed.
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
                if _may_become_tag(text, place):
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


def _may_become_tag(text: str, place: int) -> bool:
    # A longer rest cannot match; most brackets of a long text are far from its end.
    match = _UNFINISHED_TAG.match(text, place) if len(text) - place <= _LONGEST_UNFINISHED else None
    if match is None:
        return False
    name = match["name"].lower()
    if match["rest"] is not None:
        return name in RESERVED_TAGS
    return any(reserved.startswith(name) for reserved in RESERVED_TAGS)


def normalize_name(text: str) -> str:
    """Return a name as one line with single spaces and composed letters, so that different spellings match.

    Files of some systems have an accent as a character of its own, which looks the same.
    """
    name = " ".join(clean(text).split())
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def clean(text: str) -> str:
    """Make text from a tool or a model safe to store and send: no NUL, no half of a surrogate pair."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
