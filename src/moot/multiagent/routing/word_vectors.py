"""Meanings of words, by which `agent_match` compares requests with agents: a vector, and the topics of the word.

English words are found by their stem, words of the four other languages as they are written or by their beginning.
The file is made by `scripts/make_word_vectors.py` and read at the first comparison.
"""

import math
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from operator import mul
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from moot.multiagent.routing.classifier import read_hashes
from moot.multiagent.routing.text_features import Reading, is_function_word, stem

FILE = Path(__file__).with_name("word_vectors.bin")
# Numbers of a vector, and topics of a word.
SIZE = 96
TOPICS = 4
# One byte of weight, the vector, and the number and the share of each topic.
ROW = 1 + SIZE + 2 * TOPICS
# The length of every vector in the file, and what stands for a share or weight of 1.
LENGTH = 350
WHOLE = 255
# The minimum length of a prefix that stands for all words with it, and of a part of a compound.
SHORTEST_PREFIX, _SHORTEST_PART = 3, 4
_LONGEST_HAN = 6

# The key of a row that is no word: what requests about any subject have in common, its weight the length.
USUAL = "<usual>"

Vector = tuple[float, ...]


class Meaning(Struct, frozen=True):
    """The meaning of a text."""

    # Of length 1.
    vector: Vector
    # The shares of topics, as a vector of length 1; empty if no word belongs to a topic.
    topics: dict[int, float]


class WordVectors(Struct, frozen=True):
    hashes: "array[int]"
    rows: memoryview

    def find(self, key: str) -> int:
        """Return the row of a word; -1 if it is unknown."""
        code = crc32(key.encode())
        place = bisect_left(self.hashes, code)
        return place if place < len(self.hashes) and self.hashes[place] == code else -1

    def weight(self, place: int) -> float:
        return self.rows[place * ROW] / WHOLE

    def vector(self, place: int) -> Sequence[int]:
        start = place * ROW + 1
        return self.rows[start : start + SIZE].cast("b")

    def topics(self, place: int) -> Iterator[tuple[int, float]]:
        start = place * ROW + 1 + SIZE
        for each in range(start, start + TOPICS):
            if share := self.rows[each + TOPICS]:
                yield self.rows[each], share / WHOLE


@cache
def load_word_vectors() -> WordVectors:
    body = FILE.read_bytes()
    (count,) = struct.unpack_from("<I", body)
    body = body[4:]
    return WordVectors(read_hashes(body, count), memoryview(body[4 * count :]))


def find_places(reading: Reading, ignored: frozenset[str]) -> list[int]:
    """Return the rows of the known words of a text; `ignored` are stems."""
    if reading.language == "zh":
        return [place for run in reading.raw for place in _split_chinese(run)]
    return [
        place
        for word in reading.raw
        if stem(word) not in ignored
        for place in _find_word(word, reading.language)
    ]  # fmt: skip


@lru_cache(maxsize=8192)
def _find_word(word: str, language: str) -> tuple[int, ...]:
    """Return the rows of a word: in English, in `language`, or in any if that is unknown.

    English is always tried, because names and terms are often English.
    """
    vectors = load_word_vectors()
    if is_function_word(word, language):
        return ()
    own = (language,) if language else ("en", "de", "es", "fr")
    for each in own:
        place = vectors.find(stem(word)) if each == "en" else _find_foreign(word, each)
        if place >= 0:
            return (place,)
    if language == "de":
        tails = (word[start:] for start in range(3, len(word) - _SHORTEST_PART + 1))
        place = next((place for tail in tails if (place := _find_foreign(tail, "de")) >= 0), -1)
        if place >= 0:
            return (place,)
    if (place := vectors.find(stem(word))) >= 0:
        return (place,)
    return _split_compound(word) if language in ("en", "") else ()


def _find_foreign(word: str, language: str) -> int:
    vectors = load_word_vectors()
    place = vectors.find(f"{language}:{word}")
    for size in range(len(word), SHORTEST_PREFIX - 1, -1):
        if place >= 0:
            break
        place = vectors.find(f"{language}:{word[:size]}*")
    return place


def _split_compound(word: str) -> tuple[int, ...]:
    """Return the rows of the two parts of an English compound; none if it cannot be split."""
    vectors = load_word_vectors()
    for cut in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
        first, second = vectors.find(stem(word[:cut])), vectors.find(stem(word[cut:]))
        if first >= 0 and second >= 0:
            return first, second
    return ()


def _split_chinese(run: str) -> Iterator[int]:
    """Yield the rows of the longest known words, from left to right."""
    vectors = load_word_vectors()
    start = 0
    while start < len(run):
        sizes = range(min(_LONGEST_HAN, len(run) - start), 0, -1)
        size, place = next(
            ((size, place) for size in sizes if (place := vectors.find(f"zh:{run[start : start + size]}")) >= 0),
            (1, -1),
        )
        if place >= 0:
            yield place
        start += size


def combine(weighed: Iterable[tuple[float, int]]) -> Meaning | None:
    """Return the weighted meaning of rows; None if there are none."""
    vectors = load_word_vectors()
    sums = [0.0] * SIZE
    topics: dict[int, float] = {}
    for own, place in weighed:
        weight = own * vectors.weight(place)
        sums = [total + weight * each for total, each in zip(sums, vectors.vector(place), strict=True)]
        for topic, share in vectors.topics(place):
            topics[topic] = topics.get(topic, 0.0) + weight * share
    length = math.hypot(*sums)
    if not length:
        return None
    whole = math.sqrt(math.fsum(share * share for share in topics.values())) or 1.0
    return Meaning(tuple(each / length for each in sums), {topic: share / whole for topic, share in topics.items()})


@cache
def load_usual() -> Vector:
    """Return the mean vector of requests about any subject."""
    vectors = load_word_vectors()
    place = vectors.find(USUAL)
    return tuple(each / LENGTH * vectors.weight(place) for each in vectors.vector(place))


def compare_usual(meaning: Meaning) -> float:
    """Return how similar requests are to a text on average, whatever they are about."""
    return float(sum(map(mul, load_usual(), meaning.vector)))


def compare_vectors(first: Meaning, second: Meaning) -> float:
    return float(sum(map(mul, first.vector, second.vector)))


def compare_topics(first: Meaning, second: Meaning) -> float:
    return math.fsum(share * second.topics.get(topic, 0.0) for topic, share in first.topics.items())
