"""Splits a request into words and derives the features that the classifier weighs; used by every module of routing.

Pure. Accents are removed and English endings are stripped; Chinese text becomes overlapping pairs of characters.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

# Only the beginning and the end of a long request are used; pasted text in between does not say what is wanted.
_HEAD, _TAIL = 1200, 400
_HEAD_WORDS, _TAIL_WORDS = 36, 12
_WINDOW = 3
_PREFIXES = (4, 5)
# Prefixes of features that are not readable.
_UNREADABLE = ("4:", "5:", "k:", "c:", "u:", "@")

_WORD = re.compile(
    r"(?P<address>(?:https?://|www\.)[^\s，。？！]+)|(?P<file>[a-z0-9_/\\-]*\.[a-z][a-z0-9]{1,4}\b)"
    r"|(?P<money>[$€£]\s?\d[\d.,]*)|(?P<time>\d{1,2}:\d\d)|(?P<number>\d[\d.,]*)|(?P<han>[\u3400-\u9fff]+)"
    r"|(?P<word>[^\W\d_\u3400-\u9fff]+)|(?P<ask>[?？])"
)
_LETTERS = re.compile(r"[^\W\d_]+")
_CONTRACTIONS = ((re.compile(r"n['’]t\b"), " not"), (re.compile(r"['’](s|re|ve|ll|d|m)\b"), r" \1"))
_LIGATURES = str.maketrans({"ß": "ss", "œ": "oe", "æ": "ae"})
_DOMAINS = frozenset({"com", "org", "net", "io", "de", "eu", "dev", "biz", "example"})
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

# Frequent words by which a language is recognised, without accents.
_FUNCTION_WORDS = {
    "en": "the a an of to and is are in on my me you we i it that this for with what how do does please can our at be "
    "was did have has from by your not which who when all why should would could there they he she his her if or but "
    "as any some into than then them where will want need get make give show tell find",
    "de": "der die das den dem des ein eine einen einem einer ist sind und zu mir mich ich du er sie wir uns unser "
    "unsere bitte was wie auf fur mit von im in an am nicht wer wo wann warum wieso welche welcher welches dass noch "
    "mal alle aus bei zum zur dir hat habe haben sich mein meine meinen meiner meinem kann kannst soll muss darf "
    "gegen nach seit uber unter oder aber wenn ob kein keine man es hilft",
    "es": "el la los las un una unos unas de del que en y o es son mi me yo tu te nos nuestro nuestra nuestros "
    "nuestras por para con sin como cual cuando donde quien se lo le al esta este esto hay mis su sus cada cuanto "
    "cuantos cuantas cuanta sobre dime no si pero muy mas ya porque desde hasta puedo puede quiero tengo dos tres seis "
    "diez cerca ver tiene debe hacer hago",
    "fr": "le la les un une des de du que qu et est sont mon ma mes ton ta tes son sa ses je j tu il elle on nous vous "
    "notre nos votre vos pour avec sans dans sur sous au aux qui quel quelle quels quelles ce cet cette ces en y moi "
    "toi ne n pas d l s c m t a est-ce combien quand comment pourquoi ou dis plus plusieurs avant apres par peut puis "
    "faut fait faire mais si chez entre trop tres bien suis ai as",
}
_LANGUAGE_OF: dict[str, tuple[str, ...]] = {}
for _language, _list in _FUNCTION_WORDS.items():
    for _word in _list.split():
        _LANGUAGE_OF[_word] = (*_LANGUAGE_OF.get(_word, ()), _language)
# Letters and marks that only one of the languages uses.
_MARKS = {"de": re.compile("[äöüß]"), "es": re.compile("[ñáíóú¿¡]"), "fr": re.compile("[àâçèêëîïôœùû]")}
# The weight of such a mark; a word of only one language has weight 1.
_MARK = 1.5


class Reading(Struct, frozen=True):
    """A request, split into words."""

    # Words without endings, in order; for Chinese, overlapping pairs of characters.
    words: tuple[str, ...]
    # The same words as they were written, without accents; Chinese runs are whole.
    raw: tuple[str, ...]
    # "en", "de", "es", "fr", "zh", or "" if unknown.
    language: str


def excerpt(text: str) -> str:
    """Return the part of a request that is used for routing."""
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]} {text[-_TAIL:]}"


def fold(text: str) -> str:
    """Return the text in lower case without accents, because people often omit them."""
    text = text.lower()
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text.translate(_LIGATURES))
    return unicodedata.normalize("NFC", "".join(each for each in parts if not unicodedata.combining(each)))


def read(text: str) -> Reading:
    """Split a text into words; addresses, file names, sums and times are replaced by a token for their kind."""
    marks = "" if text.isascii() else text.lower()
    text = fold(text)
    for pattern, plain in _CONTRACTIONS:
        text = pattern.sub(plain, text)
    words: list[str] = []
    raw: list[str] = []
    for match in _WORD.finditer(text):
        kind, word = match.lastgroup, match.group()
        if kind == "word":
            words.append(stem(word))
            raw.append(word)
        elif kind == "han":
            words += [word] if len(word) == 1 else [first + second for first, second in pairwise(word)]
            raw.append(word)
        elif kind == "file":
            ending = word.rsplit(".", 1)[1]
            words += ["<address>"] if ending in _DOMAINS else ["<file>", f".{ending}"]
        else:
            words.append(f"<{kind}>")
    return Reading(tuple(words), tuple(raw), detect_language(raw, marks))


def shorten(reading: Reading) -> Reading:
    """Return the first and the last words of a long text, which are enough to route it."""
    if len(reading.words) <= _HEAD_WORDS + _TAIL_WORDS:
        return reading
    words = (*reading.words[:_HEAD_WORDS], *reading.words[-_TAIL_WORDS:])
    raw = (*reading.raw[:_HEAD_WORDS], *reading.raw[max(_HEAD_WORDS, len(reading.raw) - _TAIL_WORDS) :])
    return Reading(words, raw, reading.language)


def split_words(text: str) -> list[str]:
    return list(read(text).words)


def detect_language(raw: Sequence[str], marks: str = "") -> str:
    """Return the language with the most function words and letters in `marks`; "" for none or a draw."""
    if any(map(is_han, raw)):
        return "zh"
    counts: dict[str, float] = {}
    for word in raw:
        # A word of several languages counts less.
        languages = _LANGUAGE_OF.get(word, ())
        for language in languages:
            counts[language] = counts.get(language, 0.0) + 1 / len(languages)
    if marks:
        for language, pattern in _MARKS.items():
            if pattern.search(marks):
                counts[language] = counts.get(language, 0.0) + _MARK
    ranked = sorted(counts, key=lambda language: -counts[language])
    if not ranked or (len(ranked) > 1 and counts[ranked[0]] == counts[ranked[1]]):
        return ""
    return ranked[0]


def is_han(word: str) -> bool:
    """Return whether a word is Chinese."""
    return "\u3400" <= word[0] <= "\u9fff"


def is_function_word(word: str, language: str) -> bool:
    """Return whether a word is a function word of this language, or of any if the language is unknown."""
    languages = _LANGUAGE_OF.get(word, ())
    return language in languages if language else bool(languages)


def stem(word: str) -> str:
    """Return a word without the endings of tense and number."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < 4 or word in _WHOLE:
        return word
    return _strip_e(_strip_ending(word))


def _strip_ending(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return _undouble(word[: -len(ending)])
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _undouble(word: str) -> str:
    """Undo the doubled consonant of a stem: `stopp` becomes `stop`, but `call` stays."""
    double = len(word) > 3 and word[-1] == word[-2] and word[-1] not in _KEPT_DOUBLE
    return word[:-1] if double else word


def _strip_e(word: str) -> str:
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def features(reading: Reading, concepts: Iterable[str]) -> set[str]:
    """Return the features: words, prefixes, pairs of neighbours, first word, length, language and concepts."""
    words = reading.words
    found = {*words, *(f"{first} {second}" for first, second in pairwise(("^", *words)))}
    telling = [word for word in words if word not in _LINKS]
    for place, word in enumerate(telling):
        for other in telling[place + 1 : place + 1 + _WINDOW]:
            found.add("~" + "|".join(sorted((word, other))))
    # Prefixes match despite different endings and most typing errors.
    found |= {f"{size}:{word[:size]}" for size in _PREFIXES for word in words if len(word) >= size and word.isalpha()}
    if reading.language == "zh":
        found |= {f"u:{each}" for run in reading.raw if is_han(run) for each in run}
    found.add(f"#{_length(len(words))}")
    found.add(f"@{reading.language}")
    if words:
        found.add(f"1:{words[0]}")
    known = sorted(set(concepts))
    found |= {f"={name}" for name in known}
    found |= {f"={first}+{second}" for place, first in enumerate(known) for second in known[place + 1 :]}
    return found


def _length(count: int) -> str:
    return "brief" if count < 3 else "short" if count < 7 else "sentence" if count < 13 else "long"


def readable(found: Iterable[str]) -> list[str]:
    return [feature for feature in found if not feature.startswith(_UNREADABLE)]


def spell(found: Iterable[str], text: str) -> list[str]:
    """Return features as the readable words they were derived from, each once."""
    whole = {stem(fold(word)): word for word in _LETTERS.findall(text.lower())}
    return list(dict.fromkeys(_spell(feature, whole) for feature in found))


def _spell(feature: str, whole: dict[str, str]) -> str:
    if feature.startswith("#"):
        return f"its length ({feature[1:]})"
    if feature.startswith("="):
        return f"the subject {feature[1:].replace('+', ' and ')}"
    parts: list[str] = re.split(r"[ |]", feature.removeprefix("1:").removeprefix("~"))
    between = " … " if feature.startswith("~") else " "
    return f"“{between.join(whole.get(part, part) for part in parts if part != '^')}”"


_EMPTY = """
    a about all an and any are as at be between both by can do does each for from has have how i in into is it its look
    looks make makes me my no not of on one or other our say says that the their them then they thing things this to
    under up use used uses using what when where which who will with you your
"""
_POLITE = "please could would hi hello hey need want like help"
# English words, without endings, that say nothing about what a text is about.
EMPTY_WORDS = frozenset(stem(word) for word in _EMPTY.split())
# Those, and words of politeness.
IGNORED_WORDS = EMPTY_WORDS | {stem(word) for word in _POLITE.split()}
