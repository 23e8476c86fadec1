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
# A beginning that stands for all words with it is at least so long; a part of a compound too.
SHORTEST_PREFIX, _SHORTEST_PART = 3, 4
_LONGEST_HAN = 6

Vector = tuple[float, ...]


class Meaning(Struct, frozen=True):
    """What a text is about."""

    # Of length 1.
    vector: Vector
    # The share of each topic, together of length 1; empty where no word belongs to one.
    topics: dict[int, float]


class WordVectors(Struct, frozen=True):
    hashes: "array[int]"
    rows: memoryview

    def find(self, key: str) -> int:
        """The place of a word; -1 for none."""
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
    """The places of the words of a text that have a meaning; `ignored` are stems."""
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
    """An English word, one of `language`, or of any where that is not known; names and terms are often English."""
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
    """The two words that an English compound consists of; none where it cannot be split."""
    vectors = load_word_vectors()
    for cut in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
        first, second = vectors.find(stem(word[:cut])), vectors.find(stem(word[cut:]))
        if first >= 0 and second >= 0:
            return first, second
    return ()


def _split_chinese(run: str) -> Iterator[int]:
    """The longest words that are known, from the left."""
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
    """The meaning of words at these places, each with a weight; None where there are none."""
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


def compare_vectors(first: Meaning, second: Meaning) -> float:
    return float(sum(map(mul, first.vector, second.vector)))


def compare_topics(first: Meaning, second: Meaning) -> float:
    return math.fsum(share * second.topics.get(topic, 0.0) for topic, share in first.topics.items())
