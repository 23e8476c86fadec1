"""The terms a passage is found by: words without accents, their stems, parts of identifiers. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from moot.domain.rag import WordParts
from moot.multiagent.routing.text_features import detect_language, fold, is_function_word, stem

_WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_HAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_LONGEST = 40
_MOST_TERMS = 48
LANGUAGES = ("en", "de", "es", "fr")
# Endings that inflection adds, longest first, and how much of a word has to be left.
_ENDINGS = {
    "es": (
        "aciones", "acion", "amiento", "imiento", "mente", "iendo", "ando", "aron", "ieron", "adas", "ados", "idas",
        "idos", "aban", "aba", "ada", "ado", "ida", "ido", "ar", "er", "ir", "an", "en", "as", "os", "es", "a", "o",
        "e", "s",
    ),
    "fr": ("ations", "ation", "ement", "ment", "ees", "ent", "ant", "aux", "er", "ez", "ee", "es", "e", "s", "x"),
}  # fmt: skip
_LEFT = 4
# The same for German, where endings follow each other: of a case or a verb, of a comparison, and of a word made from
# another.
_GERMAN_ENDINGS = (
    (("ern", "em", "er", "en", "es", "e", "s", "n"), 3),
    (("est", "en", "er", "st"), 3),
    (("lichkeit", "igkeit", "isch", "lich", "heit", "keit", "end", "ung", "ig", "ik"), 4),
)
# Endings whose t belongs to the word.
_WITH_T = ("ht", "ft", "st", "rt", "lt", "nt", "tt")
# The least that a part of a compound leaves of it, and is long.
_LEAST_BEFORE, _LEAST_PART = 2, 5
_MOST_PARTS = 96


def split_words(text: str) -> list[str]:
    """Return the words as they are written; identifiers are whole."""
    return [word[:_LONGEST] for word in _WORD.findall(text)]


def find_language(text: str, words: Sequence[str]) -> str:
    return detect_language([fold(word) for word in words], "" if text.isascii() else text.lower())


def list_terms(text: str) -> list[str]:
    """Return the terms of a passage, in order and as often as they occur."""
    words = split_words(text)
    language = find_language(text, words)
    return [term for word in words for term in _expand(word, (language or "en",))]


def list_query_terms(text: str) -> list[str]:
    """Return the terms to look for, each once. Where the language is not known, stems of all are tried."""
    found = dict.fromkeys(term for terms in group_terms(text) for term in terms)
    return list(found)[:_MOST_TERMS]


def list_compound_parts(text: str) -> list[WordParts]:
    """Return the possible last parts of each word of a German query, for compounds that no passage has.

    No dictionary is needed: of all parts, passages have those that are words.
    """
    words = split_words(text)
    if find_language(text, words) != "de":
        return []
    found: list[WordParts] = []
    room = _MOST_PARTS
    for word in words:
        folded = fold(word)
        if is_function_word(folded, "de") or _is_identifier(word):
            continue
        parts = _split_compound(folded)[:room]
        room -= len(parts)
        if parts:
            found.append(WordParts(_expand(word, ("de",)), parts))
    return found


def _split_compound(word: str) -> tuple[str, ...]:
    tails = [word[start:] for start in range(_LEAST_BEFORE, len(word) - _LEAST_PART + 1)]
    found = ((tail, short) if len(short := _stem_german(tail)) >= _LEFT else (tail,) for tail in tails)
    return tuple(dict.fromkeys(part for pair in found for part in pair))


def group_terms(text: str) -> list[tuple[str, ...]]:
    """Return the terms of each word that tells something."""
    words = split_words(text)
    language = find_language(text, words)
    languages = (language,) if language else LANGUAGES
    telling = [word for word in words if not is_function_word(fold(word), language)] or words
    return [_expand(word, languages) for word in telling]


@lru_cache(maxsize=16_384)
def _expand(word: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the terms of a word: itself, its stem and its parts; none of a function word of the one language."""
    folded = fold(word)
    if _HAN.search(folded):
        return tuple(_split_unspaced(folded))
    if len(languages) == 1 and is_function_word(folded, languages[0]):
        return ()
    parts = [fold(part) for part in _CAMEL.findall(word)] if _is_identifier(word) else []
    plain = folded.replace("_", "")
    return tuple(dict.fromkeys([plain, *stems(plain, languages), *(part for part in parts if len(part) > 1)]))


def stems(word: str, languages: Iterable[str]) -> list[str]:
    return [_find_stem(word, language) for language in languages]


def _find_stem(word: str, language: str) -> str:
    if language == "de":
        return _stem_german(word)
    return _strip(word, _ENDINGS[language], _LEFT) if language in _ENDINGS else stem(word)


def _stem_german(word: str) -> str:
    for endings, left in _GERMAN_ENDINGS:
        word = _strip(word, endings, left)
    return word[:-1] if len(word) > _LEFT and word.endswith("t") and not word.endswith(_WITH_T) else word


def _strip(word: str, endings: Sequence[str], left: int) -> str:
    """Return a word without the first of the endings that leaves enough of it."""
    for ending in endings:
        if word.endswith(ending) and len(word) - len(ending) >= left:
            return word[: -len(ending)]
    return word


def _is_identifier(word: str) -> bool:
    return "_" in word or (word != word.lower() and word[1:] != word[1:].lower())


def _split_unspaced(text: str) -> Iterator[str]:
    """Yield the pairs of characters of scripts without spaces, and the words between them."""
    start = 0
    for match in _HAN.finditer(text):
        yield from text[start : match.start()].replace("_", " ").split()
        run = match.group()
        yield from [run] if len(run) == 1 else (first + second for first, second in pairwise(run))
        start = match.end()
    yield from text[start:].replace("_", " ").split()
