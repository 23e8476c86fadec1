"""Turns a request into words in their plain form, and these into the marks that routing weighs. Pure."""

import re
from collections.abc import Iterable
from itertools import pairwise

# Of a long request the beginning and the end say what is wanted; what is pasted in between does not.
_HEAD, _TAIL = 1200, 400
_WINDOW = 3
_BEGINNINGS = (4, 5)
# Marks that say nothing to a reader.
_UNREADABLE = ("4:", "5:", "k:", "c:")

_WORD = re.compile(
    r"(?P<address>(?:https?://|www\.)\S+)|(?P<file>[a-z0-9_/\\-]*\.[a-z][a-z0-9]{1,4}\b)"
    r"|(?P<money>[$€£]\s?\d[\d.,]*)|(?P<time>\d{1,2}:\d\d)|(?P<number>\d[\d.,]*)|(?P<word>[^\W\d_]+)|(?P<ask>\?)"
)
_LETTERS = re.compile(r"[^\W\d_]+")
_SHORT = ((re.compile(r"n['’]t\b"), " not"), (re.compile(r"['’](s|re|ve|ll|d|m)\b"), r" \1"))
_DOMAINS = frozenset({"com", "org", "net", "io", "de", "eu", "dev", "biz"})
_IRREGULAR = {
    "came": "come", "decided": "decid", "forgot": "forget", "forgotten": "forget", "found": "find", "gave": "giv",
    "given": "giv", "kept": "keep", "knew": "know", "known": "know", "made": "mak", "paid": "pay", "ran": "run",
    "said": "say", "sent": "send", "spoke": "speak", "spoken": "speak", "taken": "tak", "thought": "think",
    "told": "tell", "took": "tak", "went": "go", "written": "writ", "wrote": "writ",
}  # fmt: skip
_WHOLE = frozenset({"does", "this", "was", "news", "his", "its", "yes", "us", "gas", "has"})
_LINKS = frozenset(
    {"the", "a", "an", "of", "to", "and", "or", "in", "on", "at", "for", "with", "it", "is", "be", "that", "this"}
)
_KEPT_DOUBLE = frozenset("sl")


def excerpt(text: str) -> str:
    """What of a request is looked at."""
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]} {text[-_TAIL:]}"


def words(text: str) -> list[str]:
    """The words of a request, each without its ending; addresses, file names, sums and times by what they are."""
    text = text.lower()
    for pattern, plain in _SHORT:
        text = pattern.sub(plain, text)
    found: list[str] = []
    for match in _WORD.finditer(text):
        kind, word = match.lastgroup, match.group()
        if kind == "word":
            found.append(stem(word))
        elif kind == "file":
            ending = word.rsplit(".", 1)[1]
            found += ["<address>"] if ending in _DOMAINS else ["<file>", f".{ending}"]
        else:
            found.append(f"<{kind}>")
    return found


def stem(word: str) -> str:
    """A word without the endings that say when and how many, so that what means the same looks the same."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < 4 or word in _WHOLE:
        return word
    return _bare(_cut(word))


def _cut(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return _single(word[: -len(ending)])
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _single(word: str) -> str:
    """`stopp` is `stop`, but `call` stays."""
    double = len(word) > 3 and word[-1] == word[-2] and word[-1] not in _KEPT_DOUBLE
    return word[:-1] if double else word


def _bare(word: str) -> str:
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def marks(found: list[str]) -> set[str]:
    """What is weighed: words and how they begin, which stand next to or near each other, the first one, the length."""
    opened = ["^", *found]
    known = {*found, *(f"{first} {second}" for first, second in pairwise(opened))}
    telling = [word for word in found if word not in _LINKS]
    for place, word in enumerate(telling):
        for other in telling[place + 1 : place + 1 + _WINDOW]:
            known.add("~" + "|".join(sorted((word, other))))
    # The beginning of a word survives its endings and most slips of the finger.
    known |= {f"{size}:{word[:size]}" for size in _BEGINNINGS for word in found if len(word) >= size and word.isalpha()}
    known.add(f"#{_length(len(found))}")
    if found:
        known.add(f"1:{found[0]}")
    return known


def _length(count: int) -> str:
    return "brief" if count < 3 else "short" if count < 7 else "sentence" if count < 13 else "long"


def readable(told: Iterable[str]) -> list[str]:
    return [mark for mark in told if not mark.startswith(_UNREADABLE)]


def spelled(told: Iterable[str], text: str) -> list[str]:
    """Marks in the words they were made of, for people to read; each once."""
    whole = {stem(word): word for word in _LETTERS.findall(text.lower())}
    shown = [_spelled(mark, whole) for mark in told]
    return list(dict.fromkeys(shown))


def _spelled(mark: str, whole: dict[str, str]) -> str:
    if mark.startswith("#"):
        return f"its length ({mark[1:]})"
    parts: list[str] = re.split(r"[ |]", mark.removeprefix("1:").removeprefix("~"))
    between = " … " if mark.startswith("~") else " "
    return f"“{between.join(whole.get(part, part) for part in parts if part != '^')}”"
