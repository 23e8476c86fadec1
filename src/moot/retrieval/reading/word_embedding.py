"""Vectors of texts from the meanings of their words, without a network; needs numpy, in the extra `rag`.

The meanings are those of routing: English words, and words of other languages by their translations. Parts of words are
hashed besides, so that inflected, compound and unknown words find each other.
"""

import os
from functools import cache, lru_cache
from typing import Any
from zlib import crc32

from moot.domain.errors import Unavailable
from moot.multiagent.routing.text_features import Reading, fold, is_function_word
from moot.multiagent.routing.word_vectors import ROW, SIZE, WHOLE, find_places, load_word_vectors
from moot.retrieval.reading.terms import find_language, split_words

# Changes when the same text gets another vector.
NAME = "words-2"
# The share of the meanings; the rest is that of the parts of words.
_MEANING = 0.85
_PARTS = 64
_SHORTEST, _LONGEST = 3, 5
_MOST_WORDS = 400
_FULL = 127
_THREADS = "OPENBLAS_NUM_THREADS"


@cache
def load_numpy() -> Any:
    # One search at a time needs one thread; more of them cost more processor time than they save. Numpy reads the
    # variable when it is imported; commands of agents must not inherit it.
    has_own = _THREADS in os.environ
    os.environ.setdefault(_THREADS, "1")
    try:
        import numpy  # noqa: PLC0415 - in an extra
    except ImportError:
        raise Unavailable("vectors need the extra rag", fix="pip install 'moot[rag]'") from None
    finally:
        if not has_own:
            os.environ.pop(_THREADS, None)
    return numpy


def has_numpy() -> bool:
    try:
        load_numpy()
    except Unavailable:
        return False
    return True


def make_vector(text: str) -> bytes:
    """Return the vector of a text as signed bytes; empty if none of its words tells anything."""
    words = split_words(text)[:_MOST_WORDS]
    language = find_language(text, words)
    raw = tuple(fold(word) for word in words)
    telling = tuple(word for word in raw if not is_function_word(word, language))
    np = load_numpy()
    meaning, parts = _sum_meanings(telling, language), _sum_parts(telling)
    whole = np.concatenate([_scale(meaning, _MEANING), _scale(parts, 1 - _MEANING)])
    return quantize(whole)


def quantize(vector: Any) -> bytes:
    """Return a vector as signed bytes; only its direction counts."""
    np = load_numpy()
    largest = float(np.abs(vector).max()) if len(vector) else 0.0
    if not largest:
        return b""
    return bytes(np.round(vector * (_FULL / largest)).astype(np.int8).tobytes())


def _scale(vector: Any, share: float) -> Any:
    np = load_numpy()
    length = float(np.linalg.norm(vector))
    return vector * (share**0.5 / length) if length else vector


@cache
def _load_table() -> tuple[Any, Any]:
    """Return the weights and the vectors of all words."""
    np = load_numpy()
    rows = np.frombuffer(load_word_vectors().rows, np.uint8).reshape(-1, ROW)
    return rows[:, 0].astype(np.float32) / WHOLE, rows[:, 1 : 1 + SIZE].view(np.int8)


def _sum_meanings(words: tuple[str, ...], language: str) -> Any:
    np = load_numpy()
    places = find_places(Reading(words=(), raw=words, language=language), frozenset())
    if not places:
        return np.zeros(SIZE, np.float32)
    weights, vectors = _load_table()
    return weights[places] @ vectors[places].astype(np.float32)


def _sum_parts(words: tuple[str, ...]) -> Any:
    np = load_numpy()
    total = np.zeros(_PARTS, np.float32)
    for word in dict.fromkeys(words):
        total += _hash_parts(word)
    return total


@lru_cache(maxsize=32_768)
def _hash_parts(word: str) -> Any:
    """Return the hashed parts of a word, of length 1."""
    np = load_numpy()
    found = np.zeros(_PARTS, np.float32)
    marked = f"<{word}>"
    for size in range(_SHORTEST, _LONGEST + 1):
        for start in range(len(marked) - size + 1):
            code = crc32(marked[start : start + size].encode())
            found[code % _PARTS] += 1.0 if code & 0x10000 else -1.0
    length = float(np.linalg.norm(found))
    return found / length if length else found
