"""The terms a passage is found by: words without accents, their stems, parts of identifiers. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from moot.multiagent.routing.text_features import detect_language, fold, is_function_word, stem

_WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
_HAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_LONGEST = 40
_MOST_TERMS = 48
LANGUAGES = ("en", "de", "es", "fr")
# Endings that inflection adds, longest first, and how much of a word has to be left.
_ENDINGS = {
    "de": ("ungen", "ung", "ern", "end", "est", "em", "er", "en", "es", "st", "e", "s", "n", "t"),
    "es": (
        "aciones", "acion", "amiento", "imiento", "mente", "iendo", "ando", "aron", "ieron", "adas", "ados", "idas",
        "idos", "aban", "aba", "ada", "ado", "ida", "ido", "ar", "er", "ir", "an", "en", "as", "os", "es", "a", "o",
        "e", "s",
    ),
    "fr": ("ations", "ation", "ement", "ment", "ees", "ent", "ant", "aux", "er", "ez", "ee", "es", "e", "s", "x"),
}  # fmt: skip
_LEFT = 4


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
    return [stem(word) if language not in _ENDINGS else _strip(word, language) for language in languages]


def _strip(word: str, language: str) -> str:
    for ending in _ENDINGS[language]:
        if word.endswith(ending) and len(word) - len(ending) >= _LEFT:
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
